"""The supervisor against workers that are tasks and speak real records over real channels."""

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest
from fakes.launcher import FakeLauncher, FakeWorker, Play
from fakes.quiet import quietly

from partyctl_actors.supervision import Supervisor, SupervisorLimits, WorkerPlan
from partyctl_base.channel import Channel
from partyctl_confinement.errors import SpawnRefused
from partyctl_plugins.contract import (
    ApprovalPolicy,
    CliExitError,
    ConversationSpec,
    NativePermissions,
    PluginLoadError,
    ProviderProfile,
    TransportKind,
    TurnFailedError,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.errors import (
    AgentSessionError,
    FailureKind,
    RecordError,
    SessionResumeError,
    SessionStateError,
    TurnTimeoutError,
)
from partyctl_plugins.events import AgentEvent, AssistantText, ToolCall, ToolResult, TurnInterrupted
from partyctl_plugins.failures import describe
from partyctl_plugins.manager import ProviderEntry
from partyctl_plugins.records import (
    Close,
    Closed,
    Command,
    Event,
    Failed,
    Interrupt,
    Load,
    Loaded,
    Open,
    Opened,
    Phase,
    Ready,
    Report,
    Result,
    Turn,
    decode_command,
    encode_report,
)

ENTRY = ProviderEntry("fake", "fake_plugin", "fakes", "1.0")
GO = TurnRequest("go")


def plan(**offered: str) -> WorkerPlan:
    spec = ConversationSpec("/tmp", NativePermissions.bypass(), ApprovalPolicy.DENY)
    return WorkerPlan(ENTRY, TransportKind.STREAM, spec, offered=offered, labels={"role": "Writer"})


class Playing:
    """A worker's part: what it answers to each kind of command. None: nothing; bytes: as they are; "exit": it ends.

    `commands` is what it heard.
    """

    def __init__(self, **answers: object) -> None:
        self.answers: dict[str, object] = {
            "ready": Ready(1),
            "load": Loaded(ProviderProfile("fake", auth_env_vars=("KEY",))),
            "open": Opened("c-1"),
            "turn": lambda command: [Result(command.turn_id, TurnResult(text="done"), "c-2")],
            "close": [Closed(), "exit"],
        } | answers
        self.commands: list[Command] = []

    async def __call__(self, worker: FakeWorker) -> None:
        await self._do(worker, self.answers["ready"])
        while not worker.exited and (received := await worker.channel.receive()) is not None:
            command = decode_command(received.data)
            self.commands.append(command)
            answer = self.answers.get(type(command).__name__.lower())
            await self._do(worker, answer(command) if callable(answer) else answer)

    async def _do(self, worker: FakeWorker, answer: object) -> None:
        for each in answer if isinstance(answer, list) else [answer]:
            if isinstance(each, bytes):
                await worker.says(each)
            elif each == "exit":
                await worker.exits(3, stderr=b"first line\nlast words")
            elif each is not None:
                await worker.says(encode_report(each))

    def heard(self, kind: type) -> list[Command]:
        return [command for command in self.commands if isinstance(command, kind)]


class Bench:
    """A supervisor, its launcher and what it was told."""

    def __init__(self, play: Play, limits: SupervisorLimits, *, refuses: bool = False, deaf: bool = False) -> None:
        self.launcher = FakeLauncher(play, refuses=refuses, deaf=deaf)
        self.events: list[AgentEvent] = []
        self.on_event: Callable[[AgentEvent], None] = self.events.append
        self.supervisor = Supervisor(
            self.launcher.client, plan(KEY="k", OTHER="o"), lambda event: self.on_event(event), limits
        )


def supervising(
    play: Play,
    work: Callable[[Bench], Awaitable[None]],
    *,
    limits: SupervisorLimits | None = None,
    refuses: bool = False,
    deaf: bool = False,
) -> Bench:
    async def supervise() -> Bench:
        bench = Bench(play, limits or SupervisorLimits(), refuses=refuses, deaf=deaf)
        try:
            await work(bench)
        finally:
            await bench.supervisor.close()
            await bench.launcher.close()
        return bench

    return quietly(supervise())


def failed(phase: Phase, error: AgentSessionError, turn_id: str = "") -> Report:
    return Failed(phase, describe(error, ENTRY, phase.value), turn_id)


async def one_turn(bench: Bench) -> None:
    await bench.supervisor.open()
    assert bench.supervisor.state == "idle"
    assert (await bench.supervisor.turn("t-1", GO)).text == "done"
    assert bench.supervisor.conversation_id == "c-2"


def test_a_session_is_hired_loaded_opened_asked_and_closed_in_this_order() -> None:
    playing = Playing()
    supervising(playing, one_turn)
    assert [type(command) for command in playing.commands] == [Load, Open, Turn, Close]


def test_whoever_waits_hears_of_the_worker_as_soon_as_it_is_hired() -> None:
    async def work(bench: Bench) -> None:
        told: list[object] = []
        await bench.supervisor.open(lambda *about: told.append(about))
        assert told == [(1000, "unconfined")]
        assert bench.supervisor.worker_id == bench.launcher.workers[0].id
        assert bench.launcher.workers[0].spawn["name"] == "Writer fake"

    supervising(Playing(), work)


def test_a_plugin_gets_only_the_variables_its_profile_names() -> None:
    playing = Playing()
    supervising(playing, one_turn)
    (open_,) = playing.heard(Open)
    assert isinstance(open_, Open)
    assert open_.env == {"KEY": "k"}


def test_events_of_the_turn_are_told_and_those_of_another_are_not() -> None:
    def turn(command: Turn) -> list[object]:
        stale = Event("t-0", TurnInterrupted())
        return [stale, Event("t-1", TurnInterrupted()), Result("t-1", TurnResult(text="done"), "c-2"), stale]

    bench = supervising(Playing(turn=turn), one_turn)
    assert bench.events == [TurnInterrupted()]


def test_a_watcher_that_raises_neither_stops_the_turn_nor_hides(caplog: pytest.LogCaptureFixture) -> None:
    async def work(bench: Bench) -> None:
        def broken(event: AgentEvent) -> None:
            raise RuntimeError("watcher")

        bench.on_event = broken
        await one_turn(bench)

    def turn(command: Turn) -> list[object]:
        return [Event("t-1", TurnInterrupted()), Result("t-1", TurnResult(text="done"), "c-2")]

    supervising(Playing(turn=turn), work)
    assert "the turn goes on" in caplog.text


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_failed_turn_keeps_its_kind_and_the_session_goes_on(kind: FailureKind) -> None:
    failures = [failed(Phase.TURN, TurnFailedError("no", kind=kind), "t-1")]

    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        with pytest.raises(TurnFailedError) as caught:
            await bench.supervisor.turn("t-1", GO)
        assert caught.value.kind is kind
        assert (await bench.supervisor.turn("t-2", GO)).text == "done"

    def turn(command: Turn) -> list[object]:
        return [failures.pop() if failures else Result(command.turn_id, TurnResult(text="done"))]

    supervising(Playing(turn=turn), work)


def test_a_lost_conversation_is_told_as_such() -> None:
    async def work(bench: Bench) -> None:
        with pytest.raises(SessionResumeError):
            await bench.supervisor.open()

    supervising(Playing(open=failed(Phase.OPEN, SessionResumeError(("x",), 1, "c-0"))), work)


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ({"ready": "exit"}, PluginLoadError),
        ({"ready": [Ready(1), "exit"]}, PluginLoadError),
        ({"load": "exit"}, PluginLoadError),
        ({"open": "exit"}, CliExitError),
        ({"turn": "exit"}, CliExitError),
    ],
)
def test_a_worker_that_dies_fails_what_is_under_way_with_status_and_last_words(
    answers: dict[str, object], error: type[AgentSessionError]
) -> None:
    async def work(bench: Bench) -> None:
        with pytest.raises(error) as caught:
            await one_turn(bench)
        assert "exited with status 3" in str(caught.value)
        assert "last words" in str(caught.value)
        assert bench.supervisor.state == "failed"

    supervising(Playing(**answers), work)


