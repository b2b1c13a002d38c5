"""The host: the foreground process of `partyctl up`."""

from partyctl.host.main import serve

__all__ = ["serve"]
