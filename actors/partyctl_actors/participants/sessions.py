"""How an agent becomes an agent session: which engine it has, and what its conversations are opened with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from partyctl_actors.errors import SessionError
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
from partyctl_actors.supervision.turn_log import SqliteTurnLog, TurnLog
from partyctl_base.clock import SystemClock
from partyctl_base.ids import IdAllocator, RandomIds
from partyctl_confinement.environment import WORKER_ALLOW, scrubbed
from partyctl_confinement.policy import resolve as resolve_confinement
from partyctl_plugins import manager
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


@dataclass(frozen=True, slots=True)
class Recorded:
    """An agent session whose log outlives its process.

    Attributes:
        name: the session's; its workers are found by it.
        log: its log.
        grounds: where its workers come from.
        labels: what `partyctl status` shows about them.
        profile: what its provider can do, if that is known.
        idle_release_after: seconds after which an idle connection is closed.
        handlers: told every event of its turns.
        on_decided: told every decision of its policy.
        on_hired: told each worker's pid and confinement.
    """

    name: str
    log: SqliteTurnLog
    grounds: Grounds
    labels: Mapping[str, str]
    profile: ProviderProfile | None = None
    idle_release_after: float | None = None
    handlers: tuple[EventHandler, ...] = ()
    on_decided: Callable[[Decided], None] | None = None
    on_hired: Callable[[int, str], None] | None = None


def begin_recorded(agent: Agent, parts: Recorded, log: TurnLog | None = None) -> tuple[AgentSession, HiredEngine]:
    """An agent session that goes on where another process left it, in the same worker if that still lives.

    Blocks until that is known. Whoever calls this closes the engine, which ends the worker and not the session.

    Args:
        agent: a provider's agent.
        parts: what belongs to the session.
        log: what is written to in place of `parts.log`.

    Raises:
        PartyError: as for `Agent.session`; JournalError: the log cannot be read.
    """
    spec, limits, ids = _spec(agent, None, (), None), SupervisorLimits(), RandomIds()
    labels = {**parts.labels, "session": parts.name}
    plan = replace(worker_plan(agent, spec, labels), epoch=parts.log.epoch)
    found = parts.log.recover().state
    attempt: str | None = None
    if found is not None:
        turn = from_plain(dict(found)).turn
        is_running = turn is not None and turn.phase is Phase.RUNNING
        attempt = attempt_name(turn.turn_id, turn.serial) if turn is not None and is_running else ""
    engine = HiredEngine(parts.grounds, plan, limits, ids, parts.on_hired, parts.profile, attempt)
    try:
        session = AgentSession(
            SessionParts(
                engine, spec, SystemClock(), ids, agent.retry or RetryPolicy(), parts.handlers,
                idle_release_after=parts.idle_release_after, limits=limits, log=log or parts.log,
                on_decided=parts.on_decided,
            )
        )  # fmt: skip
    except BaseException:
        engine.close()
        raise
    return session, engine


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
    directory = os.path.abspath(os.fspath(cwd or agent.cwd or os.getcwd()))
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
