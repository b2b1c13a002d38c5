"""What the recovery of an agent session depends on."""

from dataclasses import dataclass, field

from partyctl_plugins.checks import check_instance
from partyctl_plugins.contract import RenewalBudget, RetryPolicy


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """What a session's recovery depends on.

    Attributes:
        retry: when a transient failure is tried again.
        renewal: when a conversation has grown too old, None for never.
        supports_resume: whether a conversation can be reopened by its id. If not, it lasts as long as its connection.
        supports_steer: whether a message can enter a running turn.
        idle_release_after: seconds after which an idle connection is closed, None for never.

    Raises:
        TypeError, ValueError: a field is not as described.
    """

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    renewal: RenewalBudget | None = None
    supports_resume: bool = True
    supports_steer: bool = False
    idle_release_after: float | None = None

    def __post_init__(self) -> None:
        check_instance("retry", self.retry, RetryPolicy)
        if self.renewal is not None:
            check_instance("renewal", self.renewal, RenewalBudget)
        check_instance("supports_resume", self.supports_resume, bool)
        check_instance("supports_steer", self.supports_steer, bool)
        idle = self.idle_release_after
        if idle is None:
            return
        if isinstance(idle, bool) or not isinstance(idle, int | float):
            raise TypeError(f"idle_release_after must be a number of seconds or None, not {idle!r}")
        if not 0 <= idle < float("inf"):
            raise ValueError(f"idle_release_after must be finite and not negative, not {idle!r}")
