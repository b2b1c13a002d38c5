import pytest

from partyctl_actors.supervision.open_connections import OpenConnections


class FakeConnection:
    """A connection that keeps what was done to it."""

    def __init__(self, conversation_id: str | None = None, *, alive: bool = True) -> None:
        self.conversation_id, self.alive, self.calls = conversation_id, alive, list[str]()

    def interrupt(self) -> None:
        self.calls.append("interrupt")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def pair() -> tuple[OpenConnections, FakeConnection, FakeConnection]:
    connections, first, second = OpenConnections(), FakeConnection("c-1"), FakeConnection("c-2", alive=False)
    connections.add(1, first)  # type: ignore[arg-type]
    connections.add(2, second)  # type: ignore[arg-type]
    return connections, first, second


def test_what_is_held(pair) -> None:
    connections, first, _ = pair
    assert connections[1] is first
    assert first in connections
    assert (connections.dead, connections.conversation_id) == ([2], "c-1")


def test_a_connection_is_closed_once(pair) -> None:
    connections, first, second = pair
    connections.close(1)
    connections.close(1)
    assert (first.calls, second.calls) == (["close"], [])
    assert first not in connections


def test_one_whose_closing_is_interrupted_is_closed_with_the_next_that_is_not_needed(pair) -> None:
    connections, first, second = pair

    def interrupted() -> None:
        first.close = lambda: FakeConnection.close(first)
        raise KeyboardInterrupt

    first.close = interrupted
    with pytest.raises(KeyboardInterrupt):
        connections.close(1)
    assert first in connections
    connections.close_others((2, None))
    assert (first.calls, second.calls) == (["close"], [])
    assert first not in connections


def test_those_that_are_not_needed_are_closed(pair) -> None:
    connections, first, second = pair
    connections.close_others((2, None))
    assert (first.calls, second.calls) == (["close"], [])
    connections.close_others((None,))
    assert second.calls == ["close"]
    assert (connections.dead, connections.conversation_id) == ([], None)


def test_all_are_interrupted(pair) -> None:
    connections, first, second = pair
    connections.interrupt()
    assert (first.calls, second.calls) == (["interrupt"], ["interrupt"])