def test_a_worker_that_died_between_two_turns_fails_the_next_one_with_the_same_cause() -> None:
    async def work(bench: Bench) -> None:
        await one_turn(bench)
        await bench.launcher.workers[0].exits(None, signal=11)
        await asyncio.sleep(0.1)
        for _ in range(2):
            with pytest.raises(CliExitError, match=r"SIGSEGV.* gets a new worker"):
                await bench.supervisor.turn("t-2", GO)

    supervising(Playing(), work)


@pytest.mark.parametrize(
    ("silent", "error", "limit"),
    [("ready", PluginLoadError, 1.0), ("load", PluginLoadError, 2.0), ("open", TurnTimeoutError, 3.0)],
)
def test_a_step_that_takes_too_long_kills_the_worker(silent: str, error: type[AgentSessionError], limit: float) -> None:
    async def work(bench: Bench) -> None:
        began = asyncio.get_running_loop().time()
        with pytest.raises(error, match=f"within {limit:g} s"):
            await bench.supervisor.open()
        assert asyncio.get_running_loop().time() - began == pytest.approx(limit, abs=0.1)
        assert bench.launcher.kills == [bench.launcher.workers[0].id]

    supervising(Playing(**{silent: None}), work, limits=SupervisorLimits(hire=1.0, load=2.0, open=3.0))


