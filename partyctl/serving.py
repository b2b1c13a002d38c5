"""Roles across processes and machines: `Remote` in a cast, and `serve` where the role is played.

Both are peers of a broker by a key that `partyctl key add` made: `NAME:SECRET`. The one that serves waits at
`session/NAME`, which its key may claim unless it was said otherwise; the one that runs sessions speaks for each role at
`run/<id>/<Role>/deputy`, so its key needs `--claim 'run/*'`.
"""

import asyncio
import contextlib
import logging
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from partyctl.embedded import PrivateHost
from partyctl.keys import principal
from partyctl_actors.participants import Participant, PlainFunction, Seat
from partyctl_actors.participants.casting import participant as as_participant
from partyctl_actors.participants.conformity import Checked
from partyctl_actors.participants.interface import Player
from partyctl_actors.protocol import Protocol, Role
from partyctl_actors.remote import Deputy, Served
from partyctl_actors.runs.session import refuse_inside_loop
from partyctl_base.looping import run_loop
from partyctl_broker.endpoint import ipc_path
from partyctl_broker.errors import AddressTaken, BusError, BusTimeout, HelloDeferred, HelloRefused, KeyRefused
from partyctl_broker.keys import decode_z85
from partyctl_broker.peer import ZmqBus
from partyctl_broker.port import Bus

CONNECT_LIMIT: Final = 15.0
"""Seconds a broker may take to answer."""

RETURN_LIMIT: Final = 5.0
"""Seconds until the broker must have noticed that the process that served the role before is dead."""

RETRY: Final = 0.5
"""Seconds between two attempts to come back to a broker."""

NEW_BROKER: Final = 3
"""Attempts until a broker that does not know a key is believed."""

_log = logging.getLogger("partyctl.serving")


@dataclass(frozen=True, slots=True)
class Access:
    """How a broker is reached, and as whom.

    Args:
        url: `tcp://BROKERKEY@ADDRESS:PORT` as `partyctl key add` prints it, or `ipc://PATH`.
        name: the key's name.
        secret: its secret, 32 bytes.
    """

    url: str
    name: str
    secret: bytes = field(repr=False)

    @staticmethod
    def parse(url: str, key: str) -> "Access":
        """From what a caller gives.

        Raises:
            KeyRefused: the key is no `NAME:SECRET`.
            EndpointError: the url is none.
        """
        ipc_path(url)
        name, _, secret = key.partition(":")
        try:
            raw = bytes.fromhex(secret) if len(secret) == 64 else decode_z85(secret)
        except ValueError:
            raw = b""
        if not name or len(raw) != 32:
            raise KeyRefused(
                "this is no key",
                where=ascii(name[:64]),
                why="it is not NAME:SECRET",
                fix="Use what partyctl key add prints",
            )
        return Access(url, name, raw)

    async def connect(self) -> ZmqBus:
        """A bus.

        Raises:
            HelloRefused: the broker does not know the key.
            HelloDeferred: it lets nobody with this key in for a while.
            BusTimeout: no broker answered in time.
        """
        whoever = self.name if self.url.startswith("ipc://") else principal(self.name)
        for _ in range(NEW_BROKER - 1):
            # One that was only just started is told of the keys in a moment.
            with contextlib.suppress(HelloRefused):
                return await ZmqBus.connect(self.url, whoever, self.secret, timeout=CONNECT_LIMIT)
            await asyncio.sleep(RETRY)
        return await ZmqBus.connect(self.url, whoever, self.secret, timeout=CONNECT_LIMIT)


class Remote:
    """A role that another process plays, here or on another machine: whoever calls `serve` there.

    The role is checked there by its own projection, and here like every other. While nobody serves it the run waits,
    and goes on when it is served again: who comes back is told all that the role heard and said, and is asked nothing
    that was decided.

    Args:
        peer: the name of the key of the process that serves the role; or an address, if it serves at another.
        url: the broker, as `partyctl key add` prints it.
        key: the caller's own key, `NAME:SECRET`; it may claim `run/*`.
        patience: seconds the role may be away while it is asked something, from when that is known: docs/remote.md.

    Raises:
        KeyRefused: the key is none.
        EndpointError: the url is none.
        ValueError: `patience` is not above zero.
    """

    def __init__(self, peer: str, *, url: str, key: str, patience: float = 60.0) -> None:
        if not isinstance(peer, str) or not peer:
            raise TypeError(f"Remote(peer) is the name of a key, not {peer!r:.100}")
        if not patience > 0:
            raise ValueError(f"Remote(patience={patience!r}) is a time above zero, in seconds")
        self.peer = peer if "/" in peer else waiting_place(peer)
        self.patience = float(patience)
        self._access = Access.parse(url, key)

    def bind(self, seat: Seat) -> Player:
        """See `Participant.bind`."""
        return Deputy(seat, self.peer, lambda: _shared(self._access), self.patience)

    def __repr__(self) -> str:
        return f"Remote({self.peer!r}, url={self._access.url!r})"


