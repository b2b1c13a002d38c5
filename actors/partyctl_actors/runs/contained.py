"""Code of others that asks for the end of the whole process: it ends what it takes part in, and nothing else.

asyncio lets SystemExit and KeyboardInterrupt out of the event loop, past everybody who waits on it, and so one role's
`sys.exit()` would end every run of its process.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar, cast

from partyctl_actors.errors import ConformanceError, SessionError
from partyctl_actors.participants.interface import Participant, Player, Seat
from partyctl_actors.protocol.role import Role
from partyctl_actors.runs.reports import line_of
from partyctl_base.errors import text_of
from partyctl_base.looping import may_be_pressed

T = TypeVar("T")


def contained(error: BaseException) -> BaseException:
    """The error to report in the place of `error`: itself, unless it would end the process.

    Raises:
        KeyboardInterrupt: a person may have pressed Ctrl-C, and the process is theirs to end.
    """
    if isinstance(error, KeyboardInterrupt) and may_be_pressed():
        raise error
    if not isinstance(error, (SystemExit, KeyboardInterrupt)):
        return error
    said = f": {text}" if (text := text_of(error)) else ""
    replaced = SessionError(
        "Code of a run asked for the end of the whole process",
        why=f"it raised {type(error).__name__}{said}",
        fix="Raise another error to end the run",
    )
    replaced.__cause__ = error
    return replaced.with_traceback(error.__traceback__)


async def guarded(role: Role, work: Awaitable[T]) -> T:
    """What `work` for `role` gives; what it raises is `contained`."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise contained(error) from error


def bound(participant: Participant, seat: Seat) -> Player:
    """The participant's player in that seat.

    Raises:
        ConformanceError: it made none.
        Exception: what `bind` raised, with a note that names the role.
    """
    try:
        player: object = participant.bind(seat)
    except BaseException as error:
        raised = contained(error)
        at = line_of(raised)
        raised.add_note(f"raised by {seat.role} in bind(), run {seat.run_id}{f', at {at}' if at else ''}")
        raise raised from raised.__cause__
    if not callable(getattr(player, "author", None)):
        raise ConformanceError(
            "bind() gives the player of the role",
            where=f"{seat.role}, run {seat.run_id}",
            why=f"{type(participant).__name__}.bind returned {player!r:.100}, which has no author(offer)",
            fix="Return an object with the methods of Player, such as a BasePlayer",
        )
    return cast("Player", player)
