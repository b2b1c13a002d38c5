"""The broker's end of the control channel: what the host orders, and what it is told.

Orders, msgpack maps whose "t" names them:

    principal  name, secret (32 bytes), claims     vouch for a local peer
    key        name, public (Z85), claims          vouch for a peer beyond this machine
    forget     name                                vouch no more; its connections end
    listen     url, public, secret (Z85)           also take peers at a tcp endpoint, by CURVE
    unlisten   url                                 no more
    stats      number (if any)                     answered by stats, with that number: what came before is done by then
    stop       -

Told: ready (endpoint, pid), stats, listening (url), refused (order, why), event (what), failed (why).
"""

import contextlib
import os
from collections.abc import Iterator

import msgpack

from partyctl_base.channel import Channel, ChannelClosed, ChannelFault
from partyctl_broker.control import unpack_map
from partyctl_broker.errors import Malformed


class Host:
    """Who started the broker.

    Args:
        channel: to it.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.left = False
        """It closed the channel: it wants no broker any more."""

    def fileno(self) -> int:
        """The descriptor that tells of orders."""
        return self._channel.fileno()

    def orders(self) -> Iterator[dict[str, object] | None]:
        """What it wrote; None for what makes no sense. Does not wait."""
        try:
            messages = self._channel.receive_ready()
        except ChannelFault:
            messages = None
        if messages is None:
            self.left = True
            return
        for message in messages:
            for descriptor in message.fds:
                os.close(descriptor)
            try:
                yield unpack_map(message.data)
            except Malformed:
                yield None

    def tell(self, message: dict[str, object]) -> None:
        """Tell it something, if it listens; waits for at most a tenth of a second."""
        with contextlib.suppress(ChannelClosed, TimeoutError):
            self._channel.send(msgpack.packb(message), timeout=0.1)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()
