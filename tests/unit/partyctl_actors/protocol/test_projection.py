import pytest
from fakes.letters import A, B, C, D, W, X, Y, Z, refused

from partyctl_actors.errors import ProjectionError
from partyctl_actors.protocol import (
    EndState,
    Message,
    Protocol,
    ReceiveState,
    SendState,
    Step,
    choose,
    loop,
    project,
    repeat,
    send,
)


def test_a_view_holds_what_the_role_sends_and_receives() -> None:
    protocol = Protocol(send(A, B, X), send(A, C, Y), choose(B, A, {X: [], Z: []}))
    assert project(protocol, B).states == (ReceiveState(A, {"X": 1}), SendState(A, {"X": 2, "Z": 2}), EndState())
    assert project(protocol, C).states == (ReceiveState(A, {"Y": 1}), EndState())


def test_a_loop_is_a_circle_in_the_view() -> None:
    protocol = Protocol(loop(send(A, B, X), choose(B, A, {Y: repeat(), Z: []})))
    assert project(protocol, A).states == (SendState(B, {"X": 1}), ReceiveState(B, {"Y": 0, "Z": 2}), EndState())


def test_a_role_that_is_not_in_the_protocol_has_no_view() -> None:
    with pytest.raises(ProjectionError, match=r"no role D.*A, B"):
        project(Protocol(send(A, B, X)), D)


def test_a_role_told_by_the_same_sender_may_hear_of_the_choice_that_way() -> None:
    protocol = Protocol(choose(A, B, {Y: [send(B, C, W), send(C, B, W)], Z: [send(B, C, X), send(C, A, Z)]}))
    assert project(protocol, C).states == (
        ReceiveState(B, {"W": 1, "X": 2}),
        SendState(B, {"W": 3}),
        SendState(A, {"Z": 3}),
        EndState(),
    )


def test_a_role_that_does_the_same_in_all_branches_need_not_know() -> None:
    protocol = Protocol(choose(A, B, {Y: [send(C, B, W)], Z: [send(C, B, W)]}))
    assert project(protocol, C).states == (SendState(B, {"W": 1}), EndState())


def test_branches_that_look_the_same_for_a_while_are_told_apart_later() -> None:
    protocol = Protocol(choose(A, B, {Y: [send(B, C, W), send(B, C, X)], Z: [send(B, C, W), send(B, C, Y)]}))
    assert project(protocol, C).states == (ReceiveState(B, {"W": 1}), ReceiveState(B, {"X": 2, "Y": 2}), EndState())


def test_a_role_may_wait_out_a_loop_it_takes_no_part_in() -> None:
    told_at_the_exit = loop(send(A, B, X), choose(B, A, {Y: repeat(), Z: send(A, C, W)}))
    assert project(Protocol(told_at_the_exit), C).states == (ReceiveState(A, {"W": 1}), EndState())
    told_after_it = loop(send(A, B, X), choose(B, A, {Y: repeat(), Z: []}))
    assert project(Protocol(told_after_it, send(A, C, W)), C).states == (ReceiveState(A, {"W": 1}), EndState())


def test_a_role_is_finished_when_the_others_go_on_for_ever_without_it() -> None:
    protocol = Protocol(send(A, C, X), loop(send(A, B, X), repeat()))
    assert project(protocol, C).states == (ReceiveState(A, {"X": 1}), EndState())


def test_a_loop_that_the_role_may_be_passed_over_in_can_be_entered_anywhere() -> None:
    sometimes = choose(A, B, {X: [send(A, C, X)], Y: []})
    protocol = Protocol(loop(sometimes, choose(B, A, {X: repeat(), Y: []})), send(A, C, Z))
    assert project(protocol, C).states == (
        ReceiveState(A, {"X": 0, "Z": 1}),
        EndState(),
    )


def test_an_inner_loop_without_the_role_does_not_end_its_part_in_the_outer_one() -> None:
    protocol = Protocol(loop(send(A, C, X), loop(choose(B, A, {Y: repeat(), Z: []})), repeat()))
    assert project(protocol, C).states == (ReceiveState(A, {"X": 0}),)


def test_an_inner_loop_does_not_hide_that_the_outer_one_may_end() -> None:
    inner = loop(choose(B, A, {Y: repeat(), Z: []}))
    error = refused(loop(send(A, C, X), send(C, A, W), inner, choose(A, B, {Y: repeat(), Z: []})))
    assert (error.role, error.where) == (C, "A -> B")


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ([send(B, C, W)], [], "after Y it must wait for W from B, after Z it has nothing more to do"),
        ([send(B, C, W)], [send(A, C, X)], "must wait for W from B, after Z it must wait for X from A"),
        ([send(C, B, W)], [send(C, B, X)], "after Y it must send W to B, after Z it must send X to B"),
        ([send(C, B, W)], [send(C, A, W)], "after Y it must send W to B, after Z it must send W to A"),
        ([send(C, B, W)], [send(B, C, W)], "after Y it must send W to B, after Z it must wait for W from B"),
        ([choose(C, B, {W: [], X: []})], [send(C, B, W)], "must send W or X to B, after Z it must send W to B"),
    ],
)
def test_a_choice_that_a_third_role_cannot_see_is_refused(one: list[Step], other: list[Step], why: str) -> None:
    error = refused(choose(A, B, {Y: one, Z: other}))
    assert (error.role, error.where) == (C, "A -> B")
    assert why in str(error)
    assert error.recipe in str(error)


def test_the_choice_that_is_named_lies_where_the_courses_of_events_part() -> None:
    hidden = choose(A, B, {Y: [send(B, D, W)], Z: [send(B, D, X)]})
    error = refused(send(A, C, X), hidden, choose(B, D, {W: [send(D, C, Y)], X: [send(B, C, Z)]}))
    assert (error.role, error.where) == (C, "B -> D")


def test_a_choice_made_before_something_that_looked_the_same_is_found() -> None:
    error = refused(choose(A, B, {Y: [send(A, C, W), send(C, A, X)], Z: [send(A, C, W), send(C, A, Y)]}))
    assert (error.role, error.where) == (C, "A -> B")
    assert "after Y it must send X to A, after Z it must send Y to A" in str(error)


def test_the_recipe_cures_what_it_was_given_for() -> None:
    class Going(Message):
        pass

    class Gone(Message):
        pass

    inner = loop(choose(B, A, {Y: repeat(), Z: []}))
    told = choose(A, B, {Y: [send(A, C, Going), repeat()], Z: [send(A, C, Gone)]})
    Protocol(loop(send(A, C, X), send(C, A, W), inner, told))
    Protocol(choose(A, B, {Y: [send(A, C, Going), send(C, B, W)], Z: [send(A, C, Gone), send(C, B, X)]}))


def test_a_view_that_would_need_exponential_memory_is_refused() -> None:
    # C would have to remember which of the last n letters were X: 2 ** n states.
    guess = choose(A, B, {X: [send(A, C, X), repeat()], Y: [send(A, C, Y), repeat()], Z: [send(A, C, X)]})
    tail = [choose(A, B, {X: [send(A, C, X)], Y: [send(A, C, Y)]}) for _ in range(20)]
    error = refused(loop(guess), *tail, send(A, C, Z))
    assert error.role == C
    assert "more than 10000 states" in str(error)