def waiting_place(name: str) -> str:
    """The address at which the key `name` serves a role."""
    return f"session/{name}"


def serve(
    role: Role,
    participant: Participant | PlainFunction,
    *,
    url: str,
    key: str,
    protocol: Protocol | None = None,
    at: str | None = None,
) -> None:
    """Play a role in every run that asks for it, until Ctrl-C.

    In each run the participant begins anew. A broker that is restarted is come back to.

    Args:
        role: the role; of every protocol that has one of this name, unless `protocol` says of which.
        participant: who plays it.
        url: the broker, as `partyctl key add` prints it.
        key: this process's own key, `NAME:SECRET`.
        protocol: what the runs must follow. A participant that names classes of messages needs it: without it they are
            made from what the run declares.
        at: the address at which the role can be had; omitted, `session/NAME`.

    Raises:
        KeyRefused, HelloRefused: the key is none, or not known to the broker.
        AddressTaken, AddressForbidden: the role is served there already, or the key may not claim the address.
        BusTimeout, HelloDeferred: no broker answered, or it lets nobody with this key in now, at the first attempt.
        ConformanceError: the participant cannot play the role of `protocol`.
        RuntimeError: an event loop is running here; await `aserve`.
    """
    refuse_inside_loop("serve", "aserve")
    run_loop(aserve(role, participant, url=url, key=key, protocol=protocol, at=at))


async def aserve(
    role: Role,
    participant: Participant | PlainFunction,
    *,
    url: str,
    key: str,
    protocol: Protocol | None = None,
    at: str | None = None,
) -> None:
    """Like `serve`, on the current event loop, until it is cancelled."""
    access = Access.parse(url, key)
    played = as_participant(role, participant)
    if protocol is not None:
        protocol.view(role)
        if isinstance(played, Checked):
            played.check(protocol, role)
    address = at or waiting_place(access.name)
    workers = PrivateHost()
    try:
        is_first = True
        while True:
            served = Served(role, played, protocol=protocol, workers=workers)
            try:
                await _serve_once(served, access, address)
            except (BusTimeout, HelloDeferred) as error:
                if is_first:
                    raise
                _log.warning("%s is not served: %s", role, error)
            is_first = False
            await asyncio.sleep(RETRY)
    finally:
        await workers.close()


async def _serve_once(served: Served, access: Access, address: str) -> None:
    """Serve until the bus is gone for good."""
    bus = await access.connect()
    try:
        deadline = asyncio.get_running_loop().time() + RETURN_LIMIT
        while served.mailbox is None:
            try:
                served.opened(await bus.open(address, served))
            except AddressTaken:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(RETRY / 10)
        _log.info("%s is served at %s", served.role, address)
        _log.warning("%s is not served: %s", served.role, await served.over or "the broker is gone")
    finally:
        await served.close()
        await bus.close()


# --- one bus for all that a loop does with one key ---


@dataclass(slots=True, eq=False)
class _Shared:
    connecting: "asyncio.Task[ZmqBus]"
    users: int = 0


_buses: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Access, _Shared]]" = weakref.WeakKeyDictionary()


@contextlib.asynccontextmanager
async def _shared(access: Access) -> AsyncIterator[Bus]:
    """The bus of this loop; closed with the last who uses it. One that fails somebody is given to nobody else."""
    buses = _buses.setdefault(asyncio.get_running_loop(), {})
    shared = buses.get(access)
    if shared is None:
        shared = buses[access] = _Shared(asyncio.ensure_future(access.connect()))
    shared.users += 1
    try:
        yield await asyncio.shield(shared.connecting)
    except BusError:
        if buses.get(access) is shared:
            del buses[access]
        raise
    finally:
        shared.users -= 1
        if not shared.users:
            if buses.get(access) is shared:
                del buses[access]
            await _close(shared.connecting)


async def _close(connecting: "asyncio.Task[ZmqBus]") -> None:
    connecting.cancel()
    await asyncio.wait({connecting})
    if not connecting.cancelled() and connecting.exception() is None:
        await connecting.result().close()
