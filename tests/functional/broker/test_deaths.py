"""Processes are killed, stopped and started again; nobody who should know is left without a word."""

import asyncio
import contextlib
import functools
import signal
import time

import pytest

from partyctl_broker import (
    AddressForbidden,
    AddressTaken,
    BusClosed,
    BusFull,
    BusTimeout,
    HelloDeferred,
    HelloRefused,
    Letter,
    peer,
    wire,
)
from partyctl_broker.control import Hello
from partyctl_broker.peer import ZmqBus
from partyctl_broker.wire import Kind

SECRET = bytes(range(32))


def run(story, limit=30):
    """Run a story of its own loop, within a limit in seconds."""

    async def limited():
        async with asyncio.timeout(limit):
            await story

    asyncio.run(limited())


class TestPeers:
    def test_a_killed_peer_is_gone_for_those_it_exchanged_letters_with_and_nobody_else(
        self, broker, peer_process, connections, recorder
    ):
        async def story():
            async with connections(broker.endpoint) as connect:
                friend, stranger = recorder(), recorder()
                mailbox = await (await connect()).open("run/friend", friend)
                await (await connect()).open("run/stranger", stranger)
                mailbox.send("run/echo", b"hello")
                await friend.wait("letter")
                echo.signal(signal.SIGKILL)
                killed = time.monotonic()
                assert [entry[0] for entry in await friend.wait("gone")] == ["run/echo"]
                assert time.monotonic() - killed < 1.0
                mailbox.send("run/echo", b"anyone?")
                await friend.wait("undelivered")
                assert stranger.heard == []

        echo = peer_process("run/echo")
        run(story())

    def test_what_a_killed_peer_sent_arrives_before_it_is_gone(self, broker, peer_process, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                friend = recorder()
                mailbox = await (await connect()).open("run/friend", friend)
                for number in range(300):
                    mailbox.send("run/echo", b"%d" % number)
                await friend.wait("letter", 100)
                echo.signal(signal.SIGKILL)
                await friend.wait("gone")
                await asyncio.sleep(0.2)
                kinds = [entry[0] for entry in friend.heard if entry[0] != "undelivered"]
                assert kinds.index("gone") == len(kinds) - 1

        echo = peer_process("run/echo")
        run(story())

    def test_a_dead_claimant_is_replaced_at_once(self, broker, peer_process, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                bus = await connect()
                for _ in range(5):
                    echo = peer_process("run/echo")
                    echo.signal(signal.SIGKILL)
                    echo.process.wait()
                    (await bus.open("run/echo", recorder())).close()
                    await bus.open(f"run/{echo.process.pid}", recorder())  # its answer comes after the BYE was heard

        run(story())

    def test_a_living_claimant_keeps_its_address_even_when_it_is_stopped(
        self, broker, peer_process, connections, recorder
    ):
        async def story():
            async with connections(broker.endpoint) as connect:
                bus = await connect()
                echo.signal(signal.SIGSTOP)
                with pytest.raises(AddressTaken, match="run/echo"):
                    await bus.open("run/echo", recorder())

        echo = peer_process("run/echo")
        run(story())

    def test_a_peer_that_never_reads_stalls_nobody_its_sender_is_told_and_nothing_is_lost(
        self, broker, peer_process, connections, recorder
    ):
        async def story():
            async with connections(broker.endpoint) as connect:
                flooder, pinger = recorder(), recorder()
                flood = await (await connect()).open("run/flooder", flooder)
                ping = await (await connect()).open("run/pinger", pinger)
                stopped.signal(signal.SIGSTOP)
                slowest, sent = 0.0, 0
                for number in range(1, 101):
                    with contextlib.suppress(BusFull):
                        for _ in range(100):
                            flood.send("run/stopped", b"%d" % sent + b" " * 10_240)
                            sent += 1
                    started = time.monotonic()
                    ping.send("run/echo", b"ping")
                    await pinger.wait("letter", number)
                    slowest = max(slowest, time.monotonic() - started)
                assert slowest < 1.0
                with pytest.raises(BusFull, match="run/stopped"):
                    flood.send("run/stopped", b"")
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(flood.room("run/stopped"), 0.1)
                stopped.signal(signal.SIGCONT)
                await flood.room("run/stopped")
                await flooder.wait("letter", sent)
                assert [int(payload) for payload in flooder.payloads] == list(range(sent))

        stopped, _echo = peer_process("run/stopped"), peer_process("run/echo")
        run(story())


class TestBroker:
    def test_a_killed_broker_is_survived_and_each_loss_is_told_once(self, broker, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                a, b = recorder(), recorder()
                sender = await (await connect()).open("run/a", a)
                await (await connect()).open("run/b", b)
                for loss in range(1, 4):
                    broker.kill()
                    await a.wait("link_lost", loss)
                    await b.wait("link_lost", loss)
                    broker.control.close()
                    broker.start()
                    # Peers come back in any order; until both are, a letter comes back undelivered.
                    while b"%d" % loss not in b.payloads:
                        sender.send("run/b", b"%d" % loss)
                        await asyncio.sleep(0.05)
                assert len(a.all("link_lost")) == len(b.all("link_lost")) == 3

        run(story(), 60)

    def test_letters_written_while_the_broker_is_away_wait_for_it(self, broker, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                a = recorder()
                sender = await (await connect()).open("run/a", a)
                broker.kill()
                await a.wait("link_lost")
                letter_id = sender.send("run/nobody", b"x")
                broker.control.close()
                broker.start()
                assert (await a.wait("undelivered"))[0][:2] == (letter_id, "run/nobody")

        run(story())

    def test_last_words_survive_the_broker_although_their_mailbox_is_closed(self, broker, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                b = recorder()
                sender = await (await connect()).open("run/a", recorder())
                await (await connect()).open("run/b", b)
                sender.send("run/b", b"hello")
                await b.wait("letter")
                broker.process.send_signal(signal.SIGSTOP)
                sender.send("run/b", b"last words")
                sender.close()
                await asyncio.sleep(0.1)
                broker.kill()
                broker.control.close()
                broker.start(arguments=())
                await b.wait("gone")
                assert b.payloads == [b"hello", b"last words"]

        run(story())

    def test_an_address_that_is_being_left_may_be_opened_again_across_the_broker(self, broker, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                again, b = recorder(), recorder()
                bus = await connect()
                sender = await bus.open("run/a", recorder())
                other = await (await connect()).open("run/b", b)
                sender.send("run/b", b"hello")
                await b.wait("letter")
                broker.process.send_signal(signal.SIGSTOP)
                sender.send("run/b", b"last words")
                sender.close()
                opening = asyncio.ensure_future(bus.open("run/a", again))
                await asyncio.sleep(0.1)
                broker.kill()
                broker.control.close()
                broker.start(arguments=())
                await opening
                await b.wait("gone")
                other.send("run/a", b"welcome back")
                await again.wait("letter")
                assert b.payloads == [b"hello", b"last words"]

        run(story())

    def test_who_died_while_there_was_no_broker_is_gone_for_those_it_exchanged_letters_with(
        self, broker, peer_process, connections, recorder
    ):
        async def story():
            async with connections(broker.endpoint) as connect:
                a = recorder()
                sender = await (await connect()).open("run/a", a)
                sender.send("run/echo", b"x")
                await a.wait("letter")
                await asyncio.sleep(0.2)  # nothing is under way any more
                broker.kill()
                echo.signal(signal.SIGKILL)
                broker.control.close()
                broker.start(arguments=())
                assert [entry[:2] for entry in await a.wait("gone")] == [("run/echo", ())]

        echo = peer_process("run/echo")
        run(story())

    def test_an_address_may_be_opened_while_the_broker_is_away(self, broker, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                a, b = recorder(), recorder()
                bus = await connect()
                await bus.open("run/a", a)
                broker.kill()
                await a.wait("link_lost")
                opening = asyncio.ensure_future(bus.open("run/b", b))
                await asyncio.sleep(0.05)
                broker.control.close()
                broker.start()
                await opening
                (await (await connect()).open("run/c", recorder())).send("run/b", b"x")
                assert await b.wait("letter") == [(Letter("run/c", "run/b", b"x"),)]

        run(story())

    def test_a_new_broker_that_learns_its_principals_late_is_asked_again(self, broker, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                a = recorder()
                sender = await (await connect()).open("run/a", a)
                broker.kill()
                await a.wait("link_lost")
                broker.control.close()
                broker.start(principals=False)
                letter_id = sender.send("run/nobody", b"x")
                while "handshake refused: principal" not in broker.stats()["counts"]:
                    await asyncio.sleep(0.02)
                broker.admit("p", SECRET, ["run/*"])
                assert (await a.wait("undelivered"))[0][0] == letter_id

        run(story())

    def test_a_bus_gives_up_on_a_broker_that_does_not_come_back(self, broker, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                a = recorder()
                sender = await (await connect(patience=0.3)).open("run/a", a)
                broker.kill()
                await a.wait("link_lost")
                await asyncio.sleep(0.6)
                with pytest.raises(BusClosed, match="no broker answered"):
                    sender.send("run/b", b"x")
                assert len(a.all("link_lost")) == 1
                assert [entry[0] for entry in a.all("gone")] == ["run/a"]

        run(story())

    def test_a_bus_that_is_refused_when_it_comes_back_says_so_when_it_gives_up(self, broker, connections, recorder):
        async def story():
            unheard = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
            async with connections(broker.endpoint) as connect:
                a = recorder()
                sender = await (await connect(patience=0.5)).open("run/a", a)
                broker.kill()
                await a.wait("link_lost")
                broker.control.close()
                broker.start(principals=False)
                assert "refused this peer for 0.5 s" in str((await a.wait("gone"))[0][2])
                with pytest.raises(BusClosed, match="refused this peer"):
                    sender.send("run/b", b"x")
                await asyncio.sleep(0.5)  # a link that was refused says so late
            assert not unheard

        run(story())

    def test_a_burst_just_before_the_end_still_leaves(self, broker, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                b = recorder()
                await (await connect()).open("run/b", b)
                leaving = await connect()
                sender = await leaving.open("run/a", recorder())
                for _ in range(20_000):
                    await sender.room("run/b")
                    sender.send("run/b", b"x" * 100)
                await leaving.close()
                await b.wait("gone")
                assert len(b.payloads) == 20_000

        run(story())

    def test_a_missing_broker_is_waited_for_and_then_named(self, unstarted_broker):
        async def story():
            with pytest.raises(BusTimeout, match=r"broker\.sock"):
                await ZmqBus.connect(unstarted_broker.endpoint, "p", SECRET, timeout=0.3)

        run(story())

    def test_a_stopped_broker_makes_an_open_time_out(self, broker, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                bus = await connect(timeout=0.3)
                broker.process.send_signal(signal.SIGSTOP)
                with pytest.raises(BusTimeout, match="run/a"):
                    await bus.open("run/a", recorder())
                broker.process.send_signal(signal.SIGCONT)
                # The claim that timed out was given back.
                await (await connect()).open("run/a", recorder())

        run(story())


class TestPrincipals:
    def test_a_wrong_secret_is_refused(self, broker):
        async def story():
            with pytest.raises(HelloRefused, match="secret is wrong"):
                await ZmqBus.connect(broker.endpoint, "p", b"x" * 32)
            with pytest.raises(HelloRefused, match="principal nobody"):
                await ZmqBus.connect(broker.endpoint, "nobody", SECRET)

        run(story())

    def test_one_of_another_version_is_refused_and_hears_what_to_do(self, broker, monkeypatch):
        monkeypatch.setattr(peer, "Hello", functools.partial(Hello, version=99))
        with pytest.raises(HelloRefused, match="speaks version 1 of the wire") as caught:
            run(ZmqBus.connect(broker.endpoint, "p", SECRET))
        assert caught.value.fix == "Let both ends have the same version of partyctl"

    def test_one_that_is_shown_out_hears_why_and_for_how_long_and_so_does_the_host(self, broker, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                bus, heard = await connect(), recorder()
                mailbox = await bus.open("run/x", heard)
                for _ in range(101):  # which none of its own methods would do
                    bus._push(wire.road("run/y", "run/another"), wire.seal(Kind.DATA, 1, 0, b"x"))
                await heard.wait("link_lost")
                (banned,) = broker.stats()["banned"]
                assert (banned["name"], banned["why"]) == ("p", "it does not keep to the wire")
                assert 0 < banned["seconds"] <= 1
                with pytest.raises(BusClosed, match="lets p in again in 1 s: it does not keep to the wire"):
                    mailbox.send("run/y", b"x")
                with pytest.raises(HelloDeferred, match="showed this principal out") as caught:
                    await connect()
                assert "partyctl events" in caught.value.fix

        run(story())
        assert [told["what"] for told in broker.told] == [
            "principal p was shown out, for 1 s: it does not keep to the wire"
        ]

    def test_an_address_without_a_rule_is_refused_by_name(self, broker, connections, recorder):
        async def story():
            async with connections(broker.endpoint) as connect:
                bus = await connect()
                with pytest.raises(AddressForbidden, match="session/x"):
                    await bus.open("session/x", recorder())
                await bus.open("run/x", recorder())

        run(story())

    def test_a_revoked_principal_is_shown_out_and_its_friends_are_told(self, broker, connections, recorder):
        async def story():
            broker.admit("q", b"q" * 32, ["desk/*"])
            async with connections(broker.endpoint) as connect:
                a, q = recorder(), recorder()
                sender = await (await connect()).open("run/a", a)
                revoked = await ZmqBus.connect(broker.endpoint, "q", b"q" * 32)
                mailbox = await revoked.open("desk/q", q)
                sender.send("desk/q", b"x")
                await q.wait("letter")
                broker.tell(t="forget", name="q")
                assert "revoked" in str((await a.wait("gone"))[0][2])
                assert "no longer vouches" in str((await q.wait("link_lost"))[0][0])
                with pytest.raises(BusClosed, match="no longer vouches"):
                    mailbox.send("run/a", b"x")
                await revoked.close()

        run(story())
