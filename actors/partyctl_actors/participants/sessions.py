"""How an agent becomes an agent session: which engine it has, and what its conversations are opened with."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from partyctl_actors.errors import SessionError
from partyctl_actors.participants.interface import WorkerSource
from partyctl_actors.supervision.agent_session import AgentSession
from partyctl_actors.supervision.engine import Engine
from partyctl_actors.supervision.hired import Grounds, HiredEngine
from partyctl_actors.supervision.local import LocalEngine
from partyctl_actors.supervision.plan import SupervisorLimits, WorkerPlan
from partyctl_actors.supervision.policy_commands import Decided
from partyctl_actors.supervision.policy_events import Phase
from partyctl_actors.supervision.policy_state import from_plain
from partyctl_actors.supervision.running_turn import attempt_name
from partyctl_actors.supervision.session_parts import SessionParts
from partyctl_actors.supervision.spending import Used
from partyctl_actors.supervision.turn_log import SqliteTurnLog, TurnLog
from partyctl_base.clock import SystemClock
from partyctl_base.ids import IdAllocator, RandomIds
from partyctl_base.paths import PathError
from partyctl_confinement.client import LauncherClient
from partyctl_confinement.environment import WORKER_ALLOW, scrubbed
from partyctl_confinement.kept import LABEL
from partyctl_confinement.policy import resolve as resolve_confinement
from partyctl_confinement.requests import LABEL_MAX
from partyctl_plugins import manager
from partyctl_plugins.checks import check_instance, shown
from partyctl_plugins.contract import (
    CheckpointStore,
    ConversationSpec,
    EventHandler,
    McpServer,
    ProviderCapabilityError,
    ProviderProfile,
    ProviderUsage,
    RetryPolicy,
    Transport,
    TransportKind,
)

if TYPE_CHECKING:
    from partyctl_actors.participants.agent import Agent, StrPath


def begin(
    agent: Agent,
    cwd: StrPath | None,
    *,
    mcp_servers: tuple[McpServer, ...],
    reasoning_effort: str | None,
    checkpoints: CheckpointStore | None,
    checkpoint_key: str | None,
    idle_release_after: float | None,
    resume_id: str | None,
    previous_usage: ProviderUsage | None,
) -> AgentSession:
    """See `Agent.session`."""
    spec = _spec(agent, cwd, mcp_servers, reasoning_effort)
    if previous_usage is not None:
        check_instance("previous_usage", previous_usage, ProviderUsage)
    if resume_id is not None:
        check_instance("resume_id", resume_id, str)
    if checkpoint_key is not None:
        check_instance("checkpoint_key", checkpoint_key, str)
    if checkpoints is not None and not callable(getattr(checkpoints, "load", None)):
        raise TypeError(f"checkpoints must be a CheckpointStore, not {shown(checkpoints)}")
    ids, limits = agent.ids or RandomIds(), SupervisorLimits()
    if (checkpoints is None) != (checkpoint_key is None):
        raise ValueError("checkpoints and checkpoint_key belong together: give both or neither")
    engine = _engine(agent, spec, ids, limits)
    try:
        return AgentSession(
            SessionParts(
                engine, spec, agent.clock or SystemClock(), ids, agent.retry or RetryPolicy(), agent.event_handlers,
                checkpoints, checkpoint_key, idle_release_after, resume_id, previous_usage, limits,
            )
        )  # fmt: skip
    except BaseException:
        engine.close()
        raise


class LoopGrounds:
    """The workers of a source, supervised on the loop that this is made on; see `hired.Grounds`."""

    def __init__(self, workers: WorkerSource) -> None:
        self._workers = workers
        self._loop = asyncio.get_running_loop()

    def hold(self) -> asyncio.AbstractEventLoop:
        """The loop, which outlives every session on it."""
        return self._loop

    def release(self) -> None:
        """There is nothing to give back: loop and source are somebody else's."""

    async def client(self) -> LauncherClient:
        """That of the source."""
        return await self._workers.client()


@dataclass(frozen=True, slots=True)
class HiredParts:
    """What an agent session in workers is made of, besides its agent and the plan of its workers.

    Attributes:
        grounds: where its workers come from.
        log: its log, which outlives its process; its workers are found by the log's session. None: it has none, and
            its workers end with its process.
        written: what is written to in place of `log`.
        profile: what its provider can do, if that is known.
        idle_release_after: seconds after which an idle connection is closed.
        handlers: told every event of its turns.
        on_decided: told every decision of its policy.
        on_used: told what each attempt of a turn used, on the thread that runs it.
        on_hired: told each worker's pid and confinement.
        ids: who names its turns; None: random ids.
    """

    grounds: Grounds
    log: SqliteTurnLog | None = None
    written: TurnLog | None = None
    profile: ProviderProfile | None = None
    idle_release_after: float | None = None
    handlers: tuple[EventHandler, ...] = ()
    on_decided: Callable[[Decided], None] | None = None
    on_used: Callable[[Used], None] | None = None
    on_hired: Callable[[int, str], None] | None = None
    ids: IdAllocator | None = None


