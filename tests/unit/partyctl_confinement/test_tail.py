from partyctl_confinement.tail import Tail


def test_the_last_bytes_are_kept_in_order_whatever_the_pieces() -> None:
    stream = bytes(range(256)) * 10
    for size in (1, 3, 7, 16, 100, 2560):
        tail = Tail(16)
        for start in range(0, len(stream), size):
            tail.feed(stream[start : start + size])
        assert tail.bytes() == stream[-16:]


def test_less_than_the_limit_is_kept_whole() -> None:
    tail = Tail(16)
    tail.feed(b"short")
    tail.feed(b"")
    assert tail.bytes() == b"short"


def test_nothing_fed_is_nothing_kept() -> None:
    assert Tail().bytes() == b""