def test_a_turn_past_its_own_timeout_and_the_grace_kills_the_worker() -> None:
    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        with pytest.raises(TurnTimeoutError):
            await bench.supervisor.turn("t-1", TurnRequest("go", timeout=1.0))
        assert len(bench.launcher.kills) == 1
        with pytest.raises(TurnTimeoutError):
            await bench.supervisor.turn("t-2", GO)

    supervising(Playing(turn=None), work)


def test_an_interrupted_turn_ends_with_what_the_worker_reports() -> None:
    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        turn = asyncio.ensure_future(bench.supervisor.turn("t-1", GO))
        await asyncio.sleep(0.1)
        await bench.supervisor.interrupt()
        assert (await turn).interrupted
        assert bench.launcher.kills == []

    def interrupt(command: Interrupt) -> list[object]:
        return [Result(command.turn_id, TurnResult(interrupted=True))]

    supervising(Playing(turn=None, interrupt=interrupt), work)


def test_an_interrupt_that_is_ignored_kills_the_worker_after_its_grace() -> None:
    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        turn = asyncio.ensure_future(bench.supervisor.turn("t-1", GO))
        await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        await bench.supervisor.interrupt()
        assert asyncio.get_running_loop().time() - began == pytest.approx(2.0, abs=0.1)
        with pytest.raises(CliExitError, match="SIGKILL"):
            await turn

    supervising(Playing(turn=None), work, limits=SupervisorLimits(interrupt=2.0))


def test_an_interrupt_without_a_turn_does_nothing() -> None:
    playing = Playing()

    async def work(bench: Bench) -> None:
        await bench.supervisor.interrupt()
        await one_turn(bench)
        await bench.supervisor.interrupt()

    supervising(playing, work)
    assert playing.heard(Interrupt) == []


def test_two_turns_at_once_are_refused_and_the_first_goes_on() -> None:
    def turn(command: Turn) -> list[object]:
        asyncio.get_running_loop().call_later(1.0, asked.set)
        return []

    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        first = asyncio.ensure_future(bench.supervisor.turn("t-1", GO))
        await asyncio.sleep(0.1)
        with pytest.raises(SessionStateError, match="busy"):
            await bench.supervisor.turn("t-2", GO)
        await asked.wait()
        await bench.launcher.workers[0].says(encode_report(Result("t-1", TurnResult(text="done"))))
        assert (await first).text == "done"

    asked = asyncio.Event()
    supervising(Playing(turn=turn), work)


def test_a_session_is_opened_once() -> None:
    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        with pytest.raises(SessionStateError):
            await bench.supervisor.open()
        await bench.supervisor.close()
        with pytest.raises(SessionStateError):
            await bench.supervisor.open()
        with pytest.raises(SessionStateError, match="closed"):
            await bench.supervisor.turn("t-1", GO)

    supervising(Playing(), work)


def test_a_turn_that_was_cancelled_leaves_only_closing() -> None:
    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        turn = asyncio.ensure_future(bench.supervisor.turn("t-1", GO))
        await asyncio.sleep(0.1)
        turn.cancel()
        await asyncio.wait((turn,))
        assert bench.supervisor.state == "abandoned"
        with pytest.raises(SessionStateError, match="abandoned"):
            await bench.supervisor.turn("t-2", GO)

    supervising(Playing(turn=None), work)


