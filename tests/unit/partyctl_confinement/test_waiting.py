import pytest

from partyctl_confinement.requests import Spawn
from partyctl_confinement.waiting import Waiting


def _fill(waiting, client, count, start=0):
    for number in range(start, start + count):
        assert waiting.put(client, Spawn(f"{client}-{number}", "x", "a:b")) == ""


def _taken(waiting):
    taken = []
    while (each := waiting.take()) is not None:
        taken.append(each[1].id)
    return taken


def test_one_client_is_served_in_its_order() -> None:
    waiting = Waiting()
    _fill(waiting, "a", 4)
    assert _taken(waiting) == ["a-0", "a-1", "a-2", "a-3"]
    assert len(waiting) == 0


def test_a_burst_of_one_client_does_not_hold_up_another() -> None:
    waiting = Waiting()
    _fill(waiting, "a", 500)
    _fill(waiting, "b", 2)
    assert _taken(waiting)[:5] == ["a-0", "b-0", "a-1", "b-1", "a-2"]


def test_a_client_that_asks_again_after_its_turn_comes_after_those_who_wait() -> None:
    waiting = Waiting()
    _fill(waiting, "a", 1)
    _fill(waiting, "b", 1)
    waiting.take()
    _fill(waiting, "a", 1, start=1)
    assert _taken(waiting) == ["b-0", "a-1"]


def test_over_the_bound_of_a_client_the_refusal_names_it_and_what_to_do() -> None:
    waiting = Waiting(per_client=2, total=3)
    _fill(waiting, "a", 2)
    why = waiting.put("a", Spawn("more", "x", "a:b"))
    assert "of this client" in why
    assert "2 may" in why
    assert "ask again" in why
    _fill(waiting, "b", 1)


def test_over_the_bound_of_all_the_refusal_names_it_and_what_to_do() -> None:
    waiting = Waiting(per_client=2, total=3)
    _fill(waiting, "a", 2)
    _fill(waiting, "b", 1)
    why = waiting.put("b", Spawn("more", "x", "a:b"))
    assert "of all clients" in why
    assert "3 may" in why
    assert "more" not in waiting
    waiting.take()
    _fill(waiting, "b", 1, start=1)


def test_only_its_own_client_can_withdraw_a_request() -> None:
    waiting = Waiting()
    _fill(waiting, "a", 2)
    assert not waiting.withdraw("b", "a-0")
    assert waiting.withdraw("a", "a-0")
    assert not waiting.withdraw("a", "a-0")
    assert "a-0" not in waiting
    assert _taken(waiting) == ["a-1"]


@pytest.mark.parametrize("way", ["drop", "withdraw"])
def test_a_client_that_is_gone_leaves_nothing(way) -> None:
    waiting = Waiting()
    _fill(waiting, "a", 2)
    _fill(waiting, "b", 1)
    if way == "drop":
        assert [request.id for request in waiting.drop("a")] == ["a-0", "a-1"]
    else:
        assert all(waiting.withdraw("a", f"a-{number}") for number in range(2))
    assert waiting.clients() == ["b"]
    assert waiting.drop("nobody") == []
    assert _taken(waiting) == ["b-0"]
