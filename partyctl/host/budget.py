"""When a child that died is started again, and when that is given up; pure, in the manner of OTP.

Rules, for the deaths of one child:
 1. At most `intensity` restarts within `period` seconds. One more death gives up. So a child that lives longer than
    period / intensity on average is never given up, however often it dies.
 2. The wait before a restart doubles with each recent death, from `first_wait` to `longest_wait`, and varies by up to a
    quarter, so that many children of one cause do not return in one moment.
 3. A child that dies `same_deaths` times in a row before it was ready, each time of one cause, is given up at once:
    another try would end as these did.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often and how fast a child is started again.

    Attributes:
        intensity: restarts within the period; 0 gives up at the first death.
        period: seconds.
        first_wait, longest_wait: seconds before a restart.
        same_deaths: deaths in a row before it was ready, of one cause, after which it is given up.
    """

    intensity: int = 5
    period: float = 60.0
    first_wait: float = 0.05
    longest_wait: float = 5.0
    same_deaths: int = 3


@dataclass(frozen=True, slots=True)
class Death:
    """One death of the child.

    Attributes:
        at: when, on the caller's monotonic clock.
        cause: how it ended, for people.
        was_ready: whether it had become ready before.
        jitter: a random number from 0 to 1.
    """

    at: float
    cause: str
    was_ready: bool = True
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class Restart:
    """Start it again after `wait` seconds."""

    wait: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not start it again.

    Attributes:
        why: what was tried and what the last cause was, for people.
        deaths: how often it died.
        period: seconds within which; None if not time was the reason, but one cause, or a start that hung.
        last: how it ended last.
    """

    why: str
    deaths: int
    period: float | None
    last: str


@dataclass(frozen=True, slots=True)
class Deaths:
    """What is remembered of a child's deaths: the recent ones, and the causes of those in a row before it was ready."""

    recent: tuple[float, ...] = ()
    at_start: tuple[str, ...] = ()

    def step(self, policy: RestartPolicy, death: Death) -> "tuple[Deaths, Restart | GiveUp]":
        """The deaths with one more, and what to do about it."""
        recent = (*(moment for moment in self.recent if death.at - moment < policy.period), death.at)
        alike = self.at_start if self.at_start[:1] == (death.cause,) else ()
        after = Deaths(recent[-policy.intensity - 1 :], () if death.was_ready else (*alike, death.cause))
        if len(after.at_start) >= policy.same_deaths:
            times = len(after.at_start)
            why = f"it died {times} times in a row before it was ready, always: {death.cause}"
            return after, GiveUp(why, times, None, death.cause)
        if len(recent) > policy.intensity:
            often = f"it died {len(recent)} times within {policy.period:g} s" if policy.intensity else "it died"
            return after, GiveUp(f"{often}; last cause: {death.cause}", len(recent), policy.period, death.cause)
        wait = min(policy.longest_wait, policy.first_wait * 2 ** (len(recent) - 1))
        return after, Restart(wait * (1 + death.jitter / 4))