def begin_hired(agent: Agent, plan: WorkerPlan, parts: HiredParts) -> tuple[AgentSession, HiredEngine]:
    """An agent session in workers. With a log it goes on where another process left it, in the same worker if that
    still lives.

    Blocks until that is known. Whoever calls this closes the engine, which ends the worker and not the session.

    Args:
        agent: a provider's agent.
        plan: its workers; see `hired_plan`.
        parts: what else belongs to the session.

    Raises:
        PartyError: as for `Agent.session`; JournalError: the log cannot be read.
    """
    limits, log = SupervisorLimits(), parts.log
    attempt: str | None = None
    if log is not None:
        labels = {**plan.labels, LABEL: session_label(log.session_id)}
        plan, attempt = replace(plan, labels=labels, epoch=log.epoch), _attempt(log)
    engine = HiredEngine(parts.grounds, plan, limits, RandomIds(), parts.on_hired, parts.profile, attempt)
    try:
        session = AgentSession(
            SessionParts(
                engine, plan.spec, agent.clock or SystemClock(), parts.ids or RandomIds(), agent.retry or RetryPolicy(),
                parts.handlers, idle_release_after=parts.idle_release_after, limits=limits, log=parts.written or log,
                on_decided=parts.on_decided, on_used=parts.on_used,
            )
        )  # fmt: skip
    except BaseException:
        engine.close()
        raise
    return session, engine


def hired_plan(agent: Agent, labels: dict[str, str]) -> WorkerPlan:
    """The workers of a session of a provider's agent with the settings that the agent has.

    Raises:
        ProviderNotFound, ProviderConflict, ConfinementRefused: see `worker_plan`.
    """
    return worker_plan(agent, _spec(agent, None, (), None), labels)


def session_label(name: str) -> str:
    """By what the workers of a session are found; its name, unless that is too long for a label."""
    return name if len(name) <= LABEL_MAX else hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _attempt(log: SqliteTurnLog) -> str | None:
    """What the worker of a session may have under way; "" for nothing, None if there was no worker yet."""
    found = log.recover().state
    if found is None:
        return None
    turn = from_plain(dict(found)).turn
    is_running = turn is not None and turn.phase is Phase.RUNNING
    return attempt_name(turn.turn_id, turn.serial) if turn is not None and is_running else ""


def worker_plan(agent: Agent, spec: ConversationSpec, labels: dict[str, str]) -> WorkerPlan:
    """The worker that a provider's agent needs.

    Raises:
        ProviderNotFound, ProviderConflict: the provider's name is nobody's, or several packages'.
        ConfinementRefused: the confinement asked for cannot be enforced here.
    """
    assert agent.provider is not None
    resolve_confinement(agent.confinement)
    provider = manager.resolve(agent.provider)
    return WorkerPlan(
        provider=provider,
        kind=agent.transport or TransportKind.STREAM,
        spec=spec,
        options=agent.options,
        env=scrubbed(os.environ, WORKER_ALLOW) | dict(agent.env or {}),
        offered=dict(os.environ),
        labels={**labels, "provider": provider.name},
    )


def _spec(
    agent: Agent, cwd: StrPath | None, mcp_servers: tuple[McpServer, ...], reasoning_effort: str | None
) -> ConversationSpec:
    if agent.permissions is None or agent.approvals is None:
        raise TypeError(f"{agent!r} is a language model, and has no sessions: a provider has")
    given = cwd if cwd is not None else agent.cwd
    if given is not None:
        check_instance("cwd", given, (str, os.PathLike))
    try:
        directory = os.path.abspath(os.curdir if given is None else os.fspath(given))
    except FileNotFoundError as error:
        raise PathError("the current directory was removed", fix="Change to one that is there") from error
    return ConversationSpec(
        directory, agent.permissions, agent.approvals, agent.model, mcp_servers, reasoning_effort
    )  # fmt: skip


def _engine(agent: Agent, spec: ConversationSpec, ids: IdAllocator, limits: SupervisorLimits) -> Engine:
    if not isinstance(agent.source, str):
        return LocalEngine(cast(Transport, agent.source), limits)
    plan = worker_plan(agent, spec, {})
    if agent.executor is not None or agent.clock is not None or agent.ids is not None:
        return LocalEngine(_local_transport(agent, plan), limits)
    if agent.grounds is None:
        raise SessionError("There is no source of workers", where=repr(agent), fix="Use partyctl.Agent")
    return HiredEngine(agent.grounds, plan, limits, RandomIds())


def _local_transport(agent: Agent, plan: WorkerPlan) -> Transport:
    """The provider's transport, loaded here: whoever brings a clock, ids or an executor wants them used."""
    if agent.env:
        raise ProviderCapabilityError(
            "an agent in the caller's process has the caller's environment",
            where=repr(agent),
            fix="Leave out env=, or leave out clock=, ids= and executor=",
        )
    if agent.executor is not None:
        raise ProviderCapabilityError(
            f"provider {plan.provider.name!r} takes no executor",
            fix="Make its transport with the executor, and the Agent with that transport",
        )
    hook = manager.load(plan.provider).hook
    transport = hook.partyctl_transport(kind=plan.kind, options=dict(plan.options))
    if transport is None:
        raise ProviderCapabilityError(
            f"provider {plan.provider.name!r} cannot be reached by {plan.kind.value}", fix="Choose another transport"
        )
    return cast(Transport, transport)
