import msgpack

from partyctl_confinement import forward, messages
from partyctl_confinement.forward import PIECE_MAX, Backlog


def _all(backlog):
    taken = []
    while (message := backlog.take()) is not None:
        taken.append(msgpack.unpackb(message))
    return taken


def _put(backlog, worker_id, data):
    backlog.put(worker_id, "Writer", {"role": "Writer"}, data)


def test_output_comes_in_order_with_who_printed_it() -> None:
    backlog = Backlog()
    _put(backlog, "w", b"one\n")
    _put(backlog, "v", b"two\n")
    first, second = _all(backlog)
    assert first == {"t": "output", "id": "w", "name": "Writer", "labels": {"role": "Writer"}, "data": b"one\n"}
    assert (second["id"], second["data"]) == ("v", b"two\n")
    assert not backlog


def test_a_death_comes_behind_the_output_and_only_where_there_is_room() -> None:
    backlog = Backlog(longest=200, share=200)
    _put(backlog, "w", b"last words")
    backlog.died("w", messages.died("w", "Writer", {}, 7, 9))
    backlog.died("v", messages.died("v", "v" * 200, {}, 7, 9))
    assert [(message["t"], message["id"]) for message in _all(backlog)] == [("output", "w"), ("died", "w")]
    assert not backlog


def test_a_long_piece_is_cut() -> None:
    backlog = Backlog()
    _put(backlog, "w", b"x" * (2 * PIECE_MAX + 5))
    assert [len(message["data"]) for message in _all(backlog)] == [PIECE_MAX, PIECE_MAX, 5]


def test_what_does_not_fit_is_counted_and_the_count_stands_where_it_is_missing() -> None:
    backlog = Backlog(longest=1000, share=1000)
    _put(backlog, "w", b"a" * 900)
    _put(backlog, "w", b"b" * 300)
    _put(backlog, "w", b"c" * 400)
    assert msgpack.unpackb(backlog.take())["data"] == b"a" * 900
    _put(backlog, "w", b"d")
    dropped, after = _all(backlog)
    assert dropped == {"t": "dropped", "id": "w", "bytes": 700}
    assert after["data"] == b"d"


def test_a_count_is_told_even_if_nothing_comes_after_it() -> None:
    backlog = Backlog(longest=100, share=100)
    _put(backlog, "w", b"a" * 300)
    assert backlog
    assert _all(backlog) == [{"t": "dropped", "id": "w", "bytes": 300}]
    assert not backlog


def test_a_worker_that_floods_takes_no_room_from_others() -> None:
    backlog = Backlog(longest=10_000, share=1000)
    for _ in range(100):
        _put(backlog, "flood", b"x" * 500)
    _put(backlog, "quiet", b"hello")
    told = _all(backlog)
    assert b"hello" in [message.get("data") for message in told]
    kept = sum(len(message["data"]) for message in told if message["t"] == "output" and message["id"] == "flood")
    lost = sum(message["bytes"] for message in told if message["t"] == "dropped")
    assert kept + lost == 50_000
    assert kept <= 1000


def test_the_counts_of_any_number_of_workers_are_bounded_and_none_is_lost(monkeypatch) -> None:
    monkeypatch.setattr(forward, "COUNTS_MAX", 3)
    backlog = Backlog(longest=10, share=10)
    for number in range(10):
        _put(backlog, f"w-{number}", b"x")
    told = _all(backlog)
    assert len(told) == 4
    assert told[-1] == {"t": "dropped", "id": "", "bytes": 7}