def test_closing_twice_at_once_and_again_closes_once() -> None:
    playing = Playing()

    async def work(bench: Bench) -> None:
        await bench.supervisor.close()
        await one_turn(bench)
        await asyncio.gather(bench.supervisor.close(), bench.supervisor.close())
        await bench.supervisor.close()
        assert bench.supervisor.state == "closed"
        assert bench.supervisor.worker_id is None

    supervising(playing, work)
    assert len(playing.heard(Close)) == 1


def test_a_worker_that_does_not_close_is_killed_even_if_its_closer_loses_patience() -> None:
    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        closing = asyncio.ensure_future(bench.supervisor.close())
        await asyncio.sleep(0.5)
        closing.cancel()
        await asyncio.sleep(2.0)
        assert bench.launcher.workers[0].exited
        assert bench.supervisor.state == "closed"

    supervising(Playing(close=None), work, limits=SupervisorLimits(close=1.0))


def test_a_launcher_that_kills_nobody_is_not_waited_for_for_ever() -> None:
    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        began = asyncio.get_running_loop().time()
        await bench.supervisor.close()
        assert asyncio.get_running_loop().time() - began < 4.0

    supervising(Playing(close=None), work, limits=SupervisorLimits(close=1.0, kill=1.0), deaf=True)


def test_a_refused_worker_is_an_error_and_needs_no_closing() -> None:
    async def work(bench: Bench) -> None:
        with pytest.raises(SpawnRefused, match="it is full"):
            await bench.supervisor.open()
        assert bench.supervisor.state == "failed"
        await bench.supervisor.close()

    supervising(Playing(), work, refuses=True)


@pytest.mark.parametrize("junk", [b"", b"\xc1", b"\x80"])
def test_a_worker_that_sends_no_record_is_killed(junk: bytes) -> None:
    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        with pytest.raises(RecordError):
            await bench.supervisor.turn("t-1", GO)
        await asyncio.sleep(0.1)
        assert bench.launcher.workers[0].exited

    supervising(Playing(turn=junk), work)


def test_the_result_of_another_turn_is_not_taken_for_this_one() -> None:
    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        with pytest.raises(RecordError, match="t-0"):
            await bench.supervisor.turn("t-1", GO)

    supervising(Playing(turn=Result("t-0", TurnResult(text="old"))), work)


def test_an_answer_of_another_kind_kills_the_worker() -> None:
    async def work(bench: Bench) -> None:
        with pytest.raises(TurnFailedError, match="answered Opened when asked to load"):
            await bench.supervisor.open()
        assert len(bench.launcher.kills) == 1

    supervising(Playing(load=Opened("c-1")), work)


def test_a_launcher_that_is_lost_fails_the_turn() -> None:
    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        turn = asyncio.ensure_future(bench.supervisor.turn("t-1", GO))
        await asyncio.sleep(0.1)
        await bench.launcher.close()
        with pytest.raises(CliExitError):
            await turn

    supervising(Playing(turn=None), work)


def test_descriptors_that_a_worker_sends_are_closed() -> None:
    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        before = len(os.listdir("/proc/self/fd"))
        one, other = Channel.pair()
        await bench.launcher.workers[0].channel.send(encode_report(Ready(1)), (one.fileno(),))
        one.close()
        other.close()
        await asyncio.sleep(0.1)
        assert len(os.listdir("/proc/self/fd")) == before

    supervising(Playing(), work)


