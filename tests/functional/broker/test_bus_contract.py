"""One contract, every bus: what `port.py` promises holds whichever bus carries the letters."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from partyctl_broker import AddressTaken, Bus, BusClosed, BusError, Letter, LetterRefused, LocalBus
from partyctl_broker.wire import PAYLOAD_MAX

Story = Callable[[Bus, Bus], Awaitable[None]]


@pytest.fixture(params=["local", "one connection", "two connections"])
def tell(request, connections):
    """Run a story on two buses that reach each other; they may be one and the same."""

    def run(story: Story) -> None:
        async def over_a_broker(endpoint: str) -> None:
            async with connections(endpoint) as connect:
                first = await connect()
                await story(first, first if request.param == "one connection" else await connect())

        async def in_one_process() -> None:
            bus = LocalBus()
            await story(bus, bus)
            await bus.close()

        async def limited() -> None:
            async with asyncio.timeout(30):
                if request.param == "local":
                    await in_one_process()
                else:
                    await over_a_broker(request.getfixturevalue("broker").endpoint)

        asyncio.run(limited())

    return run


def confirmed(recorder):
    """A recorder that hears of acknowledgements, too."""

    class Confirmed(recorder):
        def acknowledged(self, letter_id):
            self._note("acknowledged", letter_id)

    return Confirmed()


class TestBusContract:
    def test_a_letter_arrives_with_its_source_and_correlation(self, tell, recorder):
        async def story(here, there):
            a, b = recorder(), recorder()
            sender = await here.open("run/a", a)
            await there.open("run/b", b)
            sender.send("run/b", b"hello", 7)
            assert await b.wait("letter") == [(Letter("run/a", "run/b", b"hello", 7),)]

        tell(story)

    def test_letters_between_two_addresses_keep_their_order(self, tell, recorder):
        async def story(here, there):
            b = recorder()
            sender = await here.open("run/a", recorder())
            await there.open("run/b", b)
            for number in range(10_000):
                await sender.room("run/b")
                sender.send("run/b", b"%d" % number)
            await b.wait("letter", 10_000)
            assert b.payloads == [b"%d" % number for number in range(10_000)]

        tell(story)

    def test_payloads_of_any_size_up_to_the_ceiling_arrive(self, tell, recorder):
        async def story(here, there):
            b = recorder()
            sender = await here.open("run/a", recorder())
            await there.open("run/b", b)
            sizes = [0, 1, 65_535, 65_536, 200_000, PAYLOAD_MAX]
            for size in sizes:
                sender.send("run/b", b"x" * size)
            await b.wait("letter", len(sizes))
            assert [len(payload) for payload in b.payloads] == sizes

        tell(story)

    def test_a_payload_over_the_ceiling_is_refused_at_once(self, tell, recorder):
        async def story(here, there):
            sender = await here.open("run/a", recorder())
            with pytest.raises(LetterRefused, match="ceiling"):
                sender.send("run/b", b"x" * (PAYLOAD_MAX + 1))

        tell(story)

    @pytest.mark.parametrize("address", ["", "a\0b", "x" * 256, "\ud800"])
    def test_what_cannot_be_an_address_is_refused(self, tell, recorder, address):
        async def story(here, there):
            sender = await here.open("run/a", recorder())
            with pytest.raises(LetterRefused):
                sender.send(address, b"")
            with pytest.raises(LetterRefused):
                await here.open(address, recorder())

        tell(story)

    def test_addresses_may_hold_any_other_text(self, tell, recorder):
        async def story(here, there):
            b = recorder()
            sender = await here.open("run/ä b/\n", recorder())
            await there.open("run/\N{SNOWMAN}", b)
            sender.send("run/\N{SNOWMAN}", b"x")
            assert await b.wait("letter") == [(Letter("run/ä b/\n", "run/\N{SNOWMAN}", b"x"),)]

        tell(story)

    def test_a_letter_to_nobody_comes_back_by_its_id(self, tell, recorder):
        async def story(here, there):
            a = recorder()
            sender = await here.open("run/a", a)
            first, second = sender.send("run/nobody", b"1"), sender.send("run/nowhere", b"2")
            heard = await a.wait("undelivered", 2)
            assert [entry[:2] for entry in heard] == [(first, "run/nobody"), (second, "run/nowhere")]

        tell(story)

    def test_an_address_that_is_taken_is_refused(self, tell, recorder):
        async def story(here, there):
            a = recorder()
            await here.open("run/a", a)
            with pytest.raises(AddressTaken, match="run/a"):
                await there.open("run/a", recorder())

        tell(story)

    def test_a_closed_address_is_free_again(self, tell, recorder):
        async def story(here, there):
            (await here.open("run/a", recorder())).close()
            again = recorder()
            await here.open("run/a", again)
            (await there.open("run/b", recorder())).send("run/a", b"x")
            assert await again.wait("letter") == [(Letter("run/b", "run/a", b"x"),)]

        tell(story)

    def test_a_closed_mailbox_is_gone_for_those_it_exchanged_letters_with(self, tell, recorder):
        async def story(here, there):
            a, b, stranger = recorder(), recorder(), recorder()
            sender = await here.open("run/a", a)
            other = await there.open("run/b", b)
            await there.open("run/c", stranger)
            sender.send("run/b", b"1")
            await b.wait("letter")
            other.close()
            assert [entry[0] for entry in await a.wait("gone")] == ["run/b"]
            assert stranger.heard == []

        tell(story)

    def test_the_last_letter_comes_before_gone(self, tell, recorder):
        async def story(here, there):
            b = recorder()
            sender = await here.open("run/a", recorder())
            await there.open("run/b", b)
            sender.send("run/b", b"last words")
            sender.close()
            await b.wait("gone")
            assert [entry[0] for entry in b.heard] == ["letter", "gone"]

        tell(story)

    def test_a_closed_mailbox_sends_nothing(self, tell, recorder):
        async def story(here, there):
            sender = await here.open("run/a", recorder())
            sender.close()
            sender.close()
            with pytest.raises(BusClosed, match="closed"):
                sender.send("run/b", b"x")

        tell(story)

    def test_a_closed_bus_opens_nothing_and_its_mailboxes_send_nothing(self, tell, recorder):
        async def story(here, there):
            sender = await here.open("run/a", recorder())
            await here.close()
            await here.close()
            with pytest.raises(BusClosed):
                sender.send("run/b", b"x")
            with pytest.raises(BusClosed):
                await here.open("run/b", recorder())

        tell(story)

    def test_a_letter_is_acknowledged_when_its_receiver_says_so_and_not_before(self, tell, recorder):
        async def story(here, there):
            a, b = confirmed(recorder), recorder()
            sender = await here.open("run/a", a)
            receiver = await there.open("run/b", b)
            sender.send("run/b", b"plain")
            first = sender.send("run/b", b"1", confirm=True)
            second = sender.send("run/b", b"2", confirm=True)
            plain, letter, other = [entry[0] for entry in await b.wait("letter", 3)]
            assert a.heard == []
            for done in (plain, other, letter, letter):
                receiver.acknowledge(done)
            assert await a.wait("acknowledged", 2) == [(second,), (first,)]
            receiver.close()
            assert await a.wait("gone") == [("run/b", (), "it was closed")]

        tell(story)

    def test_a_letter_that_was_not_acknowledged_is_unknown_when_its_receiver_goes(self, tell, recorder):
        async def story(here, there):
            a, b = confirmed(recorder), recorder()
            sender = await here.open("run/a", a)
            receiver = await there.open("run/b", b)
            letter_id = sender.send("run/b", b"1", confirm=True)
            await b.wait("letter")
            await asyncio.sleep(0.2)  # it has its receipt by now, which promises nothing
            receiver.close()
            assert await a.wait("gone") == [("run/b", (letter_id,), "it was closed")]

        tell(story)

    def test_nobody_asks_for_an_acknowledgement_that_it_could_not_hear(self, tell, recorder):
        async def story(here, there):
            sender = await here.open("run/a", recorder())
            await there.open("run/b", recorder())
            with pytest.raises(LetterRefused, match="acknowledgement"):
                sender.send("run/b", b"1", confirm=True)

        tell(story)

    def test_a_receiver_is_never_called_from_within_send(self, tell, recorder):
        async def story(here, there):
            b = recorder()
            sender = await here.open("run/a", recorder())
            await there.open("run/b", b)
            sender.send("run/b", b"x")
            assert b.heard == []
            await b.wait("letter")

        tell(story)

    def test_two_mailboxes_may_answer_each_other_ten_thousand_times(self, tell, recorder):
        class Player(recorder):
            def letter(self, letter):
                number = int(letter.payload)
                if number < 10_000:
                    self.mailbox.send(letter.source, b"%d" % (number + 1))
                else:
                    super().letter(letter)

        async def story(here, there):
            a, b = Player(), Player()
            a.mailbox = await here.open("run/a", a)
            b.mailbox = await there.open("run/b", b)
            a.mailbox.send("run/b", b"1")
            assert await a.wait("letter") == [(Letter("run/b", "run/a", b"10000"),)]

        tell(story)

    def test_a_receiver_that_raises_harms_nobody_else(self, tell, recorder):
        class Faulty(recorder):
            def letter(self, letter):
                super().letter(letter)
                raise RuntimeError("my own affair")

        async def story(here, there):
            reported = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
            faulty, sound = Faulty(), recorder()
            sender = await here.open("run/a", recorder())
            await there.open("run/b", faulty)
            await there.open("run/c", sound)
            sender.send("run/b", b"1")
            sender.send("run/b", b"2")
            sender.send("run/c", b"3")
            await sound.wait("letter")
            await faulty.wait("letter", 2)
            assert [str(error) for error in reported] == ["my own affair"] * 2

        tell(story)

    def test_every_error_is_a_bus_error_that_names_the_address(self, tell, recorder):
        async def story(here, there):
            await here.open("run/a", recorder())
            with pytest.raises(BusError, match="run/a"):
                await here.open("run/a", recorder())

        tell(story)
