"""What the log of a role's agent session says to a run that goes on: whether its conversation knows the run so far, the
answer that was given to the message that is due, if the run did not get to record it, and what that message has cost.

A turn is named after the message it was asked for: `turn-3-...` for the fourth that the role says. The run's record
says how many the role has said. The two were written one after the other, so at most one message is between them;
whatever else the log holds is of another life, such as that of a record that was deleted since.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from partyctl_actors.supervision.policy_state import from_plain
from partyctl_actors.supervision.spending import NOTHING, Used, recorded
from partyctl_actors.supervision.turn_log import Recovered
from partyctl_base.ids import IdAllocator
from partyctl_plugins.codec import Mismatch, codec
from partyctl_plugins.contract import Turn, TurnResult

_TURN = codec(Turn)
_NAME = re.compile(r"turn-(\d+)-")


class TurnNames:
    """Names turns after the message that they are asked for.

    Args:
        ids: makes the names unique.

    Attributes:
        said: how many messages the role has said.
    """

    def __init__(self, ids: IdAllocator) -> None:
        self._ids = ids
        self.said = 0

    def new_id(self, prefix: str) -> str:
        """See `IdAllocator.new_id`."""
        return self._ids.new_id(f"{prefix}-{self.said}")


def message_of(turn_id: str) -> int | None:
    """Which message a turn was asked for, None if its name does not say."""
    named = _NAME.match(turn_id)
    return None if named is None else int(named[1])


@dataclass(frozen=True, slots=True)
class Past:
    """What a log says.

    Attributes:
        is_known: whether its conversation knows what the role has said and heard until then.
        answer: what was answered for the message that is due; None if nothing was.
        used: what the turns for that message used, answered or not; the run counts it with the message.
    """

    is_known: bool
    answer: TurnResult | None = None
    used: Used = NOTHING


def past_of(log: Recovered, said: int) -> Past:
    """What a log says to a run in which the role has said so many messages."""
    numbers = [message_of(turn_id) for turn_id in (*log.outcomes, *log.intents)]
    newest = max((number for number in numbers if number is not None), default=-1)
    if newest not in (said - 1, said):
        return Past(is_known=False)
    due = [outcome for turn_id, outcome in log.outcomes.items() if message_of(turn_id) == said]
    results = [result for result in map(_result, due) if result is not None]
    used = [each for each in map(recorded, due) if each is not None]
    turn = None if log.state is None else from_plain(dict(log.state)).turn
    if turn is not None and message_of(turn.turn_id) == said:
        used.append(turn.used)
    return Past(True, results[-1] if results else None, sum(used, NOTHING))


def _result(outcome: Mapping[str, object]) -> TurnResult | None:
    try:
        turn = cast(Turn, _TURN.decode(outcome["finished"]))
    except (KeyError, Mismatch):
        return None  # it failed, or is of another version: it is asked again
    return None if turn.result.interrupted else turn.result
