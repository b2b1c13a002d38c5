"""Following what a node does: the host lets in, the node is given one order, and is heard until its last word.

A node that dies is started again, and finds what it was doing in its records. So whoever follows it asks the next one
to go on, for as long as a node takes to be there again. An order that certainly did not arrive is sent again; one of
which that is not known is not.
"""

import asyncio
import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from partyctl.control import Control
from partyctl.errors import HostError, RunFailed
from partyctl.maps import Map, pack, unpack
from partyctl_broker.errors import BusError
from partyctl_broker.peer import ZmqBus
from partyctl_broker.port import Letter, Mailbox

ENTER_LIMIT = 5.0
"""Seconds the host may take to let somebody in."""

CONNECT_LIMIT = 15.0
"""Seconds the broker may take to answer; on a machine with ten times the work it can do it takes some."""

CANCEL_LIMIT = 10.0
"""Seconds what is cancelled may take to say that it has stopped."""

NODE_LIMIT = 30.0
"""Seconds a node may take to be there again."""

ANSWER_LIMIT = 60.0
"""Seconds a node may take to say anything of an order about an agent session; a worker may take 20 s to be ready."""

_AGAIN = 0.3
"""Seconds between two questions whether it is."""

Show = Callable[[Map], None]


class NodeGone(HostError):
    """The node that was asked something has ended.

    Attributes:
        has_heard: whether the order may have arrived.
    """

    has_heard = True


class NodeSilent(HostError):
    """The node that was asked something is there, and said nothing for too long."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the host gives to one submitter: an identity at the broker, and the node that takes the order."""

    run: str
    node: str
    address: str
    endpoint: str
    principal: str
    secret: bytes = field(repr=False)


def enter(control: Control, about: Map | None = None) -> Entry:
    """Ask the host to let somebody in.

    Args:
        control: the host.
        about: which agent session the order is for; none for a run.

    Raises:
        HostError: it does not, or its answer is none.
    """
    refusal = "the host did not take the order" if about else "the host did not take the run"
    reply = control.request({"t": "enter", **(about or {})}, ENTER_LIMIT)
    try:
        if reply.get("t") != "entered" or len(reply.fds) != 1:
            raise HostError(refusal, why=str(reply.get("error", reply.get("t"))))
        run, node, address, endpoint, principal = (
            str(reply[name]) for name in ("run", "node", "address", "endpoint", "principal")
        )
        return Entry(run, node, address, endpoint, principal, os.read(reply.fds[0], 64))
    except KeyError as error:
        raise HostError(refusal, why=f"its answer has no {error}") from None
    finally:
        for fd in reply.fds:
            os.close(fd)


@dataclass(frozen=True, slots=True)
class Losses:
    """What is said when somebody is lost: the node before it had the order, and after that; the broker; the host."""

    absent: str
    node: str
    broker: str
    host: str


