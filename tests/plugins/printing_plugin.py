"""A provider that prints to stdout when it is imported and in every turn, and answers all the same."""

from instant_plugin import InstantTransport, partyctl_transport

print("a banner that nobody asked for")

__all__ = ["InstantTransport", "partyctl_transport"]
