"""Supervisors that die, and others that attach to their workers: what goes on, what is found, and who is refused."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from partyctl_actors.supervision import Supervisor, SupervisorLimits, WorkerPlan
from partyctl_actors.supervision.policy_events import Found
from partyctl_base.aio import AsyncChannel
from partyctl_base.process import ProcessIdentity
from partyctl_confinement.client import Hired, LauncherClient
from partyctl_confinement.control import LauncherProcess
from partyctl_confinement.environment import LAUNCHER_ALLOW, scrubbed
from partyctl_confinement.errors import AttachRefused, LauncherLost
from partyctl_plugins.backlog import MOST
from partyctl_plugins.contract import (
    ApprovalPolicy,
    CliExitError,
    ConversationSpec,
    NativePermissions,
    TransportKind,
    TurnFailedError,
    TurnRequest,
)
from partyctl_plugins.errors import SessionStateError
from partyctl_plugins.events import AgentEvent, AssistantText, EventsDropped
from partyctl_plugins.manager import resolve

Steps = list[dict[str, object]]
GO = TurnRequest("go")
LIMITS = SupervisorLimits(hire=30, load=30)


class Node:
    """A client of the launcher with one supervisor, which can die without a word."""

    def __init__(self, launcher: LauncherProcess, plan: WorkerPlan) -> None:
        self._channel = AsyncChannel(launcher.add_client("node"))
        self.client = LauncherClient(self._channel)
        self.events: list[AgentEvent] = []
        self.happened = asyncio.Event()
        self.supervisor = Supervisor(self.client, plan, self._heard, LIMITS)
        self.pid = 0

    def hired(self, pid: int, confinement: str) -> None:
        self.pid = pid

    async def begin(self, ticket: str) -> "asyncio.Task[object]":
        """Begin a turn, and wait until it is under way."""
        turn = asyncio.ensure_future(self.supervisor.turn(ticket, GO))
        await self.happened.wait()
        return turn

    async def die(self) -> None:
        """All of its descriptors are closed, as by the kernel."""
        self._channel.close()
        if self.supervisor._link.hired is not None:
            self.supervisor._link.hired.channel.close()
        await self.client.close()

    def _heard(self, event: AgentEvent) -> None:
        self.events.append(event)
        if isinstance(event, AssistantText):
            self.happened.set()


class Stand:
    """Nodes over one launcher, one after another."""

    def __init__(self, launcher: LauncherProcess, directory: Path) -> None:
        self.launcher = launcher
        self.directory = directory
        self.nodes: list[Node] = []

    def node(self, *turns: Steps, epoch: int, session: str = "s-1") -> Node:
        spec = ConversationSpec(str(self.directory), NativePermissions.bypass(), ApprovalPolicy.DENY)
        options = {"script": [*turns]}
        env = {"PATH": os.environ["PATH"]}
        labels = {"session": session} if session else {}
        plan = WorkerPlan(
            resolve("scripted"), TransportKind.STREAM, spec, options=options, env=env, labels=labels, epoch=epoch
        )
        made = Node(self.launcher, plan)
        self.nodes.append(made)
        return made

    async def opened(self, *turns: Steps, epoch: int = 1, session: str = "s-1") -> Node:
        made = self.node(*turns, epoch=epoch, session=session)
        await made.supervisor.open(made.hired)
        return made

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(15):
            while not condition():
                await asyncio.sleep(0.01)

    def gate(self, name: str) -> Path:
        """A file that a turn can wait for."""
        return self.directory / name


@pytest.fixture
def standing(tmp_path: Path) -> Callable[..., None]:
    """Starts a launcher, does the work, closes every node; fails if a worker is left."""

    def stand(work: Callable[[Stand], Awaitable[None]], unattached_max: float | None = None) -> None:
        environment = scrubbed(os.environ, LAUNCHER_ALLOW)
        launcher = LauncherProcess.start(
            preload=["partyctl_plugins.worker"], environment=environment, timeout=40, unattached_max=unattached_max
        )

        async def run() -> None:
            made = Stand(launcher, tmp_path)
            try:
                await work(made)
            finally:
                for node in made.nodes:
                    with suppress(Exception):
                        await node.supervisor.close()
                    await node.client.close()
            await made.until(lambda: launcher.workers() == [])

        try:
            asyncio.run(asyncio.wait_for(run(), 60))
        finally:
            launcher.stop()

    return stand


THINK: Steps = [{"say": "thinking"}, {"think": 1.0}, {"say": "thought"}]
SLEEP: Steps = [{"say": "thinking"}, {"hang": True}]


async def end_of(node: Node, turn: "asyncio.Task[object]") -> None:
    await node.die()
    with pytest.raises(Exception, match="ended"):
        await turn


def test_a_turn_goes_on_when_its_supervisor_dies_and_the_next_one_gets_its_result(standing) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened(THINK, [{"say": "next"}])
        await end_of(first, await first.begin("t1"))
        second = stand.node(epoch=2)
        assert await second.supervisor.attach("t1", second.hired) == (Found.BUSY, None)
        assert second.pid == first.pid
        assert (await second.supervisor.result()).text == "thought"
        assert second.supervisor.conversation_id == first.supervisor.conversation_id
        assert second.supervisor.profile == first.supervisor.profile
        await second.supervisor.acknowledge("t1")
        assert (await second.supervisor.turn("t2", GO)).text == "next"

    standing(work)


def test_events_from_the_attaching_on_are_heard(standing) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened(THINK)
        await end_of(first, await first.begin("t1"))
        second = stand.node(epoch=2)
        await second.supervisor.attach("t1")
        await second.supervisor.result()
        assert AssistantText("thought") in second.events
        assert AssistantText("thinking") not in second.events

    standing(work)


def test_what_happened_while_nobody_was_there_is_told_before_the_result(standing) -> None:
    async def work(stand: Stand) -> None:
        said: Steps = [{"say": f"thought {number}"} for number in range(5)]
        first = await stand.opened([{"say": "thinking"}, {"think": 0.5}, {"tool": "read"}, *said], [{"say": "next"}])
        await end_of(first, await first.begin("t1"))
        await asyncio.sleep(0.8)
        second = stand.node(epoch=2)
        await second.supervisor.attach("t1")
        await second.supervisor.result()
        heard = [type(event).__name__ for event in second.events]
        assert heard == ["ToolCall", "ToolResult", *["AssistantText"] * 5, "UsageReport"]
        assert second.events[-2] == AssistantText("thought 4")
        second.events.clear()
        await second.supervisor.turn("t2", GO)
        assert AssistantText("next") in second.events
        assert AssistantText("thought 4") not in second.events

    standing(work)


def test_of_more_than_can_be_kept_the_newest_are_told_and_the_others_are_counted(standing) -> None:
    async def work(stand: Stand) -> None:
        pieces = [f"{number} " for number in range(MOST + 50)]
        first = await stand.opened([{"say": "thinking"}, {"think": 0.5}, {"stream": pieces}])
        await end_of(first, await first.begin("t1"))
        await asyncio.sleep(0.8)
        second = stand.node(epoch=2)
        await second.supervisor.attach("t1")
        await second.supervisor.result()
        dropped, *heard, _usage = second.events
        assert dropped == EventsDropped(51)
        assert heard == [AssistantText(piece) for piece in pieces[51:]]

    standing(work)


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_turn_that_ended_while_nobody_was_there_is_found_finished(standing, size: int) -> None:
    async def work(stand: Stand) -> None:
        said = "x" * size
        first = await stand.opened([{"say": "thinking"}, {"think": 0.3}, {"say": said}], [{"say": "next"}])
        await end_of(first, await first.begin("t1"))
        await asyncio.sleep(0.6)  # what the script takes; were it not over, the test would still be right
        second = stand.node(epoch=2)
        assert await second.supervisor.attach("t1") == (Found.BUSY, None)
        assert (await second.supervisor.result()).text == said
        assert (await second.supervisor.turn("t2", GO)).text == "next"

    standing(work)


def test_a_failure_that_nobody_heard_is_found_too(standing) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened([{"say": "thinking"}, {"think": 0.2}, {"fail": "transient"}])
        await end_of(first, await first.begin("t1"))
        second = stand.node(epoch=2)
        assert await second.supervisor.attach("t1") == (Found.BUSY, None)
        with pytest.raises(TurnFailedError) as caught:
            await second.supervisor.result()
        assert caught.value.kind == "transient"

    standing(work)


def test_an_outcome_is_found_again_and_again_until_it_is_acknowledged(standing) -> None:
    async def work(stand: Stand) -> None:
        node = await stand.opened([{"say": "answer"}])
        assert (await node.supervisor.turn("t1", GO)).text == "answer"
        for epoch in (2, 3):
            await node.die()
            node = stand.node(epoch=epoch)
            assert await node.supervisor.attach("t1") == (Found.BUSY, None)
            assert (await node.supervisor.result()).text == "answer"
        await node.supervisor.acknowledge("t1")
        await node.die()
        last = stand.node(epoch=4)
        assert await last.supervisor.attach("t1") == (Found.AT_REST, None)
        assert last.supervisor.state == "idle"

    standing(work)


def test_a_turn_that_was_not_asked_for_is_known_and_the_outcome_before_it_forgotten(standing) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened([{"say": "answer"}], [{"say": "next"}])
        await first.supervisor.turn("t1", GO)
        await first.die()
        second = stand.node(epoch=2)
        assert await second.supervisor.attach("t2") == (Found.AT_REST, None)
        assert (await second.supervisor.turn("t2", GO)).text == "next"

    standing(work)


def test_a_running_turn_can_be_interrupted_by_the_next_supervisor(standing) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened(SLEEP)
        await end_of(first, await first.begin("t1"))
        second = stand.node(epoch=2)
        await second.supervisor.attach("t1")
        waiting = asyncio.ensure_future(second.supervisor.result())
        await asyncio.sleep(0)
        await second.supervisor.interrupt()
        assert (await waiting).interrupted

    standing(work)


def test_a_worker_that_died_unattached_is_told_with_its_end(standing) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened(SLEEP)
        await end_of(first, await first.begin("t1"))
        os.kill(first.pid, signal.SIGKILL)
        await stand.until(lambda: stand.launcher.workers() == [])
        second = stand.node(epoch=2)
        found, loss = await second.supervisor.attach("t1")
        assert found is Found.GONE
        assert isinstance(loss, CliExitError)
        assert loss.returncode == -signal.SIGKILL
        assert await stand.node(epoch=2, session="another").supervisor.attach("t1") == (Found.GONE, None)

    standing(work)


def test_a_worker_that_nobody_attaches_is_killed(standing) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened(SLEEP)
        await end_of(first, await first.begin("t1"))
        assert [row.client for row in stand.launcher.workers()] == [""]
        await stand.until(lambda: stand.launcher.workers() == [])
        second = stand.node(epoch=2)
        found, loss = await second.supervisor.attach("t1")
        assert found is Found.GONE
        assert loss is not None

    standing(work, unattached_max=0.3)


def test_a_worker_of_no_session_ends_with_its_client_and_so_does_one_whose_client_says_good_bye(standing) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened(SLEEP, session="")
        await end_of(first, await first.begin("t1"))
        second = await stand.opened(SLEEP)
        await second.client.close()
        for pid in (first.pid, second.pid):
            await stand.until(lambda pid=pid: ProcessIdentity.of(pid) is None)

    standing(work, unattached_max=300)


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_that_is_not_later_is_refused_and_nothing_changes(standing, epoch: int) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened(THINK)
        turn = await first.begin("t1")
        foreign = stand.node(epoch=epoch)
        with pytest.raises(AttachRefused, match="not later"):
            await foreign.supervisor.attach("t1")
        with pytest.raises(SessionStateError):
            await foreign.supervisor.attach("t1")
        assert (await turn).text == "thought"  # type: ignore[attr-defined]

    standing(work)


def test_a_later_epoch_takes_the_worker_from_a_supervisor_that_lives(standing) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened(THINK, [{"say": "next"}])
        turn = await first.begin("t1")
        second = stand.node(epoch=2)
        assert await second.supervisor.attach("t1") == (Found.BUSY, None)
        with pytest.raises(CliExitError, match="taken over"):
            await turn
        assert (await second.supervisor.result()).text == "thought"
        with pytest.raises(CliExitError):
            await first.supervisor.turn("t2", GO)
        assert (await second.supervisor.turn("t2", GO)).text == "next"

    standing(work)


def test_a_worker_that_waits_for_room_goes_on_when_its_reader_is_gone(standing) -> None:
    async def work(stand: Stand) -> None:
        flood: Steps = [{"say": "thinking"}, {"stream": ["y" * 60_000] * 100}, {"say": "done"}]
        first = await stand.opened(flood)
        # It stops reading, as one that is stopped does, so that the worker fills its socket.
        hired = first.supervisor._link.hired
        assert isinstance(hired, Hired)
        hired.channel._pause_reading()
        turn = asyncio.ensure_future(first.supervisor.turn("t1", GO))
        await asyncio.sleep(0.3)
        await end_of(first, turn)
        second = stand.node(epoch=2)
        assert await second.supervisor.attach("t1") == (Found.BUSY, None)
        assert (await second.supervisor.result()).text.endswith("done")

    standing(work)


def test_a_half_of_a_command_that_the_dead_one_sent_is_not_taken_for_a_beginning(standing) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened([{"say": "next"}])
        hired = first.supervisor._link.hired
        assert isinstance(hired, Hired)
        hired.channel._channel.try_send_record(b"\x01" + b"z" * 65535)
        await first.die()
        second = stand.node(epoch=2)
        assert await second.supervisor.attach("t1") == (Found.AT_REST, None)
        assert (await second.supervisor.turn("t1", GO)).text == "next"

    standing(work)


def test_a_worker_found_before_its_plugin_was_loaded_can_only_be_closed(standing) -> None:
    async def work(stand: Stand) -> None:
        first = stand.node(epoch=1)
        hired = await first.client.spawn(
            name="w", main="partyctl_plugins.worker:main", labels={"session": "s-1"}, epoch=1
        )
        hired.channel.close()
        await first.die()
        second = stand.node(epoch=2)
        assert await second.supervisor.attach() == (Found.AT_REST, None)
        assert second.supervisor.state == "abandoned"

    standing(work)


def test_an_open_conversation_is_found_by_whoever_asks_for_that(standing) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened([{"say": "answer"}])
        await first.die()
        second = stand.node(epoch=2)
        assert await second.supervisor.attach() == (Found.BUSY, None)
        assert await second.supervisor.opened() == first.supervisor.conversation_id
        assert (await second.supervisor.turn("t1", GO)).text == "answer"

    standing(work)


def test_workers_go_with_their_launcher_attached_or_not(standing) -> None:
    async def work(stand: Stand) -> None:
        first = await stand.opened(SLEEP)
        await end_of(first, await first.begin("t1"))
        second = stand.node(epoch=2)
        stand.launcher.stop()
        with pytest.raises(LauncherLost):
            await second.supervisor.attach("t1")
        assert ProcessIdentity.of(first.pid) is None
        stand.launcher.workers = list  # type: ignore[method-assign]

    standing(work, unattached_max=300)
