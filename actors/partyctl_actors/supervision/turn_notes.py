"""What an agent session writes into its log, as plain values. Without a log it writes nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import cast

from partyctl_actors.errors import JournalError
from partyctl_actors.supervision import deadlines, spending
from partyctl_actors.supervision.deadlines import Deadline
from partyctl_actors.supervision.policy_state import SessionState, from_plain, to_plain
from partyctl_actors.supervision.spending import Used
from partyctl_actors.supervision.turn_log import TurnLog
from partyctl_plugins.codec import Mismatch, codec
from partyctl_plugins.contract import Turn, TurnLostError, TurnRequest, TurnTicket

_log = logging.getLogger("partyctl.supervision")
_REQUEST = codec(TurnRequest)
_TURN = codec(Turn)
_DEADLINE = "deadline"
"""Beside the fields of a request."""


class TurnNotes:
    """The log of one session.

    Args:
        log: where to; None for nowhere.

    Attributes:
        deadline: that of the turn which was found without an outcome; None if it has none, or there is none.
    """

    def __init__(self, log: TurnLog | None) -> None:
        self._to = log
        self._intended: str | None = None
        self.deadline: Deadline | None = None
        self._owed: tuple[str, Mapping[str, object]] | None = None

    def recover(self) -> SessionState | None:
        """Where the session stood, None if nothing is known."""
        if self._to is None:
            return None
        found = self._to.recover()
        if found.state is None:
            return None
        state = from_plain(dict(found.state))
        if state.turn is not None and state.turn.turn_id in found.intents:
            self._intended = state.turn.turn_id
            self.deadline = _deadline(found.intents[state.turn.turn_id], state.turn.turn_id)
        return state

    def request(self, turn_id: str) -> TurnRequest:
        """What was asked in a turn that is not over.

        Raises:
            JournalError: the log does not know it.
        """
        intents = {} if self._to is None else self._to.recover().intents
        try:
            asked = {key: value for key, value in intents[turn_id].items() if key != _DEADLINE}
            return cast(TurnRequest, _REQUEST.decode(asked))
        except (KeyError, Mismatch) as error:
            raise JournalError(
                "The request of a turn is not in the log of its session", where=turn_id, why=repr(error)
            ) from error

    def intend(self, ticket: TurnTicket, state: SessionState, deadline: Deadline | None = None) -> None:
        """A turn is about to be run: durable when this returns. Raises JournalError: it must not be run."""
        if self._to is not None:
            self._make_up(self._to)
            asked = dict(_plain(_REQUEST.encode(ticket.request)))
            if deadline is not None:
                asked[_DEADLINE] = deadlines.to_plain(deadline)
            self._to.intend(ticket.turn_id, asked, to_plain(state))
            self._intended = ticket.turn_id

    def moved(self, state: SessionState) -> bool:
        """A turn goes on; whether that is durable. Raises JournalError: it must not."""
        if self._to is None:
            return False
        self._make_up(self._to)
        self._to.state(to_plain(state))
        return True

    def finished(self, turn: Turn, state: SessionState, rules: Sequence[str], used: Used) -> bool:
        """A turn has its result, after these rules were applied to it, and used this; whether that is durable."""
        return self._over(turn.turn_id, {"finished": _TURN.encode(turn)}, state, rules, used)

    def failed(self, turn_id: str, error: BaseException, state: SessionState, rules: Sequence[str], used: Used) -> bool:
        """A turn has failed, after these rules were applied to it, and used this; whether that is durable."""
        failed: dict[str, object] = {"type": type(error).__name__, "message": str(error)}
        if isinstance(error, TurnLostError):
            failed["in_flight"] = error.in_flight
        return self._over(turn_id, {"failed": failed}, state, rules, used)

    def _over(
        self, turn_id: str, ended: Mapping[str, object], state: SessionState, rules: Sequence[str], used: Used
    ) -> bool:
        intended, self._intended = self._intended, None
        if self._to is None or intended != turn_id:
            return False  # it ended before it began
        outcome = {**ended, "rules": list(rules), "used": spending.to_plain(used)}
        try:
            self._to.outcome(turn_id, outcome, to_plain(state))
            return True
        except JournalError:
            # The result was paid for. If there is a death before it can be kept, the turn counts as lost in flight.
            _log.exception("The outcome of %s could not be recorded", turn_id)
            self._owed = turn_id, outcome
            return False

    def _make_up(self, log: TurnLog) -> None:
        """Keep the outcome that could not be kept at the end of its turn, before anything else is kept."""
        if self._owed is not None:
            log.outcome(*self._owed)
            self._owed = None


def _deadline(asked: Mapping[str, object], turn_id: str) -> Deadline | None:
    try:
        kept = asked.get(_DEADLINE)
        return None if kept is None else deadlines.from_plain(kept)
    except Mismatch as error:
        raise JournalError("The deadline of a turn cannot be read", where=turn_id, why=error.describe()) from error


def _plain(encoded: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", encoded)
