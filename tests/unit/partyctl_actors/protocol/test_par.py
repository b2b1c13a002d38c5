import pytest
from fakes.letters import A, B, C, D, X, Y

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol import (
    EndState,
    Fork,
    Join,
    Message,
    Protocol,
    ReceiveState,
    SendState,
    choose,
    loop,
    par,
    project,
    repeat,
    roles,
    send,
    stop,
)
from partyctl_actors.protocol.tracks import advance, begin

(E,) = roles("E")


def two_branches() -> Protocol:
    turning = loop(choose(A, B, {X: repeat(), Y: []}))
    return Protocol(send(A, C, X), par([send(C, D, X)], turning), send(A, C, Y))


def test_the_branches_fork_and_join() -> None:
    flow = two_branches().flow
    (fork,) = (state for state in flow.states if isinstance(state, Fork))
    assert fork.members == ({A, B}, {C, D})
    assert [flow.states[branch].sender for branch in fork.branches] == [A, C]  # type: ignore[union-attr]
    join = flow.states[fork.join]
    assert isinstance(join, Join)
    assert join.next is not None


def test_a_role_follows_its_own_branch_and_then_what_comes_after_all() -> None:
    protocol = two_branches()
    assert project(protocol, D).states == (ReceiveState(C, {"X": 1}), EndState())
    assert project(protocol, C).states == (
        ReceiveState(A, {"X": 1}),
        SendState(D, {"X": 2}),
        ReceiveState(A, {"Y": 3}),
        EndState(),
    )


def test_a_role_of_no_branch_passes_over_all_of_them() -> None:
    protocol = Protocol(par([send(A, B, X)], [send(C, D, X)]), send(A, E, Y))
    assert project(protocol, E).states == (ReceiveState(A, {"Y": 1}), EndState())


def test_what_comes_after_begins_when_all_branches_are_through() -> None:
    flow = two_branches().flow
    marking = advance(flow, begin(flow), (), "X")
    assert (marking.fresh, sorted(marking.at)) == (((0,), (1,)), [(0,), (1,)])
    marking = advance(flow, marking, (0,), "Y")
    assert (marking.fresh, sorted(marking.at)) == ((), [(1,)])
    marking = advance(flow, marking, (1,), "X")
    assert (marking.fresh, sorted(marking.at)) == (((),), [()])
    assert advance(flow, marking, (), "Y").over


def test_a_par_in_a_par_in_a_loop_forks_anew_each_time() -> None:
    inner = par([send(A, B, X)], [send(C, D, X)])
    protocol = Protocol(loop(par(inner, [send(E, F, X)]), choose(A, C, {X: [*told(X), repeat()], Y: told(Y)})))
    marking = begin(protocol.flow)
    for _ in range(3):
        assert sorted(marking.at) == [(0, 0), (0, 1), (1,)]
        assert marking.unfolds == 1
        for path in ((1,), (0, 1), (0, 0)):
            marking = advance(protocol.flow, marking, path, "X")
        for _ in range(5):
            marking = advance(protocol.flow, marking, (), "X")
    assert not marking.over


(F,) = roles("F")


def told(kind: type[Message]) -> list[object]:
    return [send(A, role, kind) for role in (B, D, E, F)]


def test_nothing_follows_a_branch_that_never_ends() -> None:
    endless = loop(send(A, B, X), repeat())
    protocol = Protocol(choose(A, C, {X: par(endless, [send(C, D, Y)]), Y: [send(C, D, X), send(A, B, Y)]}))
    assert project(protocol, D).states == (ReceiveState(C, {"X": 1, "Y": 2}), EndState(), EndState())
    with pytest.raises(ProtocolError, match="never run"):
        Protocol(par(endless, [send(C, D, Y)]), send(A, C, X))


def test_the_order_of_the_branches_means_nothing() -> None:
    one, other = [send(A, B, X)], [send(C, D, X)]
    assert Protocol(par(one, other)) == Protocol(par(other, one))
    assert Protocol(par(one, other)) != Protocol(one, other)


def test_a_stop_ends_the_protocol_past_whatever_is_written_behind() -> None:
    given_up = choose(A, B, {X: [], Y: [stop()]})
    protocol = Protocol(loop(choose(A, B, {X: [repeat()], Y: [given_up]})), send(B, A, X))
    assert project(protocol, B).states == (
        ReceiveState(A, {"X": 0, "Y": 1}),
        ReceiveState(A, {"X": 2, "Y": 3}),
        SendState(A, {"X": 3}),
        EndState(),
    )


def test_a_stop_that_a_role_does_not_see_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"C cannot know.*after X it must wait for X from A"):
        Protocol(choose(A, B, {X: [], Y: stop()}), send(A, C, X))


def test_a_protocol_among_steps_means_its_steps() -> None:
    part = Protocol(send(A, B, X), choose(B, A, {X: [], Y: [stop()]}))
    assert Protocol(part, send(A, B, Y)) == Protocol(*part.steps, send(A, B, Y))
    assert Protocol(par(part.steps[0], Protocol(send(C, D, X)))) == Protocol(par([send(A, B, X)], [send(C, D, X)]))
