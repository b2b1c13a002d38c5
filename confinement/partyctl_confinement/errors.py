"""What can go wrong when a worker is asked for.

ConfinementError
├─ ConfinementRefused    the asked-for confinement cannot be enforced here
├─ LauncherNotStarted    the launcher did not come up
├─ LauncherLost          the launcher is gone, or its channel is closed
├─ AttachRefused         the launcher would not hand the worker over
├─ SpawnRefused          the launcher would not start the worker
└─ SpawnTimedOut         the launcher did not answer in time
"""

from partyctl_base.errors import PartyError


class ConfinementError(PartyError):
    """The root of this package's errors."""


class ConfinementRefused(ConfinementError):
    """A guarantee was asked for that cannot be enforced on this machine. Nothing was started."""

    whose = "caller"


class LauncherNotStarted(ConfinementError):
    """The launcher did not come up."""

    whose = "machine"


class LauncherLost(ConfinementError):
    """The launcher is gone, or this end of its channel was closed. Its workers are gone with it."""

    whose = "machine"


class AttachRefused(ConfinementError):
    """The launcher would not hand the worker of a session over; `why` is its reason."""

    whose = "caller"


class SpawnRefused(ConfinementError):
    """The launcher would not start the worker; `why` is its reason. Nothing was started."""

    whose = "machine"


class SpawnTimedOut(ConfinementError):
    """The launcher did not answer in time. If it starts the worker after all, the worker is killed unseen."""

    whose = "machine"
