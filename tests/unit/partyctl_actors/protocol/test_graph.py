from datetime import timedelta

from fakes.letters import A, B, X, Y

from partyctl_actors.protocol import (
    Arm,
    End,
    Flow,
    Interaction,
    Protocol,
    Step,
    choose,
    loop,
    repeat,
    send,
)


def shape(flow: Flow) -> list[tuple[dict[str, int], int] | None]:
    """Arms and loop heads entered, state by state; None is the end."""
    return [
        ({label: arm.next for label, arm in state.arms.items()}, state.unfolds)
        if isinstance(state, Interaction)
        else None
        for state in flow.states
    ]


def test_a_send_is_an_interaction_with_one_arm() -> None:
    flow = Protocol(send(A, B, X, within=timedelta(seconds=5))).flow
    assert flow.states == (Interaction(A, B, {"X": Arm(X, 1)}, timedelta(seconds=5), 0), End())
    assert flow.start == 0


def test_arms_keep_the_order_of_declaration() -> None:
    flow = Protocol(choose(A, B, {Y: [], X: []})).flow
    assert shape(flow) == [({"Y": 1, "X": 1}, 0), None]
    assert list(shape(flow)[0][0]) == ["Y", "X"]  # type: ignore[index]


def test_an_empty_branch_goes_on_with_the_steps_after_the_choice() -> None:
    flow = Protocol(choose(A, B, {X: [], Y: [send(A, B, Y)]}), send(B, A, X)).flow
    assert shape(flow) == [({"X": 1, "Y": 2}, 0), ({"X": 3}, 0), ({"Y": 1}, 0), None]


def test_a_repeat_leads_back_to_the_head_and_enters_it_again() -> None:
    flow = Protocol(loop(send(A, B, X), choose(B, A, {X: [], Y: repeat()}))).flow
    assert shape(flow) == [({"X": 1}, 1), ({"X": 2, "Y": 0}, 0), None]


def test_a_head_reached_through_an_outer_one_counts_both() -> None:
    flow = Protocol(loop(loop(choose(A, B, {X: [], Y: repeat()})), choose(B, A, {X: [], Y: repeat()}))).flow
    assert shape(flow) == [({"X": 1, "Y": 2}, 2), ({"X": 3, "Y": 0}, 0), ({"X": 1, "Y": 2}, 1), None]


def test_a_repeat_means_the_nearest_loop() -> None:
    inner = loop(choose(A, B, {X: [], Y: repeat()}))
    flow = Protocol(loop(send(A, B, X), inner, repeat())).flow
    assert shape(flow) == [({"X": 1}, 1), ({"X": 0, "Y": 1}, 1)]


def test_the_graph_is_as_long_as_the_declaration() -> None:
    assert len(Protocol([send(A, B, X)] * 10_000).flow.states) == 10_001
    assert len(Protocol([choose(A, B, {X: [send(B, A, X)], Y: []})] * 18).flow.states) == 2 * 18 + 1


def test_steps_used_in_many_places_are_compiled_once() -> None:
    step = send(A, B, X)
    for _ in range(60):
        step = choose(A, B, {X: [step], Y: [step]})
    protocol = Protocol(step)
    assert len(protocol.flow.states) == 62
    assert len(protocol.id) == 32


def test_steps_may_be_nested_ten_thousand_deep() -> None:
    deep: Step = send(A, B, X)
    loops: Step = choose(A, B, {X: repeat(), Y: []})
    for _ in range(10_000):
        deep = choose(A, B, {X: [deep], Y: []})
        loops = loop(loops)
    assert len(Protocol(deep).flow.states) == 10_002
    assert shape(Protocol(loops).flow) == [({"X": 1, "Y": 2}, 10_001 - 1), ({"X": 1, "Y": 2}, 1), None]


def test_steps_that_only_repeat_are_compiled_once_whatever_follows_them() -> None:
    row: list[Step] = [send(A, B, X), repeat()]
    for _ in range(40):
        row = [choose(A, B, {X: row, Y: []}), choose(B, A, {X: row, Y: repeat()})]
    assert len(Protocol(loop(send(A, B, Y), row)).flow.states) == 2 * 40 + 2


def test_steps_without_a_repeat_are_compiled_once_whatever_loop_they_are_in() -> None:
    step = send(A, B, X)
    for _ in range(40):
        step = choose(A, B, {X: [step], Y: loop(send(A, B, Y), step)})
    assert len(Protocol(step).flow.states) == 3 * 40 + 2
