"""What a session is told about a worker that ended, or did not do in time what it was asked."""

from partyctl_confinement.client import ExitNotice
from partyctl_plugins.contract import CliExitError, PluginLoadError
from partyctl_plugins.errors import AgentSessionError, TurnTimeoutError
from partyctl_plugins.manager import ProviderEntry

STDERR_LINES = 12
"""How many of a dead worker's last lines an error shows."""


def ended(provider: ProviderEntry, state: str, notice: ExitNotice) -> AgentSessionError:
    """The error of a worker that ended by itself.

    Args:
        provider: whose plugin it ran.
        state: what it was doing, as `Supervisor.state`. Until the plugin is loaded, its end is the plugin's.
        notice: what the launcher says of its end.
    """
    tail = "\n".join(notice.stderr.decode(errors="replace").strip().splitlines()[-STDERR_LINES:])
    where = f"{_name(provider)}, worker pid {notice.pid}"
    message = f"the worker ended while its session was {state}"
    why = "\n".join(part for part in (notice.describe(), tail) if part)
    if state in ("starting", "loading", "loaded"):
        return PluginLoadError(message, where=where, why=why, detail=tail)
    returncode = -notice.signal if notice.signal else notice.status
    fix = "See how it ended; the next turn, or a run that is resumed, gets a new worker"
    return CliExitError((provider.name,), returncode, stderr=tail, message=message, where=where, why=why, fix=fix)


def late(provider: ProviderEntry, doing: str, limit: float) -> AgentSessionError:
    """The error of a worker that was killed because it took longer than `limit` seconds for what it was `doing`."""
    if doing in ("start", "load"):
        return PluginLoadError(
            f"the plugin of provider {provider.name!r} did not {doing} within {limit:g} s",
            where=_name(provider),
            fix="A plugin must not wait when it is imported",
        )
    return TurnTimeoutError(limit, where=f"{_name(provider)}, {doing}", why="the worker was killed")


def _name(provider: ProviderEntry) -> str:
    return f"provider {provider.name!r} of {provider.package}"
