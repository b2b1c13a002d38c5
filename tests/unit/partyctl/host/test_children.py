"""The host's view of one child; `Children` itself starts processes and is tested in tests/functional/host."""

import asyncio

from fakes.children import FakeChild
from fakes.quiet import quietly

from partyctl.maps import pack, unpack
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel


def child() -> FakeChild:
    near, far = Channel.pair()
    return FakeChild("node/0", 1, AsyncChannel(far), AsyncChannel(near))


def test_all_who_ask_get_the_one_answer() -> None:
    async def asking() -> None:
        asked = child()
        questions = [asyncio.ensure_future(asked.ask("status", limit=1.0)) for _ in range(3)]
        received = await asked.far.receive()
        assert received is not None
        assert unpack(received.data) == {"t": "status"}
        asked.answered({"t": "status", "runs": []})
        assert await asyncio.gather(*questions) == [{"t": "status", "runs": []}] * 3
        asked.exits(0)
        asked.channel.close()

    quietly(asking())


def test_one_who_lost_patience_takes_nothing_from_those_who_still_wait() -> None:
    async def asking() -> None:
        asked = child()
        short = asyncio.ensure_future(asked.ask("status", limit=1.0))
        await asyncio.sleep(0.5)
        long = asyncio.ensure_future(asked.ask("status", limit=1.0))
        assert await short is None
        asked.answered({"t": "status"})
        assert await long == {"t": "status"}
        asked.exits(0)
        asked.channel.close()

    quietly(asking())


def test_who_wants_to_know_that_all_was_heard_takes_no_answer_to_an_earlier_question() -> None:
    async def asking() -> None:
        asked = child()
        first, second = (asyncio.ensure_future(asked.caught_up(limit=5.0)) for _ in range(2))
        plain = asyncio.ensure_future(asked.ask("stats", limit=5.0))
        numbers = []
        for _ in range(2):
            received = await asked.far.receive()
            assert received is not None
            numbers.append(unpack(received.data)["number"])
        asked.answered({"t": "stats", "number": numbers[0]})
        assert await first
        assert await plain == {"t": "stats", "number": numbers[0]}
        asked.answered({"t": "stats"})
        await asyncio.sleep(0.1)
        assert not second.done()
        asked.answered({"t": "stats", "number": numbers[1]})
        assert await second
        asked.exits(0)
        asked.channel.close()

    quietly(asking())


def test_a_child_that_reads_nothing_is_asked_in_vain_but_not_for_ever() -> None:
    async def asking() -> None:
        asked = child()
        asked.far._pause_reading()
        full = pack({"t": "x" * 60_000})
        while asked.channel._channel.try_send_record(b"\x00" + full):
            pass
        assert await asked.ask("status", limit=1.0) is None
        await asked.end(grace=1.0)
        assert asked.exited.result() == -9

    quietly(asking())


def test_an_order_with_two_possible_answers_takes_the_one_that_comes() -> None:
    async def ordering() -> None:
        ordered = child()
        first = asyncio.ensure_future(ordered.call({"t": "listen"}, ("listening", "refused"), limit=1.0))
        await asyncio.sleep(0.1)
        ordered.answered({"t": "refused"})
        assert await first == {"t": "refused"}
        second = asyncio.ensure_future(ordered.call({"t": "listen"}, ("listening", "refused"), limit=1.0))
        await asyncio.sleep(0.1)
        ordered.answered({"t": "listening"})
        assert await second == {"t": "listening"}
        ordered.exits(0)
        ordered.channel.close()

    quietly(ordering())


def test_who_waits_for_a_child_that_ends_waits_no_longer() -> None:
    async def asking() -> None:
        asked = child()
        question = asyncio.ensure_future(asked.ask("status", limit=1000.0))
        await asyncio.sleep(0.1)
        asked.exits(1)
        began = asyncio.get_running_loop().time()
        assert await question is None
        assert asyncio.get_running_loop().time() - began < 1
        asked.channel.close()

    quietly(asking())


def test_a_child_that_is_gone_is_told_and_asked_without_an_error() -> None:
    async def asking() -> None:
        asked = child()
        asked.exits(0)
        await asked.send({"t": "begin"})
        assert await asked.ask("status", limit=1.0) is None
        await asked.end(grace=1.0)

    quietly(asking())
