"""The real conductor and role actors over a bus that delivers in any order that a bus may, and as late as it likes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from fakes.runs import jumping

from partyctl_actors.errors import SessionError
from partyctl_actors.journals import Decision
from partyctl_actors.participants import BasePlayer, Offer
from partyctl_actors.protocol import Message, Protocol
from partyctl_actors.runs import Allowance, Conductor, Delivered, RoleActor, RunEvent
from partyctl_actors.runs.verdict import Verdict
from partyctl_actors.transcript import Envelope, Transcript
from partyctl_broker.port import Letter, Mailbox, Receiver


class ShuffledBus:
    """Between two mailboxes letters keep their order; which pair's letter comes next is drawn."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._receivers: dict[str, Receiver] = {}
        self._queues: dict[tuple[str, str], deque[bytes]] = {}

    async def open(self, address: str, receiver: Receiver) -> Mailbox:
        self._receivers[address] = receiver
        return _Mailbox(self, address)

    async def close(self) -> None:
        self._receivers.clear()

    def post(self, source: str, destination: str, payload: bytes) -> None:
        self._queues.setdefault((source, destination), deque()).append(payload)
        asyncio.get_running_loop().call_later(self._random.choice((0.0, 0.0, 0.5)), self._one)

    def _one(self) -> None:
        pair = self._random.choice(list(self._queues))
        queue = self._queues[pair]
        payload = queue.popleft()
        if not queue:
            del self._queues[pair]
        receiver = self._receivers.get(pair[1])
        if receiver is not None:
            receiver.letter(Letter(*pair, payload))

    def shut(self, address: str) -> None:
        self._receivers.pop(address, None)


class _Mailbox:
    def __init__(self, bus: ShuffledBus, address: str) -> None:
        self._bus = bus
        self.address = address

    def send(self, destination: str, payload: bytes, correlation: int = 0, *, confirm: bool = False) -> int:
        self._bus.post(self.address, destination, payload)
        return 0

    async def room(self, destination: str) -> None:
        pass

    def acknowledge(self, letter: Letter) -> None:
        pass

    def close(self) -> None:
        self._bus.shut(self.address)


class Drawing(BasePlayer):
    """Says what is drawn of the offer, at once, soon or late; remembers how often it was asked and reminded."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.asked = 0
        self.recalled: list[Envelope] = []

    def author(self, offer: Offer) -> Message | asyncio.Future[Message]:  # type: ignore[override]
        self.asked += 1
        message = self._random.choice(offer.messages)()
        if self._random.random() < 0.5:
            return message
        return asyncio.ensure_future(self._later(message))

    async def _later(self, message: Message) -> Message:
        await asyncio.sleep(self._random.choice((0.0, 0.5, 3.0)))
        return message

    def recall(self, envelope: Envelope) -> None:
        self.recalled.append(envelope)


class SlowRecord:
    """A record in memory; a decision in it is durable at once, or some time later."""

    def __init__(self, random: Random, decisions: Sequence[Decision] = ()) -> None:
        self._random = random
        self.kept = list(decisions)

    def append(self, decision: Decision) -> asyncio.Future[None] | None:
        delay = self._random.choice((None, None, 0.0, 0.5))
        if delay is None:
            self.kept.append(decision)
            return None
        loop = asyncio.get_running_loop()
        kept: asyncio.Future[None] = loop.create_future()
        loop.call_later(delay, self._keep, decision, kept)
        return kept

    def _keep(self, decision: Decision, kept: asyncio.Future[None]) -> None:
        self.kept.append(decision)
        kept.set_result(None)

    def decisions(self) -> Sequence[Decision]:
        return tuple(self.kept)

    def close(self, ending: str = "") -> None:
        pass


@dataclass(frozen=True)
class Conducted:
    """What came of a run: how it ended, what was said and recorded, and how often a role was asked and reminded."""

    verdict: Verdict
    transcript: Transcript
    record: tuple[Decision, ...]
    asked: int
    recalled: int


def conducted(protocol: Protocol, random: Random, recorded: Sequence[Decision] = (), *, steps: int) -> Conducted:
    """Run the protocol with roles that say anything on offer. No role may fail."""
    return jumping(_conducted(protocol, random, recorded, steps))


async def _conducted(protocol: Protocol, random: Random, recorded: Sequence[Decision], steps: int) -> Conducted:
    bus, record = ShuffledBus(random), SlowRecord(random, recorded)

    def watch(event: RunEvent) -> None:
        if isinstance(event, Delivered):
            assert event.turn <= len(record.kept), "it was delivered before it would survive"

    conductor = Conductor(protocol, "r", allowance=Allowance(steps=steps), record=record, on_event=watch)
    players = {role: Drawing(random) for role in protocol.roles}
    actors = [RoleActor(bus, "r", role, protocol, player) for role, player in players.items()]
    await conductor.open(bus)
    running = [asyncio.ensure_future(actor.run()) for actor in actors]
    (ended,) = await asyncio.gather(conductor.run(), return_exceptions=True)
    await asyncio.gather(*running)
    assert [actor.failure for actor in actors if actor.failure is not None] == []
    assert isinstance(ended, (Transcript, SessionError)), ended
    assert conductor.verdict is not None
    return Conducted(
        conductor.verdict,
        conductor.transcript,
        tuple(record.kept),
        sum(player.asked for player in players.values()),
        sum(len(player.recalled) for player in players.values()),
    )
