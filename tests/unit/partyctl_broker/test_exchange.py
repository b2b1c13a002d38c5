import asyncio

import pytest

from partyctl_broker import BusFull, Letter, LetterRefused
from partyctl_broker.exchange import QUEUE_MAX, TURN, Exchange, check_payload
from partyctl_broker.wire import PAYLOAD_MAX


class Memory:
    def __init__(self):
        self.heard = []

    def letter(self, letter):
        self.heard.append(letter.payload)

    def undelivered(self, letter_id, destination, why):
        self.heard.append(("undelivered", letter_id, destination))

    def gone(self, address, unknown, why):
        self.heard.append(("gone", address, why))

    def link_lost(self, why):
        self.heard.append(("link_lost", why))


def on_a_loop(story):
    async def told():
        await story(Exchange())

    asyncio.run(told())


async def turns(count=4):
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_long_queue_leaves_turns_to_the_rest_of_the_loop():
    async def story(exchange):
        memory = Memory()
        exchange.add("b", memory)
        for number in range(TURN + 1):
            exchange.post(number, Letter("a", "b", b"x"))
        await turns(1)
        assert len(memory.heard) == TURN
        await turns(1)
        assert len(memory.heard) == TURN + 1

    on_a_loop(story)


def test_a_letter_whose_receiver_leaves_before_it_is_read_comes_back_before_gone_is_told():
    async def story(exchange):
        a = Memory()
        exchange.add("a", a)
        exchange.add("b", Memory())
        exchange.post(7, Letter("a", "b", b"x"))
        exchange.remove("b", "it was closed")
        await turns()
        assert a.heard == [("undelivered", 7, "b"), ("gone", "b", "it was closed")]

    on_a_loop(story)


def test_a_cleared_exchange_tells_nobody_anything():
    async def story(exchange):
        a = Memory()
        exchange.add("a", a)
        exchange.post(1, Letter("a", "a", b"x"))
        exchange.link_lost("why")
        exchange.clear()
        await turns()
        assert a.heard == []
        assert exchange.addresses == ()

    on_a_loop(story)


def test_a_receiver_may_clear_the_exchange_while_it_is_told():
    async def story(exchange):
        class Last(Memory):
            def letter(self, letter):
                super().letter(letter)
                exchange.clear()

        last = Last()
        exchange.add("a", last)
        for number in range(3):
            exchange.post(number, Letter("a", "a", b"%d" % number))
        await turns()
        assert last.heard == [b"0"]

    on_a_loop(story)


def test_what_waits_is_bounded():
    async def story(exchange):
        exchange.add("a", Memory())
        letter = Letter("a", "a", b"")
        for number in range(QUEUE_MAX):
            exchange.post(number, letter)
        with pytest.raises(BusFull):
            exchange.post(0, letter)
        exchange.clear()

    on_a_loop(story)


def test_a_payload_is_measured_before_it_is_sent():
    check_payload(bytes(PAYLOAD_MAX), "a")
    with pytest.raises(LetterRefused, match="over the ceiling"):
        check_payload(bytes(PAYLOAD_MAX + 1), "a")
