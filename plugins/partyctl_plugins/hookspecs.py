"""The hooks that a provider's plugin implements; this file is the whole list.

A plugin looks like this, and its distribution names the module in the entry-point group `partyctl.providers`::

    from partyctl.plugins import hookimpl

    @hookimpl
    def partyctl_transport(kind, options):
        return MyTransport(options)

It is imported in a worker of its own and nowhere else.
"""

from collections.abc import Mapping

from pluggy import HookspecMarker

from partyctl_plugins import PROJECT
from partyctl_plugins.contract import Transport, TransportKind

hookspec = HookspecMarker(PROJECT)


@hookspec(firstresult=True)
def partyctl_transport(kind: TransportKind, options: Mapping[str, object]) -> Transport | None:
    """The way to open conversations, or None if this provider cannot be reached by `kind`.

    Args:
        kind: how the provider is to be reached.
        options: the provider's own settings, as the user wrote them.

    Raises:
        ProviderOptionsError: an option is not one it takes.
    """
