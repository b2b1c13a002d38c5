"""A channel on an asyncio event loop. Never imported on the worker's side."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from partyctl_base.channel import Channel, ChannelClosed, ChannelFault, Received, records


class AsyncChannel:
    """A `Channel` whose waits belong to the running event loop.

    One reader callback is registered for the channel's life and never cancelled, so that no message is lost
    between two calls of `receive`. It stops reading while more than `backlog` messages wait: then the socket
    fills and the sender waits.
    """

    def __init__(self, channel: Channel, *, backlog: int = 256) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._backlog = backlog
        self._ready: deque[Received] = deque()
        self._arrived = asyncio.Event()
        self._ended = False
        self._reading = False
        self._sending = asyncio.Lock()
        self._room_made: asyncio.Future[None] | None = None
        self.fault: ChannelFault | None = None
        self._resume_reading()

    async def send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        """Send one message, waiting for room. Cancelling a wait in mid-message closes the channel.

        Raises:
            ChannelClosed: the other end is gone.
            ChannelFault: the message is over the ceiling; nothing was sent.
        """
        self._channel.check_size(data)
        async with self._sending:
            for number, record in enumerate(records(data)):
                try:
                    while not self._channel.try_send_record(record, fds if number == 0 else ()):
                        await self._room()
                except asyncio.CancelledError:
                    if number:
                        self.close()
                    raise

    async def receive(self) -> Received | None:
        """The next message; None at end-of-file, again and again."""
        while not self._ready:
            if self._ended:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        received = self._ready.popleft()
        if not self._reading and not self._ended and len(self._ready) < self._backlog // 2:
            self._resume_reading()
        return received

    def close(self) -> None:
        """Close this end; idempotent. A waiting `receive` returns None."""
        self._end(self._channel.close)

    def hang_up(self) -> None:
        """`close`, for all who have this end; see `Channel.hang_up`."""
        self._end(self._channel.hang_up)

    def _end(self, by: Callable[[], None]) -> None:
        self._pause_reading()
        self._ended = True
        self._arrived.set()
        if self._channel.fileno() >= 0:
            self._loop.remove_writer(self._channel.fileno())
        by()
        self._wake_sender()

    def _resume_reading(self) -> None:
        if self._channel.fileno() < 0:
            self._ended = True
            return
        self._reading = True
        self._loop.add_reader(self._channel.fileno(), self._read)

    def _pause_reading(self) -> None:
        if self._reading and self._channel.fileno() >= 0:
            self._loop.remove_reader(self._channel.fileno())
        self._reading = False

    def _read(self) -> None:
        try:
            messages = self._channel.receive_ready()
        except ChannelFault as fault:
            # A peer that breaks the format is as good as gone; its process's exit notice tells the rest.
            self.fault = fault
            messages = None
        if messages is None:
            self._pause_reading()
            self._ended = True
        else:
            self._ready.extend(messages)
            if len(self._ready) >= self._backlog:
                self._pause_reading()
        self._arrived.set()

    async def _room(self) -> None:
        fd = self._channel.fileno()
        if fd < 0:
            raise ChannelClosed("this end of the channel is closed")
        self._room_made = self._loop.create_future()
        self._loop.add_writer(fd, self._wake_sender)
        try:
            await self._room_made
        finally:
            if self._channel.fileno() >= 0:
                self._loop.remove_writer(fd)

    def _wake_sender(self) -> None:
        if self._room_made is not None and not self._room_made.done():
            self._room_made.set_result(None)
