import asyncio
import os

import pytest

from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel, ChannelClosed


def test_large_messages_cross_both_ways_at_once() -> None:
    async def scenario() -> None:
        left, right = (AsyncChannel(end) for end in Channel.pair())
        one, two = os.urandom(2_000_000), os.urandom(2_000_000)
        _, _, got_two, got_one = await asyncio.wait_for(
            asyncio.gather(left.send(one), right.send(two), left.receive(), right.receive()), 10
        )
        assert got_one is not None
        assert got_two is not None
        assert (got_one.data, got_two.data) == (one, two)
        left.close()
        right.close()

    asyncio.run(scenario())


def test_reading_pauses_at_the_backlog_and_nothing_is_lost() -> None:
    async def scenario() -> None:
        a, b = Channel.pair()
        left, right = AsyncChannel(a), AsyncChannel(b, backlog=4)
        numbers = [str(number).encode() for number in range(2_000)]

        async def send_all() -> None:
            for number in numbers:
                await left.send(number)
            left.close()

        sending = asyncio.create_task(send_all())
        got = []
        while (received := await asyncio.wait_for(right.receive(), 5)) is not None:
            got.append(received.data)
        await sending
        assert got == numbers
        right.close()

    asyncio.run(scenario())


def test_closing_ends_a_waiting_receive_and_a_waiting_send() -> None:
    async def scenario() -> None:
        a, b = Channel.pair()
        channel = AsyncChannel(a)
        receiving = asyncio.create_task(channel.receive())
        sending = asyncio.create_task(channel.send(bytes(10_000_000)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        channel.close()
        assert await asyncio.wait_for(receiving, 5) is None
        with pytest.raises(ChannelClosed):
            await asyncio.wait_for(sending, 5)
        b.close()

    asyncio.run(scenario())


def test_a_peer_that_breaks_the_format_is_an_end_of_file_with_a_fault() -> None:
    async def scenario() -> None:
        a, b = Channel.pair()
        channel = AsyncChannel(a)
        b.socket.send(b"\x09nonsense")
        assert await asyncio.wait_for(channel.receive(), 5) is None
        assert "unknown flag" in str(channel.fault)
        channel.close()
        b.close()

    asyncio.run(scenario())
