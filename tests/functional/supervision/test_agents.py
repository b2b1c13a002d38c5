"""`partyctl.Agent(...).session(...)`: where its sessions run, and what its arguments do."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import partyctl as ap
from partyctl.agent import Agent
from partyctl.testing import FakeClock, FakeTransport, FakeTurn, RecordingEventHandler, SequentialIds, turn_failed
from partyctl_base.process import children

HELLO = {"script": [[{"say": "hello"}]] * 4}
GO = ap.TurnRequest("go")


FORKING = """
import os, sys, time
import partyctl as ap

agent = ap.Agent(
    "scripted", permissions=ap.NativePermissions.bypass(), approvals=ap.ApprovalPolicy.DENY,
    options={"script": [[{"say": "hello"}]] * 4},
)
def ask(who, session):
    print(f"{who}:", session.run(session.prepare_turn(ap.TurnRequest("go", timeout=20))).result.text, flush=True)

with agent.session(sys.argv[1]) as session:
    ask("parent", session)
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        with agent.session(sys.argv[1]) as own:
            ask("child", own)
        os.write(here, b"!")
        time.sleep(30)
        os._exit(0)
    os.read(there, 1)
    ask("parent", session)
    begun = time.monotonic()
print("closed in time:", time.monotonic() - begun < 4)  # after 8 s the private host is killed
os.kill(child, 9)
os.waitpid(child, 0)
"""


def agent(source: object = "scripted", **more: object) -> ap.Agent:
    usual = {"options": HELLO} if source == "scripted" else {}
    return ap.Agent(  # type: ignore[call-overload, no-any-return]
        source, permissions=ap.NativePermissions.bypass(), approvals=ap.ApprovalPolicy.DENY, **{**usual, **more}
    )


def hosts() -> set[int]:
    """The private hosts that this process has started."""
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(os.getpid())}
    return {pid for pid, command in commands.items() if b"partyctl.host.private" in command}


def ask(session: ap.AgentSession) -> str:
    return session.run(session.prepare_turn(GO)).result.text


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PARTYCTL_RUNTIME_DIR", str(tmp_path))
    yield
    assert not hosts()
    assert not any((tmp_path / "embedded").glob("*"))


class TestByName:
    def test_sessions_share_one_private_host_which_ends_with_the_last(self, tmp_path: Path) -> None:
        with agent().session(tmp_path) as first:
            (host,) = hosts()
            with agent().session(tmp_path) as second:
                assert [ask(first), ask(second)] == ["hello", "hello"]
                assert hosts() == {host}
            assert ask(first) == "hello"
        with agent().session(tmp_path) as third:
            assert ask(third) == "hello"
            assert hosts() != {host}

    def test_sessions_opened_by_several_threads_at_once(self, tmp_path: Path) -> None:
        def use() -> None:
            with agent().session(tmp_path) as session:
                answers.append(ask(session))

        answers: list[str] = []
        users = [threading.Thread(target=use) for _ in range(4)]
        for user in users:
            user.start()
        for user in users:
            user.join()
        assert answers == ["hello"] * 4

    def test_a_private_host_that_dies_costs_its_turn_and_no_session(self, tmp_path: Path) -> None:
        class Killing:
            def on_event(self, event: object) -> None:
                for host in hosts():
                    os.kill(host, signal.SIGKILL)
                    os.waitpid(host, 0)

        hanging = {"script": [[{"say": "hm"}, {"hang": True}]]}
        with agent(options=hanging, event_handlers=[Killing()]).session(tmp_path) as session:
            ticket = session.prepare_turn(GO)
            with pytest.raises(ap.TurnLostError) as caught:
                session.run(ticket)
            assert (caught.value.turn_id, caught.value.in_flight) == (ticket.turn_id, True)
            with pytest.raises(ap.TurnLostError):
                ask(session)

    def test_what_is_broken_is_said_when_the_session_is_made(self, tmp_path: Path) -> None:
        with pytest.raises(ap.AgentSessionError, match="working directory"):
            agent().session(tmp_path / "gone")
        with pytest.raises(ap.AgentSessionError, match="nobody"):
            agent("nobody").session(tmp_path)
        with pytest.raises(ap.AgentSessionError, match="scrpt"):
            agent(options={"scrpt": []}).session(tmp_path)

    def test_a_process_that_is_forked_makes_sessions_of_its_own_and_holds_off_no_end(self, tmp_path: Path) -> None:
        # In a process of its own: pytest has threads, and Python warns of a fork among them.
        forking = subprocess.run([sys.executable, "-c", FORKING, tmp_path], capture_output=True, text=True, timeout=60)
        assert forking.stderr == ""
        assert forking.stdout.splitlines() == ["parent: hello", "child: hello", "parent: hello", "closed in time: True"]

    def test_a_loop_may_use_it(self, tmp_path: Path) -> None:
        async def work() -> list[str]:
            async with agent().session(tmp_path) as session:
                turns = [await session.arun(session.prepare_turn(GO)) for _ in range(2)]
                return [turn.result.text for turn in turns]

        assert asyncio.run(work()) == ["hello", "hello"]

    def test_its_handlers_and_its_directory(self, tmp_path: Path) -> None:
        handler = RecordingEventHandler()
        with agent(event_handlers=[handler], cwd=tmp_path).session() as session:
            ask(session)
        assert handler.events
        assert set(handler.threads) == {threading.get_ident()}


class TestInThisProcess:
    def test_a_transport_a_clock_or_ids_start_no_process(self, tmp_path: Path) -> None:
        with agent(FakeTransport()).session(tmp_path) as session:
            assert ask(session) == "ok"
        with agent(clock=FakeClock(), ids=SequentialIds()).session(tmp_path) as session:
            assert not hosts()
            turn = session.run(session.prepare_turn(GO))
            assert (turn.turn_id, turn.result.text) == ("turn-1", "hello")

    def test_retries_wait_by_its_clock_and_its_policy(self) -> None:
        clock, script = FakeClock(), [turn_failed(ap.FailureKind.TRANSIENT), FakeTurn(text="done")]
        with agent(FakeTransport(script), clock=clock, retry=ap.RetryPolicy((7,))).session("/work/repo") as session:
            assert ask(session) == "done"
        assert clock.waits == [7]

    def test_the_specification_is_what_was_asked_for(self) -> None:
        transport, server = FakeTransport(), ap.StdioMcpServer("files", "files-server")
        made = agent(transport, model="large").session("/work/repo", mcp_servers=[server], reasoning_effort="high")
        with made as session:
            ask(session)
        (spec,) = transport.specs
        assert (spec.cwd, spec.model, spec.mcp_servers) == ("/work/repo", "large", (server,))
        assert (spec.reasoning_effort, spec.approvals) == ("high", ap.ApprovalPolicy.DENY)

    @pytest.mark.parametrize("argument", ["executor", "env", "options", "transport", "confinement"])
    def test_a_transport_brings_its_own(self, argument: str) -> None:
        with pytest.raises(ValueError, match=argument):
            agent(FakeTransport(), **{argument: {"some": "thing"}})

    def test_what_cannot_be_kept_there_is_refused(self) -> None:
        with pytest.raises(ap.ProviderCapabilityError, match="environment"):
            agent(clock=FakeClock(), env={"A": "1"}).session("/")
        with pytest.raises(ap.ProviderCapabilityError, match="executor"):
            agent(executor=object()).session("/")

    def test_a_language_model_has_no_sessions(self) -> None:
        with pytest.raises(TypeError, match="language model"):
            ap.Agent(ap.replies([])).session("/")

    def test_a_store_needs_a_key_and_that_is_said_before_anything_is_started(self) -> None:
        with pytest.raises(ValueError, match="checkpoint_key"):
            agent().session("/", checkpoints=ap.InMemoryCheckpointStore())


def test_the_public_agent_is_one_that_can_be_cast() -> None:
    assert ap.Agent is Agent
    assert isinstance(agent(), ap.Participant)
