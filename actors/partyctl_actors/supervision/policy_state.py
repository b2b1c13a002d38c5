"""Where an agent session stands: a value, and the plain form in which it is kept.

A state is frozen and is all there is to know, so a session can be written down between any two steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from partyctl_actors.errors import JournalError
from partyctl_actors.supervision.policy_commands import Command
from partyctl_actors.supervision.policy_events import Phase
from partyctl_actors.supervision.spending import NOTHING, Used
from partyctl_plugins.codec import Mismatch, codec

VERSION = 1
"""Of the plain form of a state."""


@dataclass(frozen=True, slots=True)
class TurnState:
    """A turn that is not over.

    Attributes:
        turn_id: its ticket.
        phase: where it is; never IDLE.
        expected: the conversation that the session held when it was prepared.
        strict: it demands that conversation. pinned: it keeps it.
        resumed: it began in a conversation that was there before, and still is in it.
        serial: that of the `Open`, `Execute` or `Wait` under way.
        attempts: how often the provider was asked.
        retries: retries of transient failures.
        same_id: retries of a refused resume with the same id.
        replaced: a fresh conversation took the place of the expected one.
        tool_ran, progressed: in any of its attempts.
        interrupted: it was asked to end.
        delay, due: WAITING: for how long, in seconds, and until when.
        rules: which were applied to it, in order.
        used: what its attempts used that failed.
    """

    turn_id: str
    phase: Phase
    expected: str | None = None
    strict: bool = False
    pinned: bool = False
    resumed: bool = False
    serial: int = 0
    attempts: int = 0
    retries: int = 0
    same_id: int = 0
    replaced: bool = False
    tool_ran: bool = False
    progressed: bool = False
    interrupted: bool = False
    delay: float = 0.0
    due: float = 0.0
    rules: tuple[str, ...] = ()
    used: Used = NOTHING

    def __post_init__(self) -> None:
        if self.phase is Phase.IDLE:
            raise ValueError("a turn is never idle")

    @property
    def keeps(self) -> bool:
        """Whether its conversation is kept whatever happens."""
        return self.strict or self.pinned


@dataclass(frozen=True, slots=True)
class SessionState:
    """One agent session, as a value.

    Attributes:
        conversation_id: where the next turn continues, None for a fresh conversation.
        connection: the serial of the `Open` that made the present connection, None if there is none.
        turns: successful turns in that conversation.
        last_turn_conversation_id: where the last turn ran.
        last_activity: when it ended.
        closed: nothing more is begun.
        turn: the turn that is not over.
        cancelled: the turn that was interrupted before it ran; its ticket has yet to hear of it.
        serial: the last one given out.
        stalled: turns in a row that failed in that conversation without any progress.
        limited_until: when the last usage limit ends, in seconds since the epoch.
        counts: how often each rule was applied.
    """

    conversation_id: str | None = None
    connection: int | None = None
    turns: int = 0
    last_turn_conversation_id: str | None = None
    last_activity: float | None = None
    closed: bool = False
    turn: TurnState | None = None
    cancelled: str | None = None
    serial: int = 0
    stalled: int = 0
    limited_until: float | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def phase(self) -> Phase:
        """Where it stands with its turn."""
        return Phase.IDLE if self.turn is None else self.turn.phase

    @property
    def live(self) -> bool:
        """Whether there is a connection."""
        return self.connection is not None


Transition: TypeAlias = tuple[SessionState, list[Command]]

_PLAIN = codec(SessionState)


def to_plain(state: SessionState) -> dict[str, object]:
    """The state as text, numbers and maps of them, with a version: what JSON and msgpack can carry."""
    return {"version": VERSION, **cast("dict[str, object]", _PLAIN.encode(state))}


def from_plain(plain: object) -> SessionState:
    """The state of a plain form.

    Raises:
        JournalError: it is of another version, or no state.
    """
    version = plain.get("version") if isinstance(plain, dict) else None
    if version != VERSION or not isinstance(plain, dict):
        raise JournalError(
            "The state of an agent session cannot be read",
            why=f"its version is {version!r}, and this partyctl reads {VERSION}",
            fix="Read it with the partyctl that wrote it, or begin the session anew",
        )
    try:
        state = _PLAIN.decode({key: value for key, value in plain.items() if key != "version"})
    except Mismatch as mismatch:
        raise JournalError("The state of an agent session cannot be read", why=mismatch.describe()) from mismatch
    return cast(SessionState, state)
