"""Messages into the turns of a worker: for the running turn alone, in order, and refused in words."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from partyctl_plugins.contract import NoRunningTurnError, ProviderCapabilityError, TurnFailedError
from partyctl_plugins.events import AssistantText, SteerConsumed, SteerDelivered
from partyctl_plugins.manager import ProviderEntry
from partyctl_plugins.records import Interrupt, Loaded, Opened, Result, Steer, Steered

WAITS: list[dict[str, object]] = [{"say": "waiting"}, {"await_steer": True}, {"say": "done"}]

BLOCKING = """
    import threading
    from partyctl_plugins import hookimpl
    from partyctl_plugins.contract import *
    from partyctl_plugins.events import *

    class Conversation:
        conversation_id = "conv-1"
        let_go = threading.Event()
        def turn(self, request, emit):
            emit(AssistantText("on"))
            if request.prompt == "go":
                self.let_go.wait(20)
            return TurnResult(text="done", session_id="conv-1")
        def interrupt(self):
            self.let_go.set()
        def close(self): ...

    class Blocking(Conversation):
        def steer(self, text):
            threading.Event().wait(1.5)

    class Broken(Conversation):
        def steer(self, text):
            raise ValueError("odd")

    class Transport:
        def __init__(self, kind):
            self.kind = kind
            self.profile = ProviderProfile("foreign", supports_steer=True)
        def open(self, spec):
            return {"plain": Conversation, "blocking": Blocking, "broken": Broken}[self.kind]()

    @hookimpl
    def partyctl_transport(kind, options):
        return Transport(options["kind"])
"""


def begun(forked: Any, *turns: list[dict[str, object]]) -> None:
    forked.play(*turns)
    forked.turn("turn-1")
    forked.receive_event(AssistantText)


def foreign(forked: Any, kind: str) -> None:
    (Path(forked.cwd) / "foreign_plugin.py").write_text(textwrap.dedent(BLOCKING))
    forked.load(ProviderEntry("foreign", "foreign_plugin", "foreign-dist", "0.1"), kind=kind)
    forked.receive(Loaded)
    forked.open()
    forked.receive(Opened)
    forked.turn("turn-1")
    forked.receive_event(AssistantText)


def test_a_message_reaches_the_running_turn_and_is_answered_by_its_own_name(forked: Any) -> None:
    begun(forked, WAITS)
    forked.send(Steer("turn-1", "steer-1", "hurry"))
    said = [forked.next(), forked.next()]
    assert [each for each in said if isinstance(each, Steered)] == [Steered("steer-1")]
    assert [each.result.text for each in said if isinstance(each, Result)] == ["done"]
    assert [each for each in forked.events if isinstance(each, SteerDelivered | SteerConsumed)] == [
        SteerDelivered("hurry"),
        SteerConsumed("hurry"),
    ]


def test_one_for_a_turn_that_does_not_run_is_refused(forked: Any) -> None:
    forked.play(WAITS)
    forked.send(Steer("turn-1", "steer-0", "too early"))
    assert isinstance(forked.receive(Steered).exception(), NoRunningTurnError)
    forked.turn("turn-1")
    forked.receive_event(AssistantText)
    forked.send(Steer("turn-0", "steer-1", "for another"))
    refused = forked.receive(Steered)
    assert refused.steer_id == "steer-1"
    assert isinstance(refused.exception(), NoRunningTurnError)
    forked.send(Interrupt("turn-1"))
    assert forked.receive(Result).result.interrupted


def test_a_conversation_that_takes_none_refuses_it(forked: Any, hire: Callable[[], Any]) -> None:
    foreign(forked, "plain")
    forked.send(Steer("turn-1", "steer-1", "x"))
    assert isinstance(forked.receive(Steered).exception(), ProviderCapabilityError)
    broken = hire()
    foreign(broken, "broken")
    broken.send(Steer("turn-1", "steer-1", "x"))
    error = broken.receive(Steered).exception()
    assert isinstance(error, TurnFailedError)
    assert "ValueError: odd" in str(error)


def test_one_that_a_plugin_holds_up_keeps_no_interrupt_waiting_and_lands_before_the_next_turn(forked: Any) -> None:
    foreign(forked, "blocking")
    forked.send(Steer("turn-1", "steer-1", "x"))
    forked.send(Interrupt("turn-1"))
    assert forked.receive(Result).turn_id == "turn-1"
    forked.turn("turn-2", "next")
    assert [type(forked.next()), forked.receive(Result).turn_id] == [Steered, "turn-2"]