class Listener(ABC):
    """Hears what a node tells about one order.

    Args:
        entry: what the host gave.
        order: what the node is asked for.
        show: told what happens meanwhile.

    Attributes:
        over: ends with the last word.
        begun: what has begun by the order, once the node has said so; "" until then.
        is_answered: whether the node has said something since it was asked last.
    """

    losses: Losses
    answer_limit: float | None = None
    """Seconds until the first word; None for no limit."""

    def __init__(self, entry: Entry, order: Map, show: Show) -> None:
        self.entry = entry
        self.order = order
        self.begun = ""
        self.over: asyncio.Future[Map] = asyncio.get_running_loop().create_future()
        self.is_answered = True
        self._show = show
        self._has_heard = False

    @abstractmethod
    def hear(self, event: str, message: Map) -> bool:
        """Take what was told; whether it was the last word."""

    @abstractmethod
    def going_on(self) -> Map:
        """The order to a node whose predecessor had begun."""

    @abstractmethod
    def ending(self) -> Map | None:
        """The order to end what was begun, or may be yet; None if nothing is to be ended."""

    @abstractmethod
    def fix(self) -> str:
        """What to do when somebody was lost."""

    def failed(self, error: RunFailed) -> RunFailed:
        """How it is told that it failed."""
        return error

    def may_go_on(self, gone: NodeGone) -> bool:
        """Whether another node may be asked."""
        return bool(self.begun) or not gone.has_heard

    def again(self, gone: NodeGone) -> None:
        """The node is asked once more."""
        if self.is_answered and self.begun:
            self._show({"event": "gone", "node": self.entry.node, "why": gone.why})
        self.is_answered = False
        self.over = asyncio.get_running_loop().create_future()

    def letter(self, letter: Letter) -> None:
        """One event, or the last word; what is neither is dropped."""
        try:
            message = unpack(letter.payload)
        except ValueError:
            return
        event = message.get("event")
        if letter.source != self.entry.node or self.over.done() or not isinstance(event, str):
            return
        self.is_answered = self._has_heard = True
        if event == "failed":
            code = message.get("code")
            self._fail(self.failed(RunFailed(str(message.get("error")), code if isinstance(code, int) else 1)))
            return
        try:
            is_last = self.hear(event, message)
        except Exception as error:  # a full disk, a reader that has had enough: nobody sees the rest
            self._fail(error)
            return
        if is_last:
            self.over.set_result(message)

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        """The order did not arrive."""
        gone = NodeGone(self.losses.absent, where=destination, why=why, fix="Try it again")
        gone.has_heard = False
        self._fail(gone)

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        """The node died, or this end is closed for good."""
        is_node = address == self.entry.node
        kind, what = (NodeGone, self.losses.node) if is_node else (HostError, self.losses.broker)
        self._fail(kind(what, where=address, why=why, fix=self.fix()))

    def link_lost(self, why: str) -> None:  # noqa: B027  nothing is to be done, by no listener
        """The broker died; the host starts another, and the node goes on."""

    def host_gone(self) -> None:
        """The host closed the conversation, which it does only by ending."""
        self._fail(HostError(self.losses.host, fix=self.fix()))

    def unanswered(self, seconds: float) -> None:
        """Time is up for the first word."""
        if not self._has_heard:
            node = self.entry.node
            fix = "See how it is with: partyctl status"
            self._fail(NodeSilent(f"{node} did not answer within {seconds:g} s", fix=fix))

    def _fail(self, error: Exception) -> None:
        if not self.over.done():
            self.over.set_exception(error)
            self.over.exception()  # whoever follows may have left; then the error is not an unheard one


async def follow(control: Control, about: Map | None, listening: Callable[[Entry], Listener]) -> Map:
    """Give an order, and follow it to its end; the last word. Cancelled, it ends what it began.

    Args:
        control: the host.
        about: see `enter`.
        listening: makes who hears the node.

    Raises:
        RunFailed: it was refused, or failed; with the exit code its error has.
        HostError: the host takes none, or the node or the broker was lost.
        BusError: the broker does not let this process in.
    """
    entry = enter(control, about)
    loop = asyncio.get_running_loop()
    listener = listening(entry)
    loop.add_reader(control.fileno(), listener.host_gone)
    try:
        bus = await ZmqBus.connect(entry.endpoint, entry.principal, entry.secret, timeout=CONNECT_LIMIT)
        try:
            mailbox = await bus.open(entry.address, listener)
            mailbox.send(entry.node, pack(listener.order))
            return await _followed(listener, mailbox)
        finally:
            await bus.close()
    finally:
        loop.remove_reader(control.fileno())


async def _followed(listener: Listener, mailbox: Mailbox) -> Map:
    """Wait for the last word; when cancelled, end what was begun, and wait until it has ended."""
    limit, loop = listener.answer_limit, asyncio.get_running_loop()
    timer = None if limit is None else loop.call_later(limit, listener.unanswered, limit)
    try:
        return await _last_word(listener, mailbox)
    except NodeSilent:
        ending = listener.ending()
        if ending is not None:
            with contextlib.suppress(BusError):
                mailbox.send(listener.entry.node, pack(ending))
        raise
    except asyncio.CancelledError:
        ending = listener.ending()
        if ending is not None:
            with contextlib.suppress(TimeoutError, RunFailed, HostError, BusError):
                mailbox.send(listener.entry.node, pack(ending))
                async with asyncio.timeout(CANCEL_LIMIT):
                    await asyncio.shield(listener.over)
        raise
    finally:
        if timer is not None:
            timer.cancel()


async def _last_word(listener: Listener, mailbox: Mailbox) -> Map:
    loop = asyncio.get_running_loop()
    until = 0.0
    while True:
        try:
            return await asyncio.shield(listener.over)
        except NodeGone as gone:
            if listener.is_answered:
                until = loop.time() + NODE_LIMIT
            if not listener.may_go_on(gone) or loop.time() >= until:
                raise
            listener.again(gone)
        await asyncio.sleep(_AGAIN)
        with contextlib.suppress(BusError):
            order = listener.going_on() if listener.begun else listener.order
            mailbox.send(listener.entry.node, pack(order))
