from fakes.letters import A, B, X, Y, Z

from partyctl_actors.protocol import (
    EndState,
    Protocol,
    ReceiveState,
    SendState,
    choose,
    loop,
    project,
    repeat,
    send,
)


def test_a_repeat_goes_back_to_the_loop_that_it_names() -> None:
    inner = loop(choose(A, B, {X: repeat("round"), Y: repeat(), Z: []}))
    protocol = Protocol(loop(send(B, A, X), inner, name="round"))
    assert project(protocol, A).states == (
        ReceiveState(B, {"X": 1}),
        SendState(B, {"X": 0, "Y": 1, "Z": 2}),
        EndState(),
    )


def test_the_nearest_of_two_loops_of_one_name_is_meant() -> None:
    inner = loop(choose(A, B, {X: repeat("round"), Y: []}), name="round")
    protocol = Protocol(loop(send(B, A, X), inner, choose(A, B, {X: repeat("round"), Y: []}), name="round"))
    assert project(protocol, A).states[1:3] == (SendState(B, {"X": 1, "Y": 2}), SendState(B, {"X": 0, "Y": 3}))


def test_a_jump_out_of_several_loops_enters_only_the_one_it_names() -> None:
    innermost = loop(choose(A, B, {X: repeat("outer"), Y: repeat("middle"), Z: []}))
    flow = Protocol(loop(send(A, B, X), loop(send(B, A, Y), innermost, name="middle"), name="outer")).flow
    assert [getattr(state, "unfolds", None) for state in flow.states] == [1, 1, 1, None]


def test_steps_with_a_named_repeat_may_be_made_before_the_loop() -> None:
    leave_or_go_on = choose(A, B, {X: repeat("round"), Y: []})
    once = Protocol(loop(send(B, A, X), leave_or_go_on, name="round"))
    twice = Protocol(loop(send(B, A, X), leave_or_go_on, name="round"), loop(leave_or_go_on, name="round"))
    assert len(once.flow.states) == 3
    assert len(twice.flow.states) == 4


def test_the_name_of_a_loop_is_part_of_what_was_declared() -> None:
    def named(name: str | None) -> Protocol:
        return Protocol(loop(send(B, A, X), choose(A, B, {X: repeat(), Y: []}), name=name))

    assert named("a") == named("a")
    assert named("a") != named("b")
    assert named("a") != named(None)
    assert str(named("a")).startswith("loop a\n")


def test_ten_thousand_named_loops_in_each_other_compile() -> None:
    deep = choose(A, B, {X: repeat("last"), Y: []})
    for number in range(10_000):
        deep = loop(deep, name="last" if number == 9_999 else f"l{number}")
    assert len(Protocol(deep).flow.states) == 2
