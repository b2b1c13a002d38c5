"""Following a run: events as maps, the follower's last word, and what the host's answer must hold."""

import asyncio
import os
from collections.abc import Callable

import pytest
from fakes.quiet import quietly
from fakes.runs import A, B, Ping
from hypothesis import given
from hypothesis import strategies as st

from partyctl.control import Reply
from partyctl.errors import HostError, RunFailed
from partyctl.following import Entry, NodeGone, enter
from partyctl.maps import Map, pack, unpack
from partyctl.running import Follower, event_map
from partyctl_actors.runs import Delivered, Reported
from partyctl_actors.supervision import WorkerStarted
from partyctl_actors.supervision.policy_commands import Decided, Rule
from partyctl_actors.supervision.policy_events import Outcome
from partyctl_actors.transcript import Envelope
from partyctl_broker.port import Letter

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT)
def test_a_delivery_is_told_with_its_payload_and_can_be_sent(text: str) -> None:
    event = event_map(Delivered("r", 1, Envelope(A, B, Ping(text))))
    assert event == {
        "event": "delivered",
        "sender": "A",
        "receiver": "B",
        "label": "Ping",
        "payload": {"text": text},
    }
    assert unpack(pack(event)) == event


@given(TEXT, TEXT, st.integers(1, 2**22), TEXT)
def test_a_worker_is_told_also_when_it_is_reported(role: str, provider: str, pid: int, confinement: str) -> None:
    event = event_map(WorkerStarted(role, provider, pid, confinement))
    assert event == {
        "event": "worker",
        "role": role,
        "provider": provider,
        "pid": pid,
        "confinement": confinement,
    }
    assert event_map(Reported("r", "A", WorkerStarted(role, provider, pid, confinement))) == event


def test_a_decision_of_the_recovery_rules_is_told_with_its_role_and_its_wait_and_can_be_sent() -> None:
    decided = Decided(Rule.RETRY, "turn-1", Outcome.TRANSIENT, None, 1, 0, False, 0, 1, 30.0, "overloaded")
    event = event_map(decided, "Writer")
    assert event is not None
    assert {name: event[name] for name in ("event", "role", "rule", "cause", "wait")} == {
        "event": "decided",
        "role": "Writer",
        "rule": "retry",
        "cause": "overloaded",
        "wait": 30.0,
    }
    assert unpack(pack(event)) == event
    assert event_map(Reported("r", "Writer", decided)) == event


@given(st.none() | st.text() | st.integers() | st.lists(st.integers()))
def test_anything_else_stays_inside(event: object) -> None:
    assert event_map(event) is None
    assert event_map(Reported("r", "A", event)) is None


NODE = "node/0"
ENTRY = Entry("run-1", NODE, "client/run-1", "ipc://x", "client/run-1", b"s" * 32)
ORDER: Map = {"t": "run", "run": "run-1", "path": "a.py", "resume": ""}


def listening(show: Callable[[Map], None]) -> Follower:
    return Follower(ENTRY, ORDER, show)


def letter(message: Map) -> Letter:
    return Letter(NODE, ENTRY.address, pack(message))


def heard(*payloads: bytes | Map, source: str = NODE) -> tuple[list[Map], BaseException | str | None]:
    """What a follower shows of these letters, and how it ends: an error, "ended", or None if it goes on."""

    async def hear() -> tuple[list[Map], BaseException | str | None]:
        shown: list[Map] = []
        follower = listening(shown.append)
        for payload in payloads:
            data = payload if isinstance(payload, bytes) else pack(payload)
            follower.letter(Letter(source, "client/run-1", data))
        if not follower.over.done():
            return shown, None
        return shown, follower.over.exception() or "ended"

    return quietly(hear())


def test_events_are_shown_until_the_run_ends() -> None:
    ended: Map = {"event": "ended", "run": "run-1", "messages": 0}
    assert heard({"event": "started"}, ended, {"event": "late"}) == ([{"event": "started"}, ended], "ended")


def test_a_failure_carries_its_exit_code() -> None:
    shown, end = heard({"event": "failed", "error": "no", "code": 7})
    assert isinstance(end, RunFailed)
    assert (shown, str(end), end.code) == ([], "no", 7)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x90", pack({}), pack({"event": 1}), pack({"event": None})])
def test_what_is_no_event_is_dropped(payload: bytes) -> None:
    assert heard(payload) == ([], None)


@pytest.mark.parametrize("payload", [{"event": "failed"}, {"event": "failed", "error": 1, "code": "x"}])
def test_a_failure_of_the_wrong_shape_is_a_failure_still(payload: Map) -> None:
    _, end = heard(payload)
    assert isinstance(end, RunFailed)
    assert end.code == 1


def test_a_stranger_ends_no_run() -> None:
    assert heard({"event": "ended"}, source="node/1") == ([], None)


