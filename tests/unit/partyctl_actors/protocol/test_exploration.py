from itertools import pairwise

import pytest
from fakes.letters import A, B, C, D, X, Y, Z

from partyctl_actors.protocol import (
    EndState,
    Protocol,
    ReceiveState,
    SendState,
    View,
    choose,
    explore,
    load_view,
    loop,
    par,
    project,
    refines,
    repeat,
    roles,
    send,
    view_definition,
)
from partyctl_actors.protocol.projection import ViewState


def view(role: object, *states: ViewState) -> View:
    return View(role, 0, states)  # type: ignore[arg-type]


def hears(role: object, **arms: int) -> ReceiveState:
    return ReceiveState(role, arms)  # type: ignore[arg-type]


def says(role: object, **arms: int) -> SendState:
    return SendState(role, arms)  # type: ignore[arg-type]


def test_the_views_of_a_protocol_are_sound() -> None:
    protocol = Protocol(par(loop(choose(A, B, {X: repeat(), Y: []})), [send(C, D, X)]), send(A, D, X))
    found = explore([project(protocol, role) for role in protocol.roles])
    assert found.sound
    assert found.trouble is None


def test_roles_that_wait_for_each_other_are_a_deadlock() -> None:
    found = explore([view(A, hears(B, X=1), EndState()), view(B, says(A, X=1), hears(A, Y=2), EndState())])
    assert (found.trouble, found.roles) == ("deadlock", (B,))
    assert [str(act) for act in found.witness] == ["B !A X", "A ?B X"]


@pytest.mark.parametrize("size", [2, 3, 7])
def test_roles_that_wait_in_a_circle_are_a_deadlock_and_the_circle_is_named(size: int) -> None:
    ring = roles(*(f"R{number}" for number in range(size)))
    silent = [view(role, hears(ring[number - 1], X=1), EndState()) for number, role in enumerate(ring)]
    bystander = view(A, hears(ring[0], X=1), EndState())
    found = explore([bystander, *silent])
    assert (found.trouble, found.roles, found.witness) == ("deadlock", (A, *ring), ())
    circle = ["R0", *(f"R{number}" for number in reversed(range(size)))]
    assert found.what.endswith(", ".join(f"{one} waits for {other}" for one, other in pairwise(circle)))
    assert "A waits" not in found.what


def test_a_role_that_waits_for_somebody_who_is_not_there_is_a_deadlock() -> None:
    assert explore([view(A, hears(B, X=1), EndState())]).trouble == "deadlock"


def test_a_message_that_a_role_does_not_know_is_unexpected() -> None:
    found = explore([view(A, says(B, X=1, Y=1), EndState()), view(B, hears(A, X=1), EndState())])
    assert (found.trouble, found.roles) == ("unexpected", (B,))
    assert [str(act) for act in found.witness] == ["A !B Y"]


def test_a_message_to_a_role_that_is_done_is_unheard() -> None:
    found = explore([view(A, says(B, X=1), EndState()), view(B, EndState())])
    assert (found.trouble, found.roles) == ("unheard", (B,))


def test_a_role_that_the_others_go_on_without_starves() -> None:
    protocol = Protocol(choose(A, B, {X: [loop(send(A, B, X), repeat())], Y: [send(B, C, Z)]}))
    found = explore([project(protocol, role) for role in protocol.roles])
    assert (found.trouble, found.roles) == ("starvation", (C,))
    assert [str(act) for act in found.witness][:2] == ["A !B X", "B ?A X"]


def test_messages_that_cross_need_a_place_to_wait_in() -> None:
    crossing = [view(A, says(B, X=1), hears(B, Y=2), EndState()), view(B, says(A, Y=1), hears(A, X=2), EndState())]
    assert explore(crossing).sound


def test_the_bound_is_kept_and_told() -> None:
    counters = [view(role, says(peer, X=0, Y=0)) for role, peer in ((A, B), (C, D))]
    counters += [view(role, hears(peer, X=0, Y=0)) for role, peer in ((B, A), (D, C))]
    found = explore(counters, capacity=8, most=100)
    assert (found.trouble, found.complete, found.situations) == (None, False, 100)
    assert not found.sound


def test_a_view_may_be_prepared_for_more_and_say_less() -> None:
    due = view(A, hears(B, X=1), says(B, Y=2, Z=2), EndState())
    assert refines(due, due) is None
    assert refines(view(A, hears(B, X=1, Y=2), says(B, Y=2), EndState()), due) is None


def test_a_view_that_does_otherwise_is_told_where() -> None:
    due = view(A, hears(B, X=1, Y=2), says(B, Y=2), EndState())
    assert refines(view(A, hears(B, X=1), says(B, Y=2), EndState()), due) == ()
    assert refines(view(A, hears(B, X=1, Y=2), says(B, X=2), EndState()), due) == ("X",)
    assert refines(view(A, hears(B, X=1, Y=2), says(C, Y=2), EndState()), due) == ("X",)
    assert refines(view(A, hears(B, X=1, Y=1), says(B, Y=2), EndState()), due) == ("Y",)


def test_a_view_can_be_carried_as_data() -> None:
    protocol = Protocol(loop(send(A, B, X), choose(B, A, {X: repeat(), Y: []})))
    for role in protocol.roles:
        assert load_view(view_definition(project(protocol, role))) == project(protocol, role)
