from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol import Message, Protocol, Step, choose, loop, par, repeat, roles, send, stop

A, B, C, D = roles("A", "B", "C", "D")


class Draft(Message):
    """A draft."""


class Approve(Message):
    """It is good."""


class Reject(Message):
    """It is not good yet."""


def another_draft() -> type[Message]:
    return type("Draft", (Message,), {})


MISUSES: dict[str, tuple[Callable[[], Any], str]] = {
    "to itself": (lambda: send(A, A, Draft), r"cannot send to itself \(send\(A, A, Draft\)\)"),
    "a name for a role": (lambda: send("A", B, Draft), r"not a role .*got 'A'.*roles\("),  # type: ignore[arg-type]
    "an instance": (lambda: send(A, B, Draft()), "Pass the class Draft, not a message of it"),  # type: ignore[arg-type]
    "the base class": (lambda: send(A, B, Message), "not a message class"),
    "another class": (lambda: send(A, B, int), "got int"),  # type: ignore[arg-type]
    "no time": (lambda: send(A, B, Draft, within=timedelta(0)), "not positive"),
    "a number for a time": (lambda: send(A, B, Draft, within=5), "got 5.*timedelta"),  # type: ignore[arg-type]
    "a choice with oneself": (lambda: choose(A, A, {Draft: []}), "send to itself"),
    "no branch": (lambda: choose(A, B, {}), "at least one branch"),
    "a list of branches": (lambda: choose(A, B, [Draft]), "not a mapping"),  # type: ignore[arg-type]
    "a branch for text": (lambda: choose(A, B, {"Draft": []}), "got 'Draft'"),  # type: ignore[type-var]
    "no steps in a branch": (lambda: choose(A, B, {Draft: None}), "branch Draft.*got None"),  # type: ignore[dict-item]
    "two branches of one label": (lambda: choose(A, B, {Draft: [], another_draft(): []}), "same label .*Draft"),
    "an empty loop": (lambda: loop(), "needs steps"),
    "a loop of nothing": (lambda: loop([[]]), "needs steps"),
    "an unguarded loop": (lambda: loop(repeat(), []), "before any message"),
    "a step after repeat": (lambda: loop(send(A, B, Draft), repeat(), send(B, A, Draft)), "never run.*<B -> A: Draft>"),
    "a step after a choice that only repeats": (
        lambda: loop(choose(A, B, {Draft: repeat()}), send(B, A, Draft)),
        "never run",
    ),
    "a step after an endless loop": (
        lambda: Protocol(loop(send(A, B, Draft), repeat()), send(B, A, Draft)),
        r"never run .*<loop of 2 steps>",
    ),
    "repeat outside a loop": (lambda: Protocol(send(A, B, Draft), repeat()), "outside a loop"),
    "repeat in a branch outside a loop": (lambda: Protocol(choose(A, B, {Draft: [repeat()]})), "outside a loop"),
    "repeat after its loop": (
        lambda: Protocol(loop(choose(A, B, {Draft: [repeat()], Approve: []})), choose(B, A, {Draft: repeat()})),
        "outside a loop",
    ),
    "a repeat of another name": (
        lambda: Protocol(loop(send(A, B, Draft), repeat("rond"), name="round")),
        r"repeat\('rond'\) is not inside a loop of that name .*Did you mean 'round'",
    ),
    "a repeat of a name without loops": (lambda: Protocol(send(A, B, Draft), repeat("r")), r"loop\(\.\.\., name='r'\)"),
    "a loop of no name": (lambda: loop(send(A, B, Draft), name=" "), "cannot name a loop.*empty"),
    "a repeat of no name": (lambda: repeat(7), "cannot name a loop .*got 7"),  # type: ignore[arg-type]
    "a long name": (lambda: repeat("r" * 101), "101 characters"),
    "a name of two lines": (lambda: repeat("a\nb"), "control character"),
    "a loop that only goes to another": (lambda: loop(repeat("round"), name="again"), "before any message"),
    "a loop that only stops": (lambda: loop(stop()), "stops before any message"),
    "a step after stop": (
        lambda: Protocol(send(A, B, Draft), stop(), send(A, B, Draft)),
        "never run .*<A -> B: Draft>",
    ),
    "a protocol that only stops": (lambda: Protocol(stop()), "needs a message"),
    "a par of nothing": (lambda: par(), "needs branches"),
    "a branch of nothing": (lambda: par([send(A, B, Draft)], []), "branch 2.*Leave the branch out"),
    "a role in two branches": (
        lambda: par([send(A, B, Draft)], [send(C, D, Draft)], [send(C, B, Draft)]),
        r"branches 1 and 3\): B would have to be in two places",
    ),
    "a branch that stops": (lambda: par([send(A, B, Draft), stop()], [send(C, D, Draft)]), "branch 1.*other branches"),
    "a branch that goes back": (
        lambda: loop(par([send(A, B, Draft)], [send(C, D, Draft), repeat()])),
        "goes back to a loop around it .*branch 2",
    ),
    "a protocol that stops in a branch": (
        lambda: par(Protocol(choose(A, B, {Draft: stop(), Approve: []}))),
        "stops the protocol",
    ),
    "no steps": (lambda: Protocol(), "needs steps"),
    "no steps in a list": (lambda: Protocol([], [[]]), "needs steps"),
    "a class for a step": (lambda: Protocol(Draft), "not a step .*got Draft"),  # type: ignore[arg-type]
    "text for steps": (lambda: Protocol("abc"), "got 'abc'"),
    "two classes of one label": (
        lambda: Protocol(send(A, B, Draft), send(B, A, another_draft())),
        "same label .*test_steps.Draft",
    ),
}


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_is_refused_in_words(name: str) -> None:
    misuse, words = MISUSES[name]
    with pytest.raises(ProtocolError, match=f"(?s){words}"):
        misuse()


def test_rows_of_steps_are_flattened() -> None:
    one, two, three = send(A, B, Draft), send(B, A, Draft), send(A, B, Approve)
    assert Protocol(one, [two, [three, []]]) == Protocol([[one], [two]], three)


def test_the_branches_may_be_made_before_the_choice() -> None:
    branches: dict[type[Message], Step | list[Step]] = {Approve: [], Reject: send(A, B, Draft)}
    same_class: dict[type[Approve], list[Step]] = {Approve: []}
    assert str(choose(B, A, branches)) == "<B -> A: Approve | Reject>"
    assert str(choose(B, A, same_class)) == "<B -> A: Approve>"


def test_a_loop_may_be_left_at_its_end() -> None:
    Protocol(loop(choose(A, B, {Draft: [repeat()], Approve: []})), send(B, A, Approve))
    Protocol(loop(send(A, B, Draft)), send(B, A, Approve))
