"""When a turn must be over, in a form that outlives the process that counts.

Within one boot of the machine all processes have the same clock that never goes back. By that clock a deadline is
counted, before and after the death of a node: whoever sets the time of day changes nothing. A reboot begins that clock
anew; only then the time of day says how much is left, and never more than there was at first. The clock stands still
while the machine sleeps. Why so: `docs/decisions/0016-a-deadline-outlives-its-node.md`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

from partyctl_base.process import boot_id
from partyctl_plugins.codec import codec


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, by all clocks.

    Attributes:
        monotonic: seconds on the clock that never goes back.
        boot: since which boot of the machine that clock runs.
        epoch: seconds since 1970.
    """

    monotonic: float
    boot: str
    epoch: float


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a turn must be over, with all its retries.

    Attributes:
        seconds: how long it may take, as it was asked for.
        due: when it must be over, on the clock that never goes back; boot: of that boot.
        until: the same by the time of day, in seconds since 1970.
    """

    seconds: float
    due: float
    boot: str
    until: float

    def left(self, now: Moment) -> float:
        """Seconds that are left; 0 or less if it has passed, never more than `seconds`."""
        left = self.due - now.monotonic if now.boot == self.boot else self.until - now.epoch
        return min(self.seconds, left)

    def on(self, now: Moment) -> Deadline:
        """The same, on the clocks of now."""
        return replace(self, due=now.monotonic + self.left(now), boot=now.boot)


_DEADLINE = codec(Deadline)


def in_seconds(seconds: float, now: Moment) -> Deadline:
    """The deadline that is so many seconds from now."""
    return Deadline(float(seconds), now.monotonic + seconds, now.boot, now.epoch + seconds)


def the_earlier(one: Deadline | None, other: Deadline | None, now: Moment) -> Deadline | None:
    """Whichever of two deadlines has less left; None is no deadline."""
    return min((each for each in (one, other) if each is not None), key=lambda each: each.left(now), default=None)


def moment(monotonic: float) -> Moment:
    """Now; `monotonic` is what the session's own clock says."""
    return Moment(float(monotonic), _boot(), time.time())


@cache
def _boot() -> str:
    try:
        return boot_id()
    except OSError:
        return ""  # a machine that does not name its boots


def to_plain(deadline: Deadline) -> dict[str, object]:
    """The plain form of a deadline."""
    return cast("dict[str, object]", _DEADLINE.encode(deadline))


def from_plain(plain: object) -> Deadline:
    """The deadline of a plain form. Raises Mismatch if it is none."""
    return cast(Deadline, _DEADLINE.decode(plain))
