"""The broker's shell: one thread, one ROUTER socket, one loop. What happens is decided in the table (router.py).

The loop sleeps in epoll (over the descriptors of the ROUTER, its monitor, the gate of its handshakes, the host's
control channel, and whatever else ends it) without a timeout, so that an idle broker costs nothing. A message whose
lane is known is forwarded as it came. Sends never wait: one peer that does not read must not stall the others
(measured: a blocking send stalled strangers for 12 s), and what cannot be sent is told to its sender.
"""

import os
import select
import time
from collections import Counter
from typing import Final, cast

import zmq

from partyctl_base.channel import Channel
from partyctl_broker.auth import Principal
from partyctl_broker.doors import Doors
from partyctl_broker.errors import EndpointError, Malformed, MemoryExceeded
from partyctl_broker.host import Host
from partyctl_broker.keys import KeyPair
from partyctl_broker.lookout import Lookout
from partyctl_broker.router import Table
from partyctl_broker.routing import Routing
from partyctl_broker.steps import Admit, Forget, Settle

HOLD: Final = 2.0
"""Seconds after the start during which a letter to an address that nobody has is kept."""

LINGER: Final = 100
"""Milliseconds that a broker which ends goes on sending."""


class Broker:
    """Routes until told to stop.

    Args:
        endpoint: where local peers connect, ipc.
        control: the channel to the host.
        ends: descriptors that end the broker when they become readable (the host's pidfd).
        wake: a descriptor that only interrupts its sleep; signals write to it.
        descriptors: how many this process may have.
        hold: seconds after the start during which letters wait for the return of their address.
    """

    def __init__(
        self,
        endpoint: str,
        control: Channel,
        ends: tuple[int, ...] = (),
        *,
        wake: int = -1,
        descriptors: int = 1024,
        hold: float = HOLD,
    ) -> None:
        self._endpoint = endpoint
        self._host = Host(control)
        self._ends, self._wake, self._hold = ends, wake, hold
        self._table = Table(time.time_ns(), holding=hold > 0)
        self._counts: Counter[str] = Counter()
        self._stopping = False
        self._context = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._doors = Doors(self._router)
        self._lookout = Lookout(
            self._context, self._router, self._doors, self._table.roll, descriptors, self._counts, self._report
        )
        self._routing = Routing(self._router, self._table, self._lookout, self._counts)
        self.suspicion = self._routing.suspicion
        """What the guard of the memory needs."""

    def stop(self) -> None:
        """End after the present turn of the loop; may be called by a signal handler."""
        self._stopping = True

    def run(self) -> None:
        """Bind, tell the host, route until stopped, leave no file behind.

        Raises:
            EndpointError: the endpoint cannot be bound.
            MemoryExceeded: raised by the guard of the memory; the host has been told. Sockets are left as they are, as
                there is nothing to do but to end the process.
        """
        try:
            # What the host wrote before we ran (principals) comes first: peers of a broker before us may already wait.
            while self._obey():
                pass
            if not self._stopping:
                self._doors.open(self._endpoint)
                self._host.tell({"t": "ready", "endpoint": self._endpoint, "pid": os.getpid()})
                self._loop()
        except MemoryExceeded as error:
            self._host.tell({"t": "failed", "why": str(error)})
            self._doors.remove()
            raise
        except BaseException:
            self._close()
            raise
        self._close()

    def _close(self) -> None:
        self._doors.remove()
        self._lookout.close()
        self._router.close(LINGER)
        self._context.term()
        self._host.close()

    def _loop(self) -> None:
        control, lookout = self._host.fileno(), self._lookout
        settles: float | None = time.monotonic() + self._hold
        router = cast(int, self._router.getsockopt(zmq.FD))
        with select.epoll() as poll:
            for descriptor in (router, control, *self._ends, *([self._wake] if self._wake >= 0 else [])):
                poll.register(descriptor, select.EPOLLIN)
            lookout.watch(poll)
            lookout.attend(time.monotonic())  # a ZeroMQ descriptor speaks up only after its socket was found empty
            rest: float | None = 0.0
            while not self._stopping:
                # A ZeroMQ descriptor wakes us once per change, not as long as there is mail: never sleep on a full box.
                called = False
                if rest:
                    select.select((poll,), (), (), rest)  # poll itself knows nothing below a millisecond
                    rest = 0.0
                for descriptor, _ in poll.poll(self._patience(settles) if rest is None else 0.0):
                    if descriptor == router:
                        called = True
                        continue
                    if descriptor in self._ends:
                        self._stopping = True
                    elif descriptor == control:
                        self._obey()
                    elif descriptor == self._wake:
                        os.read(descriptor, 4096)
                        self._tell_of_guilty()
                    else:
                        lookout.attend(time.monotonic())
                rest = self._routing.turn(called)
                if settles is not None and time.monotonic() >= settles:
                    self._routing.step(Settle())
                    settles = None if self._table.is_settled else settles
                if lookout.has_cuts:
                    lookout.carry_out_cuts(time.monotonic())

    def _patience(self, settles: float | None) -> float | None:
        """Seconds until there is something to do even if nobody calls; None if there never is."""
        now = time.monotonic()
        wait = self._lookout.wait(now)
        if settles is None:
            return wait
        left = max(0.0, settles - now)
        return left if wait is None else min(left, wait)

    # --- the host

    def _obey(self) -> bool:
        """Carry out what the host wrote; whether it wrote anything."""
        found = False
        for order in self._host.orders():
            found = True
            try:
                self._order(order or {})
            except Malformed as error:
                self._counts["order not understood"] += 1
                self._report(f"an order of the host was not carried out: {error}")
        self._stopping = self._stopping or self._host.left
        return found

    def _order(self, order: dict[str, object]) -> None:
        match order:
            case {"t": "principal"} | {"t": "key"}:
                self._routing.step(Admit(Principal.decode(order)))
            case {"t": "forget", "name": str(name)}:
                self._routing.step(Forget(name))
            case {"t": "listen", "url": str(url), "public": str(public), "secret": str(secret)}:
                self._listen(url, KeyPair(public, secret))
            case {"t": "unlisten", "url": str(url)}:
                self._doors.close(url)
            case {"t": "stats"}:
                number = order.get("number")
                self._host.tell({"t": "stats", **self.stats(), **({"number": number} if number else {})})
            case {"t": "stop"}:
                self._stopping = True
            case _:
                raise Malformed("an order that this broker does not know")

    def _listen(self, url: str, keys: KeyPair) -> None:
        try:
            self._host.tell({"t": "listening", "url": self._doors.open(url, keys)})
        except EndpointError as error:
            self._host.tell({"t": "refused", "order": "listen", "url": url, "why": str(error)})

    def _report(self, what: str) -> None:
        self._host.tell({"t": "event", "what": what})

    def stats(self) -> dict[str, object]:
        """For the host: gauges, pairs routed, what was dropped or refused by reason, and who is not let in for how many
        seconds and why."""
        return {
            "connections": self._table.connections,
            "addresses": self._table.addresses,
            "sockets": len(self._lookout.crowd),
            "routed": self._routing.routed,
            "counts": dict(self._counts),
            "banned": [
                {"name": name, "seconds": round(seconds, 3), "why": why}
                for name, (seconds, why) in self._lookout.bans.told(time.monotonic()).items()
            ],
        }

    def _tell_of_guilty(self) -> None:
        while self.suspicion.guilty:
            connection, process = self.suspicion.guilty.pop(0)
            now = time.monotonic()
            self._counts["cut off: a message without an end"] += 1
            self._lookout.ban(self._table.principal(connection), process, "it sends a message without an end", now)
            self._lookout.tidy_later(now)
