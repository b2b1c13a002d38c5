"""Asking a node about an agent session: one order, what is told meanwhile, and the last word.

A turn that is under way goes on when its node dies: the next one takes it up. So whoever follows a turn asks the next
node for it, for as long as a node takes to be started again. An order that certainly did not arrive is sent again; one
of which that is not known is not.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable

from partyctl.control import Control
from partyctl.errors import HostError, RunFailed
from partyctl.maps import Map, pack, sendable, unpack
from partyctl.running import CANCEL_LIMIT, CONNECT_LIMIT, ENTER_LIMIT, Entry
from partyctl_broker.errors import BusError
from partyctl_broker.peer import ZmqBus
from partyctl_broker.port import Letter, Mailbox

NODE_LIMIT = 30.0
"""Seconds a node may take to be there again."""

_AGAIN = 0.3
"""Seconds between two questions whether it is."""

Show = Callable[[Map], None]


class NodeGone(HostError):
    """The node of an agent session ended while it was asked something.

    Attributes:
        has_heard: whether the order may have arrived.
    """

    has_heard = True


async def ask(control: Control, order: Map, show: Show) -> Map:
    """Give an order about an agent session, and follow it to its end. Cancelled, it ends the turn it began.

    Args:
        control: the host.
        order: `session`, `do`, and what goes with it.
        show: told what happens meanwhile.

    Raises:
        RunFailed: it was refused, or the turn failed; with the exit code its error has.
        HostError: the host takes none, or the node or the broker was lost.
    """
    session = str(order["session"])
    entry = _enter(control, {"session": session, "begins": order["do"] in ("send", "again")})
    loop = asyncio.get_running_loop()
    asker = Asker(entry.node, str(order["do"]), show)
    loop.add_reader(control.fileno(), asker.host_gone)
    try:
        bus = await ZmqBus.connect(entry.endpoint, entry.principal, entry.secret, timeout=CONNECT_LIMIT)
        try:
            mailbox = await bus.open(entry.address, asker)
            about: Map = {"t": "session", "run": entry.run, "session": session}
            told = sendable({**order, **about})
            mailbox.send(entry.node, pack(told))
            return await _followed(asker, mailbox, entry, told)
        finally:
            await bus.close()
    finally:
        loop.remove_reader(control.fileno())


def _enter(control: Control, about: Map) -> Entry:
    reply = control.request({"t": "enter", **about}, ENTER_LIMIT)
    try:
        if reply.get("t") != "entered" or len(reply.fds) != 1:
            raise HostError("the host did not take the order", why=str(reply.get("error", reply.get("t"))))
        run, node, address, endpoint, principal = (
            str(reply[name]) for name in ("run", "node", "address", "endpoint", "principal")
        )
        return Entry(run, node, address, endpoint, principal, os.read(reply.fds[0], 64))
    except KeyError as error:
        raise HostError("the host did not take the order", why=f"its answer has no {error}") from None
    finally:
        for fd in reply.fds:
            os.close(fd)


async def _followed(asker: "Asker", mailbox: Mailbox, entry: Entry, order: Map) -> Map:
    """Wait for the last word; when cancelled, end the turn, and wait until it has ended."""
    about = {key: order[key] for key in ("t", "run", "session")}
    try:
        return await _answered(asker, mailbox, entry, order, about)
    except asyncio.CancelledError:
        if asker.turn is not None:
            with contextlib.suppress(TimeoutError, RunFailed, HostError, BusError):
                mailbox.send(entry.node, pack({**about, "do": "interrupt", "turn": asker.turn}))
                async with asyncio.timeout(CANCEL_LIMIT):
                    await asyncio.shield(asker.over)
        raise


async def _answered(asker: "Asker", mailbox: Mailbox, entry: Entry, order: Map, about: Map) -> Map:
    loop = asyncio.get_running_loop()
    until: float | None = None
    while True:
        try:
            return await asyncio.shield(asker.over)
        except NodeGone as gone:
            until = until or loop.time() + NODE_LIMIT
            if (asker.turn is None and gone.has_heard) or loop.time() >= until:
                raise
            asker.again(gone)
        await asyncio.sleep(_AGAIN)
        following = {**about, "do": "follow", "turn": asker.turn}
        with contextlib.suppress(BusError):
            mailbox.send(entry.node, pack(order if asker.turn is None else following))


class Asker:
    """Hears what a node tells about one order.

    Attributes:
        over: ends with the last word.
        turn: the turn that it is about, once it has begun.
    """

    def __init__(self, node: str, doing: str, show: Show) -> None:
        self.node = node
        self._doing = doing
        self.turn: str | None = None
        self.over: asyncio.Future[Map] = asyncio.get_running_loop().create_future()
        self._show = show
        self._said_gone = False

    def again(self, gone: NodeGone) -> None:
        """The node is asked once more."""
        if not self._said_gone and self.turn is not None:
            self._said_gone = True
            self._show({"event": "gone", "node": self.node, "why": gone.why})
        self.over = asyncio.get_running_loop().create_future()

    def letter(self, letter: Letter) -> None:
        """One event, or the last word; what is neither is dropped."""
        try:
            message = unpack(letter.payload)
        except ValueError:
            return
        event = message.get("event")
        if letter.source != self.node or self.over.done() or not isinstance(event, str):
            return
        if event == "failed":
            code = message.get("code")
            self._fail(RunFailed(str(message.get("error")), code if isinstance(code, int) else 1))
        elif event == "ended":
            # An interrupt that was sent afterwards has a last word of its own.
            if message.get("do") in (None, self._doing):
                self.over.set_result(message)
        else:
            if event == "turn":
                self.turn = str(message.get("turn"))
            try:
                self._show(message)
            except Exception as error:  # a full disk, a reader that has had enough: nobody sees the rest
                self._fail(error)

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        """The order did not arrive."""
        gone = NodeGone("the node of the session is not there", where=destination, why=why, fix="Try it again")
        gone.has_heard = False
        self._fail(gone)

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        """The node died, or this end is closed for good."""
        if address == self.node:
            self._fail(NodeGone("the node of the session is gone", where=address, why=why, fix=_LOOK))
        else:
            self._fail(HostError("the broker was lost meanwhile", where=address, why=why, fix=_LOOK))

    def link_lost(self, why: str) -> None:
        """The broker died; the host starts another, and the turn goes on."""

    def host_gone(self) -> None:
        """The host closed the conversation, which it does only by ending."""
        self._fail(HostError("the host ended meanwhile", fix=_LOOK))

    def _fail(self, error: Exception) -> None:
        if not self.over.done():
            self.over.set_exception(error)
            self.over.exception()  # whoever follows may have left; then the error is not an unheard one


_LOOK = "See what became of it with: partyctl sessions show, and partyctl sessions turns"
