import asyncio

from partyctl_broker.errors import BusClosed
from partyctl_broker.waiting import Timers, Waiters, resolve


def on_a_loop(story):
    async def limited():
        async with asyncio.timeout(5):
            await story()

    asyncio.run(limited())


def test_a_timer_is_replaced_by_the_next_of_its_name_and_forgotten_when_it_fired():
    async def story():
        timers, fired = Timers(), []
        over = asyncio.Event()
        timers.set("a", 60, lambda: fired.append("late"))
        timers.set("a", 0, lambda: fired.append("a"))
        timers.set("b", 0, over.set)
        await over.wait()
        timers.cancel("a")
        assert fired == ["a"]

    on_a_loop(story)


def test_a_timer_is_only_ever_moved_forward():
    async def story():
        timers, fired = Timers(), []
        over = asyncio.Event()
        timers.set_earlier("a", 0.01, over.set)
        timers.set_earlier("a", 60, lambda: fired.append("late"))
        await over.wait()
        over.clear()
        timers.set_earlier("a", 60, lambda: fired.append("late"))
        timers.set_earlier("a", 0, over.set)
        await over.wait()
        assert fired == []

    on_a_loop(story)


def test_cleared_timers_do_not_fire():
    async def story():
        timers, fired = Timers(), []
        timers.set("a", 0, lambda: fired.append("a"))
        timers.clear()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert fired == []

    on_a_loop(story)


def test_all_who_wait_are_woken_together():
    async def story():
        waiters = Waiters()
        waiting = [asyncio.ensure_future(waiters.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        waiters.wake()
        await asyncio.gather(*waiting[1:])

    on_a_loop(story)


def test_a_wait_ends_once():
    async def story():
        future = asyncio.get_running_loop().create_future()
        resolve(future)
        resolve(future, BusClosed("too late"))
        assert future.result() is None

    on_a_loop(story)
