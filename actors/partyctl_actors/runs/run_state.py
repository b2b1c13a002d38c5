"""The words of the conductor's state machine: what can happen, what is then to be done, and where a run stands.

They are values: nobody changes one that is made. They are not frozen, because making a frozen one takes five times as
long (measured), and several are made for every message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from partyctl_actors.journals import Decision
from partyctl_actors.protocol.graph import Flow, Interaction
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.tracks import Marking, Path
from partyctl_actors.runs.allowance import Allowance, Spent
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


@dataclass(slots=True)
class Opened:
    """The conductor can be reached; roles may join."""

    at: float


@dataclass(slots=True)
class Joined:
    """A role is in its place."""

    role: str
    protocol: str
    at: float


@dataclass(slots=True)
class Sent:
    """A role said something."""

    role: str
    turn: int
    receiver: str
    label: str
    payload: bytes
    tokens: int
    at: float
    message: Message | None = None


@dataclass(slots=True)
class Failed:
    """A role reported that it cannot go on."""

    role: str
    report: Report
    at: float


@dataclass(slots=True)
class Garbled:
    """A role sent what no role sends."""

    role: str
    why: str
    at: float


@dataclass(slots=True)
class Left:
    """A role cannot be reached any more; None: the link to all those elsewhere is lost."""

    role: str | None
    why: str
    at: float


@dataclass(slots=True)
class Stopped:
    """A role confirmed that it stopped."""

    role: str
    at: float


@dataclass(slots=True)
class Recorded:
    """The last decision is durable, after a while; it is delivered, and who was granted a turn by it was told."""

    at: float


@dataclass(slots=True)
class Unrecorded:
    """The last decision could not be recorded; it was not delivered."""

    why: str
    at: float


@dataclass(slots=True)
class CancelAsked:
    """Somebody wants the run to stop."""

    reason: str
    at: float


@dataclass(slots=True)
class Tick:
    """Time has passed."""

    at: float


Event: TypeAlias = (
    Opened | Joined | Sent | Failed | Garbled | Left | Stopped | Recorded | Unrecorded | CancelAsked | Tick
)

# --- what to do about it, in this order ---


@dataclass(slots=True)
class Welcome:
    """Tell a role that the run begins."""

    role: str


@dataclass(slots=True)
class Grant:
    """Tell a role that it is its turn. `within` in seconds."""

    turn: int
    role: str
    receiver: str
    within: float | None


@dataclass(slots=True)
class Recall:
    """Tell the sender of a recorded decision that it is not asked again."""

    decision: Decision


@dataclass(slots=True)
class Record:
    """Keep a decision. What follows this command waits until it would survive."""

    decision: Decision


@dataclass(slots=True)
class Deliver:
    """Hand a decision to its receiver, with the grant of the next turn if that is the receiver's."""

    decision: Decision
    message: Message
    grant: Grant | None


@dataclass(slots=True)
class Stop:
    """Tell a role to stop and to confirm."""

    role: str
    reason: str


@dataclass(slots=True)
class Dismiss:
    """Tell a role that the run is complete."""

    role: str


@dataclass(slots=True)
class Finish:
    """The run is over."""

    verdict: Verdict


Command: TypeAlias = Welcome | Grant | Recall | Record | Deliver | Stop | Dismiss | Finish


@dataclass(slots=True)
class Plan:
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


@dataclass(slots=True)
class Asked:
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


@dataclass(slots=True)
class State:
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