def test_an_event_that_cannot_be_shown_ends_the_following() -> None:
    async def hear() -> None:
        def broken(event: Map) -> None:
            raise BrokenPipeError

        follower = listening(broken)
        follower.letter(Letter(NODE, "client/run-1", pack({"event": "started"})))
        with pytest.raises(BrokenPipeError):
            await follower.over

    quietly(hear())


LOSSES: list[Callable[[Follower], None]] = [
    lambda follower: follower.undelivered(1, NODE, "full"),
    lambda follower: follower.gone(NODE, (), "died"),
    lambda follower: follower.gone("client/run-1", (), "no broker answered"),
    lambda follower: follower.host_gone(),
]


@pytest.mark.parametrize("lose", LOSSES)
def test_every_loss_ends_the_following_once_and_disturbs_nobody_who_left(lose: Callable[[Follower], None]) -> None:
    async def hear() -> None:
        follower = listening(lambda event: None)
        lose(follower)
        first = follower.over.exception()
        follower.host_gone()
        assert follower.over.exception() is first
        assert isinstance(first, HostError)

    async def leave() -> None:
        lose(listening(lambda event: None))
        await asyncio.sleep(0)

    quietly(hear())
    quietly(leave())


def test_a_broker_that_is_started_again_does_not_end_the_following() -> None:
    async def hear() -> None:
        follower = listening(lambda event: None)
        follower.link_lost("died")
        assert not follower.over.done()
        follower.letter(Letter(NODE, "client/run-1", pack({"event": "ended"})))
        assert follower.over.done()

    quietly(hear())


# --- a node that dies

BEGAN: Map = {"event": "started", "run": "r"}


def said(number: int) -> Map:
    return {"event": "delivered", "label": f"m{number}"}


def dies(follower: Follower, *, has_heard: bool = True) -> bool:
    """The node dies, or is not there; whether the next one is asked."""
    if has_heard:
        follower.gone(NODE, (), "killed")
    else:
        follower.undelivered(1, NODE, "nobody there")
    error = follower.over.exception()
    assert isinstance(error, NodeGone)
    may = follower.may_go_on(error)
    follower.again(error)
    return may


def test_a_run_goes_on_at_the_next_node_and_nothing_is_told_twice() -> None:
    async def hear() -> list[Map]:
        shown: list[Map] = []
        follower = listening(shown.append)
        for message in (BEGAN, said(1), said(2)):
            follower.letter(letter(message))
        assert dies(follower)
        assert not any(not dies(follower, has_heard=False) for _ in range(3))
        assert follower.going_on() == {**ORDER, "resume": "r"}
        for message in (BEGAN, said(1), said(2), said(3), {"event": "ended"}):
            follower.letter(letter(message))
        assert follower.over.done()
        return shown

    shown = quietly(hear())
    assert [each.get("label", each["event"]) for each in shown] == ["started", "m1", "m2", "gone", "m3", "ended"]


def test_a_run_that_loses_its_node_twice_without_a_decision_goes_on_no_more() -> None:
    async def hear() -> None:
        follower = listening(lambda event: None)
        follower.letter(letter(BEGAN))
        for number in (1, 2, 3):
            for message in map(said, range(1, number + 1)):
                follower.letter(letter(message))
            assert dies(follower)
        for message in (BEGAN, said(1), said(2), said(3)):
            follower.letter(letter(message))
        assert not dies(follower)

    quietly(hear())


def test_a_run_that_was_not_told_to_have_begun_is_asked_for_again_only_if_its_order_did_not_arrive() -> None:
    async def hear(has_heard: bool) -> bool:
        return dies(listening(lambda event: None), has_heard=has_heard)

    assert quietly(hear(False))
    assert not quietly(hear(True))


class Answering:
    """A control conversation with one answer."""

    def __init__(self, answer: Map, secrets: int = 1) -> None:
        self._reply = Reply(answer)
        fds = []
        for _ in range(secrets):
            reading, writing = os.pipe()
            os.write(writing, b"s" * 32)
            os.close(writing)
            fds.append(reading)
        self._reply.fds = tuple(fds)

    def request(self, message: Map, timeout: float) -> Reply:
        return self._reply


ENTERED: Map = {
    "t": "entered",
    "run": "run-1",
    "node": NODE,
    "address": "client/run-1",
    "endpoint": "ipc://x",
    "principal": "client/run-1",
}


def test_an_entry_holds_what_the_host_gave_and_hides_its_secret() -> None:
    entry = enter(Answering(ENTERED))  # type: ignore[arg-type]
    assert entry == ENTRY
    assert "sss" not in repr(entry)


@pytest.mark.parametrize(
    ("answer", "secrets"),
    [({"t": "failed", "error": "draining"}, 0), (ENTERED, 0), (ENTERED, 2), ({"t": "entered"}, 1), ({}, 1)],
)
def test_an_answer_that_is_no_entry_is_an_error_and_leaves_no_descriptor(answer: Map, secrets: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(HostError, match="did not take the run"):
        enter(Answering(answer, secrets))  # type: ignore[arg-type]
    assert len(os.listdir("/proc/self/fd")) == before
