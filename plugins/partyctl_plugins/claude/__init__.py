"""The `claude` provider: Claude Code by its CLI, over a stream. Imported in a worker."""

from collections.abc import Mapping

from partyctl_plugins import hookimpl
from partyctl_plugins.claude.transport import ClaudeStreamTransport
from partyctl_plugins.contract import ProviderCapabilityError, Transport, TransportKind

__all__ = ["ClaudeStreamTransport", "partyctl_transport"]


@hookimpl
def partyctl_transport(kind: TransportKind, options: Mapping[str, object]) -> Transport:
    """The transport for `kind`; see `StreamOptions` for the options."""
    if TransportKind(kind) is not TransportKind.STREAM:
        raise ProviderCapabilityError(
            f"claude is not offered over {kind.value} yet",
            fix='Use transport=TransportKind.STREAM, or in a configuration transport = "stream".',
        )
    return ClaudeStreamTransport(options)
