"""The log of a held session, which says when an intent is durable, and when an outcome is not."""

from collections.abc import Callable

from partyctl_actors.errors import JournalError
from partyctl_actors.supervision.turn_log import Recovered, SqliteTurnLog
from partyctl_actors.supervision.turn_shard import Plain


class NotingLog:
    """A log that tells when an intent is durable, and when an outcome is not.

    Args:
        log: what is written to.
        intended: told the turn, on the thread that runs it.
        unkept: told the turn whose outcome could not be recorded, and why.
    """

    def __init__(
        self, log: SqliteTurnLog, intended: Callable[[str], None], unkept: Callable[[str, JournalError], None]
    ) -> None:
        self._log = log
        self._intended = intended
        self._unkept = unkept

    def intend(self, turn_id: str, request: Plain, state: Plain | None = None) -> None:
        """See `TurnLog.intend`."""
        self._log.intend(turn_id, request, state)
        self._intended(turn_id)

    def outcome(self, turn_id: str, outcome: Plain, state: Plain | None = None) -> None:
        """See `TurnLog.outcome`."""
        try:
            self._log.outcome(turn_id, outcome, state)
        except JournalError as error:
            self._unkept(turn_id, error)
            raise

    def state(self, state: Plain) -> None:
        """See `TurnLog.state`."""
        self._log.state(state)

    def recover(self) -> Recovered:
        """See `TurnLog.recover`."""
        return self._log.recover()
