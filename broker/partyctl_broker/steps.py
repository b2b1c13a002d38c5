"""What the broker's table is told, and what it tells its shell to do. See router.py for the rules."""

from dataclasses import dataclass, field

from partyctl_broker.auth import Principal


@dataclass(frozen=True, slots=True)
class Admit:
    """The host vouches for a principal, or changes its secret or rules."""

    principal: Principal


@dataclass(frozen=True, slots=True)
class Forget:
    """The host no longer vouches for a principal: its connections are over."""

    name: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """A pair came from a connection and no lane knows it.

    Args:
        settled: the shell has just looked, and whoever stands in its way is alive.
        vouched: the principal that the handshake let in; None if it is not known.
    """

    connection: bytes
    frame: bytes
    envelope: bytes
    settled: bool = False
    vouched: str | None = None


@dataclass(frozen=True, slots=True)
class Unsent:
    """A pair that came from `connection` could not be forwarded; `code` is a key of REASONS."""

    connection: bytes
    frame: bytes
    envelope: bytes
    code: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A connection is over and its last message has been read."""

    connection: bytes
    why: str


@dataclass(frozen=True, slots=True)
class Settle:
    """The moment after the start is over: whose address is not back by now is not there."""


Event = Admit | Forget | Arrived | Unsent | Lost | Settle


@dataclass(frozen=True, slots=True)
class Forward:
    """Send a pair on to `target` as it came; if that fails, step Unsent."""

    target: bytes
    origin: bytes
    frame: bytes
    envelope: bytes


@dataclass(frozen=True, slots=True)
class Tell:
    """Send the broker's own word to `target`; it must arrive, in order, as long as the connection lasts."""

    target: bytes
    frame: bytes
    envelope: bytes


@dataclass(frozen=True, slots=True)
class Check:
    """Look whether `rivals` still live; step Lost for those that do not, then `event` again, settled."""

    rivals: tuple[bytes, ...]
    event: Arrived


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the connection, after a moment for what it was just told."""

    connection: bytes


@dataclass(frozen=True, slots=True)
class Count:
    """Something was dropped; count it under this name.

    Args:
        offence: how bad it is, by the measure of offences.py.
    """

    what: str
    offence: int = field(default=0, compare=False)


Command = Forward | Tell | Check | Cut | Count
