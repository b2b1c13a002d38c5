"""What can go wrong on the bus.

BusError(PartyError)
├─ BusClosed            this end was closed, or gave up on the broker
├─ BusFull              more letters wait for a destination, or for all, than this end keeps
├─ BusTimeout           the broker did not answer in time
├─ LetterRefused        the letter itself cannot be sent: too large, or to no possible address
├─ HelloRefused         the broker does not know this principal, or not by this secret or version
├─ HelloDeferred        the broker lets nobody of this principal in for a while
├─ AddressRefused       the broker does not give this address to this principal
│  ├─ AddressTaken      a living peer has it
│  └─ AddressForbidden  no rule of the principal covers it
├─ EndpointError        the endpoint cannot be bound or reached by its name
├─ KeyRefused           a key cannot be added, read or revoked
├─ DescriptorsShort     a broker may not have enough descriptors to start
├─ MemoryExceeded       the broker has more memory than it may; ends it, and its host starts it again
└─ Malformed            bytes that no peer of ours sends; never leaves the package
   └─ VersionMismatch   an envelope of another version of the wire
"""

from typing import ClassVar

from partyctl_base.errors import PartyError, Whose


class BusError(PartyError):
    """The root of everything the bus raises."""

    whose: ClassVar[Whose] = "machine"


class BusClosed(BusError):
    """This end of the bus, or this mailbox, is closed."""

    whose: ClassVar[Whose] = "caller"


class BusFull(BusError):
    """More letters wait for a destination, or for all together, than this end keeps; nothing was queued."""

    whose: ClassVar[Whose] = "peer"


class BusTimeout(BusError):
    """The broker did not answer in time."""


class LetterRefused(BusError):
    """A letter that cannot be sent: too large, or to an address that cannot exist."""

    whose: ClassVar[Whose] = "caller"


class HelloRefused(BusError):
    """The broker refused the principal, its secret or its version."""

    whose: ClassVar[Whose] = "caller"


class HelloDeferred(BusError):
    """The broker lets nobody of this principal in for a while; trying again later may help."""


class AddressRefused(BusError):
    """The broker does not give this address to this principal."""

    whose: ClassVar[Whose] = "caller"


class AddressTaken(AddressRefused):
    """A living peer has the address."""


class AddressForbidden(AddressRefused):
    """No claim rule of the principal covers the address."""


class EndpointError(BusError):
    """The endpoint cannot be used: its path is too long, occupied, or of an unknown kind."""


class KeyRefused(BusError):
    """A key cannot be added, read or revoked."""

    whose: ClassVar[Whose] = "caller"


class DescriptorsShort(BusError):
    """A broker may not have as many descriptors as it needs.

    Args:
        found: how many it may have.
        needed: how many it needs.
    """

    def __init__(self, found: int, needed: int) -> None:
        super().__init__(
            f"the broker may have {found:,} descriptors and needs {needed:,}",
            why="each peer is one, and ZeroMQ ends the process that has none left",
            fix=f"Raise the hard limit: ulimit -Hn {needed}, or LimitNOFILE={needed} of the service",
        )
        self.found, self.needed = found, needed


class MemoryExceeded(BusError):
    """The broker has more memory than it may.

    Args:
        resident: bytes that it has.
        limit: bytes that it may have.
    """

    whose: ClassVar[Whose] = "peer"

    def __init__(self, resident: int, limit: int) -> None:
        super().__init__(
            f"the broker has {resident >> 20} MiB of memory, its limit is {limit >> 20} MiB",
            why="a peer sends faster than can be passed on, or one message without an end",
            fix="Peers send again what was under way. If it happens again, look for the peer that floods",
        )
        self.resident, self.limit = resident, limit


class Malformed(BusError):
    """Bytes that no peer of ours sends. Counted and dropped, never fatal."""

    whose: ClassVar[Whose] = "peer"


class VersionMismatch(Malformed):
    """An envelope of another version of the wire.

    Args:
        version: the version that the envelope names.
    """

    def __init__(self, version: int) -> None:
        super().__init__(f"an envelope of version {version} was received")
        self.version = version
