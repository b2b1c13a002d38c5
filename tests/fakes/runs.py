"""What the tests of runs share: messages, small protocols, a loop whose clock jumps, and players that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from partyctl_actors.participants import Agent, BasePlayer, Meter, Offer, Player, Script, Seat, replies
from partyctl_actors.protocol import Message, Protocol, Role, choose, loop, repeat, roles, send
from partyctl_actors.runs import RoleActor, Session, messages
from partyctl_actors.runs.messages import RunMessage, decode, encode
from partyctl_actors.transcript import Envelope
from partyctl_broker.local import LocalBus
from partyctl_broker.port import Bus, Letter

T = TypeVar("T")

A, B, C = roles("A", "B", "C")


class Ping(Message):
    """A ping."""

    text: str = ""


class Pong(Message):
    """A pong."""

    text: str = ""


class Stop(Message):
    """Enough."""


class Notice(Message):
    """For the third."""


one_send = Protocol(send(A, B, Ping))
request_reply = Protocol(send(A, B, Ping), send(B, A, Pong))
rally = Protocol(loop(send(A, B, Ping), choose(B, A, {Pong: [repeat()], Stop: []})))
triangle = Protocol(send(A, B, Ping), send(B, C, Notice), send(A, C, Ping))


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop that does not wait for timers: when nothing else is to be done, its clock jumps to the next one."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        really_select = self._selector.select  # type: ignore[attr-defined]

        def select(timeout: float | None) -> Any:
            ready = really_select(0 if timeout is not None else 5.0)
            if timeout is None and not ready:
                raise AssertionError("the loop waits, and nothing will ever happen")
            if not ready and timeout:
                self._now += timeout
            return ready

        self._selector.select = select  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._now


def jumping(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on a loop whose clock jumps, and see that it leaves no task behind."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:

        async def alone() -> T:
            result = await work
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, left
            return result

        return runner.run(alone())


class Hanging(BasePlayer):
    """Never answers; remembers how it was stopped. `stubborn` players do not let themselves be cancelled."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.stubborn = stubborn
        self.asked = False
        self.cancelled: list[str] = []
        self.closed = 0

    def bind(self, seat: Seat) -> Hanging:
        return self

    async def author(self, offer: Offer) -> Message:
        self.asked = True
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise

    async def cancel(self, reason: str) -> None:
        self.cancelled.append(reason)

    async def close(self) -> None:
        self.closed += 1


class Raising(BasePlayer):
    """Raises `error` when asked, or when told something."""

    def __init__(self, error: BaseException, *, at: str = "author") -> None:
        self.error = error
        self.at = at

    def bind(self, seat: Seat) -> Raising:
        return self

    async def author(self, offer: Offer) -> Message:
        raise self.error

    def hear(self, envelope: Envelope) -> None:
        if self.at == "hear":
            raise self.error


class Counting:
    """Counts how often it is bound."""

    def __init__(self) -> None:
        self.bound = 0

    def bind(self, seat: Seat) -> Player:
        self.bound += 1
        return Script([]).bind(seat)


def scripted(text: str = "hi") -> Session:
    return Session(request_reply, {A: Script([Ping(text)]), B: Agent(replies([Pong("yo")]))})


class Peer:
    """One end of the bus, driven by hand: what it received, decoded, and whatever it wants to send."""

    def __init__(self) -> None:
        self.heard: list[RunMessage] = []
        self.lost: list[str] = []
        self._news = asyncio.Event()

    async def open(self, bus: Bus, address: str) -> Peer:
        self.mailbox = await bus.open(address, self)
        return self

    def send(self, destination: str, message: RunMessage | bytes) -> None:
        self.mailbox.send(destination, message if isinstance(message, bytes) else encode(message))

    async def hears(self, kind: type[T]) -> T:
        """Wait for a message of this kind, and take it."""
        while True:
            for message in self.heard:
                if isinstance(message, kind):
                    self.heard.remove(message)
                    return message
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 60)

    def letter(self, letter: Letter) -> None:
        self.heard.append(decode(letter.payload))
        self._news.set()

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        self.lost.append(destination)
        self._news.set()

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        self.lost.append(address)
        self._news.set()

    def link_lost(self, why: str) -> None:
        self.lost.append("")


class Remembering(BasePlayer):
    """Says `lines`; remembers what it heard and was reminded of."""

    def __init__(self, *lines: Message) -> None:
        self.lines = list(lines)
        self.offers: list[Offer] = []
        self.heard: list[Envelope] = []
        self.recalled: list[Envelope] = []

    def author(self, offer: Offer) -> Message:
        self.offers.append(offer)
        return self.lines.pop(0)

    def hear(self, envelope: Envelope) -> None:
        self.heard.append(envelope)

    def recall(self, envelope: Envelope) -> None:
        self.recalled.append(envelope)


class Scene:
    """One role actor, and its conductor by hand."""

    def __init__(
        self, player: Player, role: Role = A, protocol: Protocol = request_reply, meter: Meter | None = None
    ) -> None:
        self.bus = LocalBus()
        self.conductor = Peer()
        self.actor = RoleActor(self.bus, "r", role, protocol, player, meter=meter)
        self.address = f"run/r/{role}"

    async def __aenter__(self) -> Scene:
        await self.conductor.open(self.bus, "run/r")
        self.acting = asyncio.ensure_future(self.actor.run())
        self.joined = await self.conductor.hears(messages.Join)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.acting.cancel()
        await asyncio.gather(self.acting, return_exceptions=True)
        await self.bus.close()

    def tell(self, message: messages.RunMessage | bytes) -> None:
        self.conductor.send(self.address, message)

    async def over(self) -> BaseException | None:
        await self.acting
        return self.actor.failure
