"""How a role actor stops: deadlines, cancels, and conductors that go away."""

from __future__ import annotations

import asyncio
import logging

import pytest
from fakes.runs import (
    A,
    B,
    Hanging,
    Ping,
    Scene,
    jumping,
    request_reply,
)

from partyctl_actors.errors import DeadlineExceeded
from partyctl_actors.participants import BasePlayer, Offer
from partyctl_actors.payloads import pack
from partyctl_actors.protocol import Message
from partyctl_actors.runs import Limits, RoleActor, messages
from partyctl_actors.runs.addresses import role_address
from partyctl_broker.local import LocalBus

HI = pack({"text": "hi"})


async def freed(player: Hanging) -> int:
    """Let go of the calls that a player still hangs in; how many they were."""
    player.stubborn = False
    stuck = [task for task in asyncio.all_tasks() if "guarded" in repr(task)]
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)
    return len(stuck)


def test_a_deadline_ends_the_role_and_stops_its_player() -> None:
    async def test() -> None:
        player = Hanging()
        async with Scene(player) as scene:
            scene.tell(messages.Grant(1, 2.5))
            failure = await scene.over()
            assert isinstance(failure, DeadlineExceeded)
            assert "2.5 s to say Ping" in str(failure)
            assert asyncio.get_running_loop().time() == pytest.approx(2.5)
            assert (len(player.cancelled), player.closed) == (1, 1)

    jumping(test())


class Blocking(BasePlayer):
    def author(self, offer: Offer) -> Message:
        asyncio.get_running_loop()._now += 3  # type: ignore[attr-defined]
        return Ping("late")


class BlockingLater(Blocking):
    async def author(self, offer: Offer) -> Message:  # type: ignore[override]
        return super().author(offer)


@pytest.mark.parametrize("player", [Blocking, BlockingLater])
def test_a_deadline_holds_for_a_player_that_blocks_the_loop(player: type[BasePlayer]) -> None:
    async def test(within: float) -> BaseException | None:
        async with Scene(player()) as scene:  # type: ignore[arg-type]
            scene.tell(messages.Grant(1, within))
            if within < 3:
                return await scene.over()
            await scene.conductor.hears(messages.Sent)
            return scene.actor.failure

    error = jumping(test(2.5))
    assert isinstance(error, DeadlineExceeded)
    assert "it had 2.5 s" in str(error)
    assert jumping(test(3.5)) is None


def test_a_cancel_stops_the_player_before_it_is_confirmed() -> None:
    async def test() -> None:
        player = Hanging()
        async with Scene(player) as scene:
            scene.tell(messages.Grant(1, None))
            await asyncio.sleep(1)
            scene.tell(messages.Cancel("enough"))
            await scene.conductor.hears(messages.Cancelled)
            assert (player.asked, player.cancelled, player.closed) == (True, ["enough"], 1)
            assert await scene.over() is None

    jumping(test())


def test_a_player_that_does_not_stop_holds_up_the_confirmation_only_so_long(caplog: pytest.LogCaptureFixture) -> None:
    class Deaf(Hanging):
        async def cancel(self, reason: str) -> None:
            await asyncio.sleep(3600)

        async def close(self) -> None:
            raise OSError("cannot close")

    async def test() -> None:
        player = Deaf(stubborn=True)
        async with Scene(player) as scene:
            scene.tell(messages.Grant(1, None))
            await asyncio.sleep(1)
            began = asyncio.get_running_loop().time()
            scene.tell(messages.Cancel("enough"))
            await scene.conductor.hears(messages.Cancelled)
            assert asyncio.get_running_loop().time() - began < 5
            assert await freed(player) == 1

    with caplog.at_level(logging.WARNING):
        jumping(test())
    assert "did not stop" in caplog.text
    assert "cannot close" in caplog.text


def test_a_conductor_that_goes_away_ends_the_role() -> None:
    async def test() -> None:
        player = Hanging()
        async with Scene(player) as scene:
            scene.tell(messages.Grant(1, None))
            await asyncio.sleep(1)
            scene.conductor.mailbox.close()
            assert "conductor of the run is gone" in str(await scene.over())
            assert len(player.cancelled) == 1

    jumping(test())


def test_without_a_conductor_the_role_ends_at_once() -> None:
    async def test() -> None:
        bus = LocalBus()
        actor = RoleActor(bus, "r", A, request_reply, Hanging())
        await actor.run()
        assert "conductor of the run is gone" in str(actor.failure)
        await bus.close()

    jumping(test())


def test_a_broker_that_is_started_again_does_not_end_the_role() -> None:
    async def test() -> None:
        async with Scene(Hanging()) as scene:
            scene.actor.link_lost("no broker")
            await asyncio.sleep(0)
            assert scene.actor.failure is None
            assert not scene.acting.done()

    jumping(test())


def test_a_role_whose_own_mailbox_is_closed_for_good_ends() -> None:
    async def test() -> None:
        async with Scene(Hanging()) as scene:
            scene.actor.gone(role_address("r", A), (), "no broker")
            assert "no broker" in str(await scene.over())

    jumping(test())


def test_a_role_whose_task_is_cancelled_says_so_and_stops_its_player() -> None:
    async def test() -> None:
        player = Hanging()
        async with Scene(player) as scene:
            scene.acting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await scene.acting
            assert "was stopped" in (await scene.conductor.hears(messages.Failed)).text
            assert (len(player.cancelled), player.closed) == (1, 1)

    jumping(test())


def test_a_player_that_hangs_in_everything_still_lets_its_role_confirm_before_the_conductor_gives_up() -> None:
    class Stone(Hanging):
        async def cancel(self, reason: str) -> None:
            await self.author(Offer(A, B, (Ping,)))

        async def close(self) -> None:
            await self.author(Offer(A, B, (Ping,)))

    async def test() -> None:
        player = Stone(stubborn=True)
        async with Scene(player) as scene:
            scene.tell(messages.Grant(1, None))
            await asyncio.sleep(1)
            began = asyncio.get_running_loop().time()
            scene.tell(messages.Cancel("enough"))
            await scene.conductor.hears(messages.Cancelled)
            assert asyncio.get_running_loop().time() - began < Limits().stop
            assert await freed(player) == 3

    jumping(test())
