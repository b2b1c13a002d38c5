"""Whose an agent session is: what it takes from its caller, a fork of its process, and a caller that forgets it."""

import os
import threading
from collections.abc import Callable

import pytest
from fakes.agent_sessions import GO, Told, local

from partyctl_actors.supervision.agent_session import AgentSession
from partyctl_plugins.contract import CheckpointError, SessionStateError
from partyctl_plugins.testing import FakeTransport

ASKED: dict[str, Callable[[AgentSession], object]] = {
    "prepare_turn": lambda session: session.prepare_turn(GO),
    "interrupt": lambda session: session.interrupt(),
    "release": lambda session: session.release(),
    "go_on": lambda session: session.go_on(),
    "adopt": lambda session: session.adopt("conv-2"),
}


class Closing(FakeTransport):
    """Says when its conversation was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = threading.Event()

    def open(self, spec):  # type: ignore[no-untyped-def]
        conversation = super().open(spec)
        close = conversation.close

        def closed() -> None:
            close()
            self.closed.set()

        conversation.close = closed  # type: ignore[method-assign]
        return conversation


class Store:
    """A store that gives back what it was made with."""

    def __init__(self, kept: object) -> None:
        self.kept = kept

    def load(self, key: str) -> object:
        return self.kept


def in_a_fork(work: Callable[[], object]) -> str:
    """What `work` returns or raises in a fork of this process, as text."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            said = str(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        said = file.read()
    os.waitpid(pid, 0)
    return said


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_a_fork_is_refused_by_the_pid_of_the_sessions_process(
    ask: Callable[[AgentSession], object],
) -> None:
    told, _ = local()
    said = in_a_fork(lambda: ask(told.session))
    assert said.startswith(f"SessionStateError: the session belongs to another process (pid {os.getpid()})")


def test_a_ticket_is_not_run_by_a_fork_though_a_thread_had_the_lock() -> None:
    told, transport = local()
    ticket = told.session.prepare_turn(GO)
    with told.session._core.lock:
        assert in_a_fork(lambda: told.session.run(ticket)).startswith("SessionStateError")
    assert not transport.specs
    assert told.session.run(ticket).result.text == "ok"


def test_a_fork_that_closes_a_session_closes_nothing_of_its_owner() -> None:
    told, transport = local()
    told.run()
    assert in_a_fork(lambda: (told.session.close(), transport.conversations[0].close_calls)) == "(None, 0)"
    assert told.run().result.text == "ok"


def test_a_session_that_nobody_has_any_more_closes_its_connection() -> None:
    transport = Closing()
    told: Told | None = local(transport)[0]
    assert told is not None
    told.run()
    told = None
    assert transport.closed.wait(10)


def test_what_is_no_ticket_interrupts_nothing() -> None:
    told, _ = local()
    with pytest.raises(TypeError, match="ticket must be TurnTicket, not 'turn-1'"):
        told.session.interrupt("turn-1")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [7, b"conv-1", None])
def test_what_is_no_name_of_a_conversation_is_not_adopted(name: object) -> None:
    told, _ = local()
    with pytest.raises(TypeError, match="conversation_id"):
        told.session.adopt(name)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="previous_usage"):
        told.session.adopt("conv-1", previous_usage=7)  # type: ignore[arg-type]
    assert told.session.conversation_id is None


@pytest.mark.parametrize("kept", ["conv-1", ("conv-1", None), 0])
def test_a_store_that_gives_no_checkpoint_back_is_refused_by_what_it_gave(kept: object) -> None:
    with pytest.raises(CheckpointError, match=r"a store did not give a checkpoint back \(key\): it gave"):
        local(store=Store(kept))


def test_ids_that_are_no_text_leave_no_turn_prepared() -> None:
    class Numbers:
        def new_id(self, prefix: str) -> int:
            return 7

    told, _ = local(ids=Numbers())
    with pytest.raises(ValueError, match=r"ids\.new_id"):
        told.session.prepare_turn(GO)
    assert told.session.state.turn is None


def test_the_error_of_a_fork_says_what_to_do() -> None:
    told, _ = local()
    told.session._core.pid += 1
    with pytest.raises(SessionStateError, match="Make a session in the process that uses it"):
        told.session.steer("left")
