"""What a broker is told of peers beyond this machine, with brokers that are no processes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from fakes.children import FakeChild, FakeChildren
from fakes.quiet import quietly

from partyctl.errors import HostError
from partyctl.host.budget import RestartPolicy
from partyctl.host.listening import LISTEN_LIMIT, Listening, document
from partyctl.host.tree import Tree
from partyctl.keys import Keys
from partyctl.maps import Map, pack
from partyctl_base.errors import PartyError
from partyctl_broker.errors import KeyRefused

ANY, TAKEN = "tcp://127.0.0.1:0", "tcp://127.0.0.1:41000"
HEARD: Map = {"t": "listening", "url": TAKEN}
REFUSED: Map = {"t": "refused", "order": "listen", "why": f"it cannot be bound ({TAKEN}): somebody has it"}


class Noted:
    """A witness that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def happened(self, kind: str, subject: str, cause: str = "", **fields: object) -> None:
        self.events.append((kind, subject, cause))

    def printed(self, message: Map) -> None:
        raise AssertionError("no worker runs here")


class Grove:
    """A tree that listens, its keys, and what it said."""

    def __init__(self, directory: Path, url: str) -> None:
        self.children = FakeChildren(answers={"listen": HEARD, "stats": {}})
        self.keys = Keys("p")
        self.said: list[str] = []
        self.gave_up: list[str] = []
        self.noted = Noted()
        self.listening = Listening(url, self.keys, self.said.append, self.noted)
        self.tree = Tree(
            directory, 1, self.children, self.said.append, self.gave_up.append,
            RestartPolicy(first_wait=0.0), self.noted, listening=self.listening,
        )  # fmt: skip

    def broker(self, number: int = -1) -> FakeChild:
        return self.children.named("broker")[number]

    async def next_broker(self) -> FakeChild:
        self.broker().exits(-9)
        await asyncio.sleep(0.1)
        return self.broker()


