"""The words of the conductor's state machine: what can happen, what is then to be done, and where a run stands."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from partyctl_actors.protocol.graph import Flow, Interaction
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.tracks import Marking, Path
from partyctl_actors.runs.allowance import Allowance, Spent
from partyctl_actors.runs.journal import Decision
from partyctl_actors.runs.limits import Limits
from partyctl_actors.runs.messages import Failed as Report
from partyctl_actors.runs.verdict import Verdict


class Phase(StrEnum):
    """Where a run stands."""

    OPENING = "opening"
    ASKING = "asking"
    STOPPING = "stopping"
    DONE = "done"


# --- what happens ---


class Opened(NamedTuple):
    """The conductor can be reached; roles may join."""

    at: float


class Joined(NamedTuple):
    """A role is in its place."""

    role: str
    protocol: str
    at: float


class Sent(NamedTuple):
    """A role said something."""

    role: str
    turn: int
    receiver: str
    label: str
    payload: bytes
    tokens: int
    at: float
    message: Message | None = None


class Failed(NamedTuple):
    """A role reported that it cannot go on."""

    role: str
    report: Report
    at: float


class Garbled(NamedTuple):
    """A role sent what no role sends."""

    role: str
    why: str
    at: float


class Left(NamedTuple):
    """A role cannot be reached any more; None: the link to all those elsewhere is lost."""

    role: str | None
    why: str
    at: float


class Stopped(NamedTuple):
    """A role confirmed that it stopped."""

    role: str
    at: float


class Unrecorded(NamedTuple):
    """The last decision could not be recorded; it was not delivered."""

    why: str
    at: float


class CancelAsked(NamedTuple):
    """Somebody wants the run to stop."""

    reason: str
    at: float


class Tick(NamedTuple):
    """Time has passed."""

    at: float


Event: TypeAlias = Opened | Joined | Sent | Failed | Garbled | Left | Stopped | Unrecorded | CancelAsked | Tick

# --- what to do about it, in this order ---


class Welcome(NamedTuple):
    """Tell a role that the run begins."""

    role: str


class Grant(NamedTuple):
    """Tell a role that it is its turn. `within` in seconds."""

    turn: int
    role: str
    receiver: str
    within: float | None


class Recall(NamedTuple):
    """Tell the sender of a recorded decision that it is not asked again."""

    decision: Decision


class Record(NamedTuple):
    """Keep a decision. What follows this command waits until it would survive."""

    decision: Decision


class Deliver(NamedTuple):
    """Hand a decision to its receiver, with the grant of the next turn if that is the receiver's."""

    decision: Decision
    message: Message
    grant: Grant | None


class Stop(NamedTuple):
    """Tell a role to stop and to confirm."""

    role: str
    reason: str


class Dismiss(NamedTuple):
    """Tell a role that the run is complete."""

    role: str


class Finish(NamedTuple):
    """The run is over."""

    verdict: Verdict


Command: TypeAlias = Welcome | Grant | Recall | Record | Deliver | Stop | Dismiss | Finish


class Plan(NamedTuple):
    """What does not change during a run.

    Attributes:
        flow, protocol_id, roles: the protocol (roles by name).
        allowance, limits: what the run may spend, and how long it waits.
        recorded: the decisions of an earlier life of this run.
    """

    flow: Flow
    protocol_id: str
    roles: tuple[str, ...]
    allowance: Allowance
    limits: Limits
    recorded: tuple[Decision, ...] = ()


class Asked(NamedTuple):
    """An interaction whose sender was granted the turn and has not spoken yet.

    Attributes:
        path: the track that it is on.
        node: the interaction.
        grant: the turn that was granted; its number is the one that the next decision had when the interaction began.
        due: when the sender's time is up, None if it has all the time.
    """

    path: Path
    node: Interaction
    grant: Grant
    due: float | None


class State(NamedTuple):
    """One run, as a value.

    Attributes:
        marking: where it is in the protocol.
        asked: who was granted a turn, by name; more than one only within a `par`.
        turn: the number of the next decision, from 1; 0 before the first interaction.
        spent: what was charged so far.
        began: when the first interaction began.
        wake: when a Tick is needed, None if never.
        waiting: OPENING: roles that have yet to join. STOPPING: roles that have yet to confirm.
        present: roles that joined and did not leave.
        verdict: how the run ends, from STOPPING on.
    """

    plan: Plan
    phase: Phase
    marking: Marking
    asked: Mapping[str, Asked]
    turn: int
    spent: Spent
    began: float
    wake: float | None
    waiting: frozenset[str]
    present: frozenset[str]
    verdict: Verdict | None


Transition: TypeAlias = tuple[State, list[Command]]