def test_a_supervisor_that_was_stopped_for_longer_than_its_limits_kills_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other side was stopped with it, and answers as soon as both go on."""

    async def work(bench: Bench) -> None:
        await bench.supervisor.open()
        loop = asyncio.get_running_loop()
        running = loop.time
        turn = asyncio.ensure_future(bench.supervisor.turn("t-1", TurnRequest("go", timeout=30)))
        await asyncio.sleep(1)
        monkeypatch.setattr(loop, "time", lambda: running() + 3600)
        await asyncio.sleep(0.5)
        await bench.launcher.workers[0].says(encode_report(Result("t-1", TurnResult(text="done"), "c-1")))
        assert (await turn).text == "done"
        assert bench.supervisor.state == "idle"

    supervising(Playing(turn=None), work)


QUIET = TurnRequest("go", idle_timeout=60)
MINUTES = 60.0


def obedient(command: Interrupt) -> list[object]:
    return [Result(command.turn_id, TurnResult(interrupted=True), "c-1")]


class TestSilence:
    """A limit of a minute, and a provider that may have good reasons to tell nothing for longer."""

    async def tell(self, bench: Bench, *events: AgentEvent) -> None:
        for event in events:
            await bench.launcher.workers[0].says(encode_report(Event("t-1", event)))

    async def answer(self, bench: Bench) -> None:
        await bench.launcher.workers[0].says(encode_report(Result("t-1", TurnResult(text="done"), "c-1")))

    @pytest.mark.parametrize("obeys", [True, False])
    def test_a_turn_of_which_nothing_is_told_is_ended(self, obeys: bool) -> None:
        async def work(bench: Bench) -> None:
            await bench.supervisor.open()
            turn = asyncio.ensure_future(bench.supervisor.turn("t-1", QUIET))
            await asyncio.sleep(30)
            await self.tell(bench, AssistantText("let me think"))
            began = asyncio.get_running_loop().time()
            with pytest.raises(TurnTimeoutError, match="told nothing for 60 s") as late:
                await turn
            assert late.value.timeout == 60
            grace = 0.0 if obeys else 2.0
            assert asyncio.get_running_loop().time() - began == pytest.approx(60 + grace, abs=0.5)
            assert (bench.launcher.kills == []) is obeys

        playing = Playing(turn=None, interrupt=obedient if obeys else None)
        supervising(playing, work, limits=SupervisorLimits(interrupt=2.0))
        assert len(playing.heard(Interrupt)) == 1

    def test_a_tool_may_take_its_time(self) -> None:
        async def work(bench: Bench) -> None:
            await bench.supervisor.open()
            turn = asyncio.ensure_future(bench.supervisor.turn("t-1", QUIET))
            await asyncio.sleep(1)
            await self.tell(bench, ToolCall("a", "bash"), ToolCall("b", "bash"), ToolResult("a", "bash"))
            await asyncio.sleep(10 * MINUTES)
            assert not turn.done()
            await self.tell(bench, ToolResult("b", "bash"))
            await asyncio.sleep(59)
            await self.answer(bench)
            assert (await turn).text == "done"

        supervising(Playing(turn=None), work)

    def test_after_it_the_limit_counts_again(self) -> None:
        async def work(bench: Bench) -> None:
            await bench.supervisor.open()
            turn = asyncio.ensure_future(bench.supervisor.turn("t-1", QUIET))
            await asyncio.sleep(1)
            await self.tell(bench, ToolCall("a", "bash"))
            await asyncio.sleep(10 * MINUTES)
            await self.tell(bench, ToolResult("a", "bash"))
            with pytest.raises(TurnTimeoutError):
                await turn

        supervising(Playing(turn=None, interrupt=obedient), work)

    def test_a_turn_that_goes_on_telling_is_never_too_long(self) -> None:
        async def work(bench: Bench) -> None:
            await bench.supervisor.open()
            turn = asyncio.ensure_future(bench.supervisor.turn("t-1", QUIET))
            for _ in range(24 * 60):
                await asyncio.sleep(5)
                await self.tell(bench, AssistantText("."))
            await self.answer(bench)
            assert (await turn).text == "done"

        supervising(Playing(turn=None), work)

    def test_one_that_was_interrupted_by_its_caller_is_interrupted(self) -> None:
        async def work(bench: Bench) -> None:
            await bench.supervisor.open()
            turn = asyncio.ensure_future(bench.supervisor.turn("t-1", QUIET))
            await asyncio.sleep(1)
            await bench.supervisor.interrupt()
            assert (await turn).interrupted
            await asyncio.sleep(10 * MINUTES)

        supervising(Playing(turn=None, interrupt=obedient), work)

    def test_who_was_suspended_for_longer_heard_nothing_and_ends_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def work(bench: Bench) -> None:
            await bench.supervisor.open()
            loop = asyncio.get_running_loop()
            running = loop.time
            turn = asyncio.ensure_future(bench.supervisor.turn("t-1", QUIET))
            await asyncio.sleep(1)
            monkeypatch.setattr(loop, "time", lambda: running() + 3600)
            await asyncio.sleep(0.5)
            await self.answer(bench)
            assert (await turn).text == "done"

        supervising(Playing(turn=None), work)
