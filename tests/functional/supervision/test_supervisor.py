"""A supervisor, a real launcher and real workers that play scripts."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from partyctl_actors.supervision import Supervisor, SupervisorLimits, WorkerPlan
from partyctl_base.aio import AsyncChannel
from partyctl_confinement.client import LauncherClient
from partyctl_confinement.control import LauncherProcess
from partyctl_confinement.environment import LAUNCHER_ALLOW, scrubbed
from partyctl_plugins.contract import (
    ApprovalPolicy,
    CliExitError,
    ConversationSpec,
    FailureKind,
    NativePermissions,
    PluginLoadError,
    TransportKind,
    TurnFailedError,
    TurnRequest,
)
from partyctl_plugins.errors import SessionResumeError, SessionStateError, TurnTimeoutError
from partyctl_plugins.events import AgentEvent
from partyctl_plugins.manager import ProviderEntry, resolve

Steps = list[dict[str, object]]
GO = TurnRequest("go")
SLEEPING = ProviderEntry("sleeps", "sleeping_plugin", "test-plugins", "1.0")
PLUGINS = Path(__file__).parent.parent.parent / "plugins"


class Stand:
    """Supervisors over one launcher."""

    def __init__(self, client: LauncherClient, directory: Path) -> None:
        self.client = client
        self.directory = directory
        self.events: list[AgentEvent] = []
        self.supervisors: list[Supervisor] = []
        self.pids: list[int] = []

    def supervisor(
        self, *turns: Steps, provider: ProviderEntry | None = None, limits: SupervisorLimits | None = None
    ) -> Supervisor:
        spec = ConversationSpec(str(self.directory), NativePermissions.bypass(), ApprovalPolicy.DENY)
        env = {"PATH": os.environ["PATH"]}
        plan = WorkerPlan(
            provider or resolve("scripted"), TransportKind.STREAM, spec, options={"script": [*turns]}, env=env
        )
        made = Supervisor(self.client, plan, self.events.append, limits or SupervisorLimits(hire=40, load=40))
        self.supervisors.append(made)
        return made

    async def opened(self, *turns: Steps, limits: SupervisorLimits | None = None) -> Supervisor:
        made = self.supervisor(*turns, limits=limits)
        await made.open(lambda pid, confinement: self.pids.append(pid))
        return made


def standing(directory: Path, work: Callable[[Stand], Awaitable[None]]) -> None:
    """Start a launcher, do `work`, close every supervisor; fails if a worker is left."""
    path = os.pathsep.join([str(PLUGINS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    environment = scrubbed(os.environ, LAUNCHER_ALLOW) | {"PYTHONPATH": path}
    launcher = LauncherProcess.start(preload=["partyctl_plugins.worker"], environment=environment, timeout=40)

    async def stand() -> None:
        made = Stand(LauncherClient(AsyncChannel(launcher.add_client("test"))), directory)
        try:
            await work(made)
            await asyncio.gather(*(each.close() for each in made.supervisors))
            assert launcher.workers() == []
        finally:
            await made.client.close()

    try:
        asyncio.run(asyncio.wait_for(stand(), 80))
    finally:
        launcher.stop()


def test_turns_run_one_after_another_and_failures_keep_their_kind(tmp_path: Path) -> None:
    async def work(stand: Stand) -> None:
        kinds = list(FailureKind)
        failing: list[Steps] = [[{"fail": kind.value}] for kind in kinds]
        session = await stand.opened([{"tool": "read"}, {"say": "hello"}], *failing, [{"say": "still here"}])
        assert (await session.turn("t-0", GO)).text == "hello"
        assert stand.events
        for kind in kinds:
            with pytest.raises(TurnFailedError) as caught:
                await session.turn(f"t-{kind.value}", GO)
            assert caught.value.kind is kind
        assert (await session.turn("t-9", GO)).text == "still here"
        await session.close()
        await session.close()
        assert not os.path.exists(f"/proc/{stand.pids[0]}")

    standing(tmp_path, work)


def test_a_crash_in_a_turn_is_told_with_how_the_worker_ended(tmp_path: Path) -> None:
    async def work(stand: Stand) -> None:
        by_status, by_signal, resumed = await asyncio.gather(
            stand.opened([{"crash": 7}]), stand.opened([{"crash": "SIGKILL"}]), stand.opened([{"refuse_resume": True}])
        )
        with pytest.raises(CliExitError, match="exited with status 7"):
            await by_status.turn("t-1", GO)
        with pytest.raises(CliExitError, match="killed by SIGKILL"):
            await by_signal.turn("t-1", GO)
        with pytest.raises(CliExitError, match="killed by SIGKILL"):
            await by_signal.turn("t-2", GO)
        with pytest.raises(SessionResumeError):
            await resumed.turn("t-1", GO)

    standing(tmp_path, work)


def test_a_hanging_turn_is_interrupted_and_one_that_ignores_it_is_killed_within_the_grace(tmp_path: Path) -> None:
    async def work(stand: Stand) -> None:
        limits = SupervisorLimits(hire=40, load=40, interrupt=1.0)
        hanging = await stand.opened([{"hang": True}], [{"say": "again"}])
        stubborn = await stand.opened([{"ignore_interrupts": True}, {"say": "mute"}, {"hang": True}], limits=limits)
        turns = [asyncio.ensure_future(each.turn("t-1", GO)) for each in (hanging, stubborn)]
        async with asyncio.timeout(20):
            while not stand.events:
                await asyncio.sleep(0.01)
        with pytest.raises(SessionStateError, match="busy"):
            await hanging.turn("t-2", GO)
        await asyncio.gather(hanging.interrupt(), stubborn.interrupt())
        assert (await turns[0]).interrupted
        with pytest.raises(CliExitError, match="killed by SIGKILL"):
            await turns[1]
        assert (await hanging.turn("t-3", GO)).text == "again"

    standing(tmp_path, work)


def test_a_turn_and_a_plugin_that_take_too_long_end_their_worker(tmp_path: Path) -> None:
    async def work(stand: Stand) -> None:
        limits = SupervisorLimits(hire=40, load=0.5, interrupt=0.5)
        with pytest.raises(PluginLoadError, match=r"did not load within 0.5 s"):
            await stand.supervisor(provider=SLEEPING, limits=limits).open()
        patient = SupervisorLimits(hire=40, load=40, interrupt=0.5)
        deaf = await stand.opened([{"ignore_interrupts": True}, {"hang": True}], limits=patient)
        with pytest.raises(TurnTimeoutError):
            await deaf.turn("t-1", TurnRequest("go", timeout=0.2))

    standing(tmp_path, work)


def test_a_worker_that_is_busy_and_deaf_is_gone_after_the_close(tmp_path: Path) -> None:
    async def work(stand: Stand) -> None:
        limits = SupervisorLimits(hire=40, load=40, close=0.5)
        deaf = await stand.opened([{"ignore_interrupts": True}, {"hang": True}], limits=limits)
        turn = asyncio.ensure_future(deaf.turn("t-1", GO))
        await asyncio.sleep(0.1)
        closing = asyncio.ensure_future(deaf.close())
        await asyncio.sleep(0.1)
        closing.cancel()
        with pytest.raises(CliExitError):
            await turn
        await deaf.close()
        assert not os.path.exists(f"/proc/{stand.pids[0]}")

    standing(tmp_path, work)
