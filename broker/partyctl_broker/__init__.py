"""The bus: mailboxes, letters between them, and the broker that carries letters between processes.

`LocalBus` serves one process. `partyctl_broker.peer.ZmqBus` connects to a broker (`python -m partyctl_broker`); it is
not imported here, so that a program without a broker does not load ZeroMQ.
"""

from partyctl_broker.errors import (
    AddressForbidden,
    AddressRefused,
    AddressTaken,
    BusClosed,
    BusError,
    BusFull,
    BusTimeout,
    DescriptorsShort,
    EndpointError,
    HelloDeferred,
    HelloRefused,
    KeyRefused,
    LetterRefused,
    MemoryExceeded,
)
from partyctl_broker.local import LocalBus
from partyctl_broker.port import Bus, ConfirmedReceiver, Letter, Mailbox, Receiver

__all__ = [
    "AddressForbidden",
    "AddressRefused",
    "AddressTaken",
    "Bus",
    "BusClosed",
    "BusError",
    "BusFull",
    "BusTimeout",
    "ConfirmedReceiver",
    "DescriptorsShort",
    "EndpointError",
    "HelloDeferred",
    "HelloRefused",
    "KeyRefused",
    "Letter",
    "LetterRefused",
    "LocalBus",
    "Mailbox",
    "MemoryExceeded",
    "Receiver",
]
