import pytest
from fakes.letters import A, B, C, D, W, X, Y, Z, refused

from partyctl_actors.protocol import Protocol, Steps, choose, loop, par, repeat, send, stop


def test_two_runs_that_the_role_cannot_tell_apart_are_printed_and_kept() -> None:
    error = refused(send(A, C, W), choose(A, B, {Y: [send(B, A, W), send(C, A, X)], Z: send(C, A, Y)}))
    assert error.runs == (
        (("A", "C", "W"), ("A", "B", "Z")),
        (("A", "C", "W"), ("A", "B", "Y"), ("B", "A", "W")),
    )
    assert "to C the run [A -> C: W, A -> B: Z] looks like the run [A -> C: W, A -> B: Y, B -> A: W]" in str(error)


def test_a_long_run_is_told_by_its_end() -> None:
    error = refused([send(A, C, W)] * 20, choose(A, B, {Y: send(C, A, X), Z: send(C, A, Y)}))
    assert "the run [15 messages, A -> C: W, " in str(error)
    assert len(error.runs[0]) == 21


@pytest.mark.parametrize(
    ("one", "other", "rule"),
    [
        (send(C, B, W), send(C, B, X), ""),
        (send(C, B, W), send(C, A, W), ""),
        (send(C, B, W), send(B, C, W), ""),
        (send(C, B, W), [], ""),
        (choose(C, B, {W: [], X: []}), send(C, B, W), "offered the same choice"),
        (send(B, C, W), send(A, C, X), "listens to one other role"),
        (send(B, C, W), [], "knows by itself when its part is over"),
        (send(B, C, W), stop(), "knows by itself when its part is over"),
    ],
)
def test_a_rule_is_named_where_the_role_would_not_have_to_contradict_itself(
    one: Steps, other: Steps, rule: str
) -> None:
    error = refused(choose(A, B, {Y: one, Z: other}))
    assert rule in error.rule
    assert bool(error.rule) == bool(rule)
    assert ("; the rule: " in str(error)) == bool(rule)


def test_a_run_past_a_par_leaves_out_what_is_not_the_roles_business() -> None:
    error = refused(par([send(A, B, X)], [send(C, D, X)]), choose(A, B, {Y: send(C, A, X), Z: send(C, A, Y)}))
    assert error.runs[0] == (("C", "D", "X"), ("A", "B", "Y"))


def test_the_recipe_names_the_branches_that_have_to_tell() -> None:
    error = refused(loop(send(A, C, X), choose(A, B, {X: repeat(), Y: [], Z: []})))
    assert error.recipe.startswith("Tell C: begin every branch of the choice A -> B (X or Y or Z) with a message to C")
    told = {X: [send(A, C, W), repeat()], Y: send(A, C, Y), Z: send(A, C, Z)}
    Protocol(loop(send(A, C, X), choose(A, B, told)))