@pytest.fixture
def grown(runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Grove]:
    """Start a tree with the key `anna`, do some work, stop it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def grow(work: Callable[[Grove], Awaitable[None]], url: str = TAKEN, **answers: Map) -> Grove:
        async def live() -> Grove:
            grove = Grove(runtime, url)
            grove.keys.add("anna", ("desk/anna",))
            await grove.listening.refresh()
            grove.children.answers |= answers
            try:
                await grove.tree.start()
                await work(grove)
            finally:
                await grove.tree.stop()
            return grove

        return quietly(live())

    return grow


def names(broker: FakeChild, kind: str) -> list[object]:
    return [message["name"] for message in broker.of_kind(kind)]


def test_a_broker_is_told_the_keys_before_it_is_told_to_listen(grown: Callable[..., Grove]) -> None:
    async def look(grove: Grove) -> None:
        kinds = [message["t"] for message in grove.broker().heard if message["t"] in ("key", "listen")]
        assert kinds == ["key", "listen"]
        (key,) = grove.broker().of_kind("key")
        assert (key["name"], key["claims"]) == ("key/anna", ["desk/anna"])
        (order,) = grove.broker().of_kind("listen")
        assert order["secret"] == grove.keys.broker().secret
        state = {"url": TAKEN, "state": "listening", "keys": 1, "last_cause": None}
        assert document(grove.listening) == state

    assert any(TAKEN in line for line in grown(look, ANY).said)


def test_an_endpoint_that_cannot_be_taken_at_first_fails_the_start_and_is_named_once(
    grown: Callable[..., Grove],
) -> None:
    async def nothing(grove: Grove) -> None:
        raise AssertionError("it started")

    with pytest.raises(HostError) as refused:
        grown(nothing, listen=REFUSED)
    assert str(refused.value).startswith(f"the party cannot listen ({TAKEN}): somebody has it.")


def test_a_broker_that_does_not_say_whether_it_listens_fails_the_start(grown: Callable[..., Grove]) -> None:
    async def nothing(grove: Grove) -> None:
        raise AssertionError("it started")

    with pytest.raises(HostError, match=f"did not answer within {LISTEN_LIMIT:.0f} s"):
        grown(nothing, listen={"t": "else"})


def test_a_new_broker_listens_where_the_former_one_did(grown: Callable[..., Grove]) -> None:
    async def kill(grove: Grove) -> None:
        second = await grove.next_broker()
        (order,) = second.of_kind("listen")
        assert order["url"] == TAKEN
        assert names(second, "key") == ["key/anna"]
        assert grove.listening.is_open

    grown(kill, ANY)


def test_a_lost_endpoint_is_said_shown_and_tried_again_until_it_is_back(grown: Callable[..., Grove]) -> None:
    async def lose(grove: Grove) -> None:
        grove.children.answers["listen"] = REFUSED
        second = await grove.next_broker()
        await asyncio.sleep(5)
        shown = document(grove.listening) or {}
        assert (shown["state"], shown["last_cause"]) == ("not listening", "somebody has it")
        tries = len(second.of_kind("listen"))
        assert tries >= 3
        grove.children.answers["listen"] = HEARD
        await asyncio.sleep(60)
        assert grove.listening.is_open
        assert len(second.of_kind("listen")) == tries + 1

    grove = grown(lose)
    assert grove.gave_up == []
    assert [kind for kind, *_ in grove.noted.events if "listening" in kind] == [
        "listening",
        "not_listening",
        "listening",
    ]


def test_where_any_port_would_do_another_one_is_taken_if_the_former_is_lost(grown: Callable[..., Grove]) -> None:
    async def lose(grove: Grove) -> None:
        grove.children.answers["listen"] = REFUSED
        second = await grove.next_broker()
        assert [order["url"] for order in second.of_kind("listen")][:2] == [TAKEN, ANY]

    grown(lose, ANY)


def test_a_revoked_key_is_forgotten_and_an_added_one_told_before_the_answer(grown: Callable[..., Grove]) -> None:
    async def change(grove: Grove) -> None:
        grove.keys.revoke("anna")
        grove.keys.add("bert", ("desk/bert",))
        await grove.listening.refresh("anna")
        assert names(grove.broker(), "forget") == ["key/anna"]
        assert names(grove.broker(), "key") == ["key/anna", "key/bert"]
        assert grove.listening.names == ["bert"]
        assert names(await grove.next_broker(), "key") == ["key/bert"]

    grown(change)


def test_a_name_with_another_key_is_forgotten_first(grown: Callable[..., Grove]) -> None:
    async def change(grove: Grove) -> None:
        grove.keys.revoke("anna")
        grove.keys.add("anna", ("desk/*",))
        await grove.listening.refresh()
        told = [message["t"] for message in grove.broker().heard if message.get("name") == "key/anna"]
        assert told == ["key", "forget", "key"]

    grown(change)


def test_a_damaged_file_keeps_no_key_from_being_revoked(grown: Callable[..., Grove]) -> None:
    async def change(grove: Grove) -> None:
        grove.keys.revoke("anna")
        grove.keys.add("bert", ())
        (grove.keys.directory / "bert.key").write_text("{")
        with pytest.raises(KeyRefused, match=r"bert\.key"):
            await grove.listening.refresh("anna")
        await asyncio.sleep(0.1)
        assert names(grove.broker(), "forget") == ["key/anna"]

    grown(change)


def test_a_broker_that_confirms_nothing_is_said(grown: Callable[..., Grove]) -> None:
    async def change(grove: Grove) -> None:
        del grove.children.answers["stats"]
        with pytest.raises(HostError, match="not confirmed"):
            await grove.listening.refresh()

    grown(change)


def test_changes_at_once_leave_the_broker_with_what_there_is(grown: Callable[..., Grove]) -> None:
    async def change(grove: Grove) -> None:
        async def one(number: int) -> None:
            grove.keys.add(f"k{number}", ())
            await grove.listening.refresh()
            if number % 2:
                grove.keys.revoke(f"k{number}")
                await grove.listening.refresh(f"k{number}")

        await asyncio.gather(*(one(number) for number in range(10)))
        known: set[object] = set()
        for message in grove.broker().heard:
            if message["t"] == "key":
                known.add(message["name"])
            elif message["t"] == "forget":
                known.discard(message["name"])
        assert known == {"key/anna", *(f"key/k{number}" for number in range(0, 10, 2))}

    grown(change)


def test_what_a_broker_notices_is_an_event(grown: Callable[..., Grove]) -> None:
    async def notice(grove: Grove) -> None:
        await grove.broker().far.send(pack({"t": "event", "what": "key/anna was cut off"}))
        await asyncio.sleep(0.1)

    grove = grown(notice)
    assert ("noticed", "broker", "key/anna was cut off") in grove.noted.events
    assert not any("no message of ours" in line for line in grove.said)


def test_without_listen_there_is_nothing_to_show() -> None:
    assert document(None) is None


def test_damaged_keys_stop_the_party_before_anything_starts(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    keys = Keys("p")
    keys.add("anna", ())
    (keys.directory / "anna.key").write_text("")

    async def begin() -> None:
        with pytest.raises(PartyError, match=r"anna\.key"):
            Grove(runtime, TAKEN)

    quietly(begin())
