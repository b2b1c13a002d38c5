"""How often a child may be restarted, in the manner of OTP: at most `intensity` restarts within `period` seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartBudget:
    """A value; `spend` gives the budget after one more restart.

    Args:
        intensity: restarts allowed within the period.
        period: seconds.
        restarts: when restarts happened, on the caller's monotonic clock, oldest first.
    """

    intensity: int = 5
    period: float = 30.0
    restarts: tuple[float, ...] = ()

    def spend(self, now: float) -> "RestartBudget | None":
        """The budget after a restart at `now` (monotonic seconds); None if that one is over the budget."""
        recent = (*(moment for moment in self.restarts if now - moment < self.period), now)
        if len(recent) > self.intensity:
            return None
        return RestartBudget(self.intensity, self.period, recent)
