"""What an agent session is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from partyctl_actors.supervision.engine import Engine
from partyctl_actors.supervision.plan import SupervisorLimits
from partyctl_actors.supervision.policy_commands import Decided
from partyctl_actors.supervision.policy_config import PolicyConfig
from partyctl_actors.supervision.spending import Used
from partyctl_actors.supervision.turn_log import TurnLog
from partyctl_base.clock import Clock
from partyctl_base.ids import IdAllocator
from partyctl_plugins.checks import shown
from partyctl_plugins.contract import (
    Checkpoint,
    CheckpointError,
    CheckpointStore,
    ConversationSpec,
    EventHandler,
    ProviderUsage,
    RetryPolicy,
)


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What an agent session is made of; `Agent.session` puts it together.

    Attributes:
        engine: opens connections; closed with the session.
        spec: what each of its conversations is opened with, but for the id.
        clock: what it waits by, and measures deadlines.
        ids: who names turns.
        retry: when transient failures are tried again.
        handlers: told every event of its turns, in order.
        checkpoints: where it keeps its conversation, None for nowhere.
        checkpoint_key: under which name; None together with `checkpoints`.
        idle_release_after: seconds after which an idle connection is closed, None for never.
        resume_id: the conversation to begin with; wins over a checkpoint.
        previous_usage: the last usage of that conversation.
        limits: how long opening, interrupting and closing may take.
        log: where intents, outcomes and the state are kept, None for nowhere.
        on_decided: told every decision of the policy.
        on_used: told what each attempt used, once, as soon as it is over.
    """

    engine: Engine
    spec: ConversationSpec
    clock: Clock
    ids: IdAllocator
    retry: RetryPolicy
    handlers: Sequence[EventHandler] = ()
    checkpoints: CheckpointStore | None = None
    checkpoint_key: str | None = None
    idle_release_after: float | None = None
    resume_id: str | None = None
    previous_usage: ProviderUsage | None = None
    limits: SupervisorLimits = field(default_factory=SupervisorLimits)
    log: TurnLog | None = None
    on_decided: Callable[[Decided], None] | None = None
    on_used: Callable[[Used], None] | None = None

    def config(self) -> PolicyConfig:
        """What the policy goes by."""
        profile = self.engine.profile
        return PolicyConfig(
            self.retry, profile.renewal, profile.supports_resume, profile.supports_steer, self.idle_release_after
        )

    def beginning(self) -> Checkpoint | None:
        """Where the session begins, None for a fresh conversation. Raises what the store raises."""
        if self.resume_id is not None:
            return Checkpoint(self.resume_id, self.previous_usage)
        if self.checkpoints is None or self.checkpoint_key is None:
            return None
        kept = self.checkpoints.load(self.checkpoint_key)
        if kept is not None and not isinstance(kept, Checkpoint):
            raise CheckpointError(
                "a store did not give a checkpoint back", where=self.checkpoint_key, why=f"it gave {shown(kept)}"
            )
        return kept
