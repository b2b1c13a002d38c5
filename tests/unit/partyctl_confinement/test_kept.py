"""Workers of agent sessions without their processes: who has them, under which epoch, and how long they wait."""

import os
import socket
from collections.abc import Iterator

import pytest

from partyctl_base.channel import Channel
from partyctl_confinement.kept import ENDS_MAX, AttachRefused, Kept
from partyctl_confinement.nursery import Worker
from partyctl_confinement.requests import Spawn


class Pair:
    """A worker's pair: the worker's own end, and the client's."""

    def __init__(self, kept: Kept, name: str, session: str = "s", epoch: int = 1) -> None:
        self.client, self.own = Channel.pair()
        labels = {"session": session} if session else {}
        self.worker = Worker(Spawn(name, name, "a:b", labels, epoch=epoch), "first", 7, -1, 0.0)
        kept.add(self.worker, self.client.fileno())

    def close(self) -> None:
        self.client.close()
        self.own.close()


@pytest.fixture
def kept() -> Iterator[Kept]:
    made = Kept(limit=10.0)
    yield made
    for each in list(made._by_id.values()):
        made.ended(each.worker)


@pytest.fixture
def pair(kept: Kept) -> Iterator[Pair]:
    made = Pair(kept, "w")
    yield made
    made.close()


def test_a_worker_of_no_session_is_not_kept(kept: Kept) -> None:
    pair = Pair(kept, "w", session="")
    assert not kept.detach(pair.worker, 0.0)
    assert kept.attach("", 5, "second") is None
    pair.close()


def test_a_detached_worker_sees_no_end_and_cannot_report(kept: Kept, pair: Pair) -> None:
    pair.client.send(b"last words")
    pair.client.close()
    assert kept.detach(pair.worker, 0.0)
    assert pair.worker.client is None
    received = pair.own.receive(timeout=1)
    assert received is not None
    assert received.data == b"last words"
    with pytest.raises(TimeoutError):
        pair.own.receive(timeout=0.01)
    with pytest.raises(Exception, match="gone"):
        pair.own.send(b"report", timeout=1)


def test_whoever_attaches_gets_the_other_end_of_where_the_worker_is_sent(kept: Kept, pair: Pair) -> None:
    pair.client.close()
    kept.detach(pair.worker, 0.0)
    attached = kept.attach("s", 2, "second")
    assert attached is not None
    assert (attached.worker, attached.previous, pair.worker.client) == (pair.worker, None, "second")
    moved = pair.own.receive(timeout=1)
    assert moved is not None
    assert moved.moved
    here, there = Channel.from_fd(attached.end), Channel.from_fd(moved.fds[0])
    there.send(b"here I am")
    answer = here.receive(timeout=1)
    assert answer is not None
    assert answer.data == b"here I am"
    here.close()
    there.close()


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_only_a_later_epoch_attaches(kept: Kept, pair: Pair, epoch: int) -> None:
    first = kept.attach("s", 2, "second")
    assert first is not None
    assert first.previous == "first"
    with pytest.raises(AttachRefused, match=f"epoch {epoch} is not later than 2"):
        kept.attach("s", epoch, "third")
    assert pair.worker.client == "second"
    os.close(first.end)


def test_of_several_workers_the_youngest_that_is_not_being_killed_is_had(kept: Kept) -> None:
    pairs = [Pair(kept, name) for name in ("old", "young", "dying")]
    pairs[2].worker.cause = "killed"
    attached = kept.attach("s", 2, "second")
    assert attached is not None
    assert attached.worker is pairs[1].worker
    os.close(attached.end)
    for pair in pairs:
        pair.close()


def test_one_that_waits_too_long_is_due_and_one_that_is_attached_is_not(kept: Kept, pair: Pair) -> None:
    assert kept.due() is None
    kept.detach(pair.worker, 100.0)
    assert kept.due() == 110.0
    assert kept.overdue(109.9) == []
    assert kept.overdue(110.0) == [pair.worker]
    attached = kept.attach("s", 2, "second")
    assert attached is not None
    assert (kept.due(), kept.overdue(1000.0)) == (None, [])
    os.close(attached.end)


def test_one_that_is_being_killed_is_not_due_again(kept: Kept, pair: Pair) -> None:
    kept.detach(pair.worker, 100.0)
    pair.worker.cause = "unattached"
    assert (kept.due(), kept.overdue(1000.0)) == (None, [])


def test_one_that_has_ended_is_had_with_a_channel_that_has_too(kept: Kept, pair: Pair) -> None:
    kept.ended(pair.worker)
    with pytest.raises(AttachRefused):
        kept.attach("s", 1, "second")
    attached = kept.attach("s", 2, "second")
    assert attached is not None
    assert attached.is_gone
    end = socket.socket(fileno=attached.end)
    assert end.recv(10) == b""
    end.close()


def test_the_ends_of_so_many_sessions_are_remembered(kept: Kept) -> None:
    for number in range(ENDS_MAX + 1):
        pair = Pair(kept, f"w{number}", session=f"s{number}")
        kept.ended(pair.worker)
        pair.close()
    assert kept.attach("s0", 2, "second") is None
    attached = kept.attach("s1", 2, "second")
    assert attached is not None
    os.close(attached.end)


def test_a_worker_that_does_not_read_is_not_had_and_stays_where_it_was(kept: Kept, pair: Pair) -> None:
    while pair.client.try_send_record(b"\x00unread"):
        pass
    with pytest.raises(AttachRefused, match="does not read"):
        kept.attach("s", 2, "second")
    assert pair.worker.client == "first"


def test_a_worker_that_has_just_died_is_had_and_its_notice_comes_later(kept: Kept, pair: Pair) -> None:
    pair.own.close()
    attached = kept.attach("s", 2, "second")
    assert attached is not None
    end = socket.socket(fileno=attached.end)
    assert end.recv(10) == b""
    end.close()


def test_a_worker_to_which_somebody_is_about_to_attach_waits_anew_and_one_with_a_client_for_nobody(kept: Kept) -> None:
    pairs = [Pair(kept, "a", "s-a"), Pair(kept, "b", "s-b"), Pair(kept, "c", "s-c")]
    first, second, third = (each.worker for each in pairs)
    kept.detach(first, 0.0)
    kept.detach(second, 0.0)
    kept.expect("session", "s-a", 5.0)
    kept.expect("session", "s-c", 5.0)
    kept.expect("run", "s-b", 5.0)
    assert kept.overdue(10.0) == [second]
    assert kept.overdue(15.0) == [first, second]
    assert third.client == "first"
    for pair in pairs:
        pair.close()
