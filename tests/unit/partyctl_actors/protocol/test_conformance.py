import pytest

from partyctl_actors.errors import ConformanceError
from partyctl_actors.protocol import (
    Answers,
    Lines,
    Message,
    Protocol,
    Says,
    accepts,
    choose,
    loop,
    project,
    repeat,
    roles,
    send,
)

A, B, C = roles("A", "B", "C")


class Ask(Message):
    pass


class Bye(Message):
    pass


class Good(Message):
    pass


class Bad(Message):
    pass


ASKED = Protocol(loop(choose(A, B, {Ask: [choose(B, A, {Good: [], Bad: []}), repeat()], Bye: []})))


def problems(protocol: Protocol, **replies: set[str] | None) -> str:
    shape = Answers({label: None if said is None else frozenset(said) for label, said in replies.items()})
    return "; ".join(accepts(project(protocol, B), shape).problems)


def test_a_table_that_answers_every_request_is_accepted() -> None:
    assert accepts(project(ASKED, B), Answers({"Ask": frozenset({"Good"})}))
    assert problems(ASKED, Ask=None) == ""


def test_a_table_must_answer_what_it_is_asked_with_what_is_on_offer() -> None:
    assert problems(ASKED) == "it has no answer to Ask"
    assert problems(ASKED, Ask={"Good", "Bye"}) == "it may answer Ask with Bye, on offer is Good, Bad"
    assert problems(ASKED, Ask=None, Bye=None) == "Bye is never asked of this role"


def test_a_table_neither_speaks_first_nor_to_others_nor_twice() -> None:
    assert "this role speaks first" in problems(Protocol(send(B, A, Ask)))
    assert "after Ask from A this role tells C" in problems(Protocol(send(A, B, Ask), send(B, C, Good)), Ask=None)
    twice = Protocol(send(A, B, Ask), send(B, A, Good), send(B, A, Bad))
    assert "after Good this role speaks again" in problems(twice, Ask=None)


def test_what_does_not_fit_can_be_raised() -> None:
    with pytest.raises(ConformanceError, match=r"does not fit the role B.*no answer to Ask"):
        accepts(project(ASKED, B), Answers({})).require()
    accepts(project(ASKED, B), Answers({"Ask": None})).require()


def test_lines_are_followed_through_whatever_is_heard() -> None:
    view = project(ASKED, B)
    assert accepts(view, Lines(("Good", "Bad", "Good")))
    assert accepts(view, Lines(("Good", "Ask"))).problems == (
        "line 2, Ask, is never on offer there; it may say Good, Bad",
    )


def test_lines_left_over_at_the_end_are_fine() -> None:
    assert accepts(project(Protocol(send(A, B, Ask)), A), Lines(("Ask", "Bad")))
    assert accepts(project(Protocol(send(A, B, Ask)), B), Lines(("Bad",)))


def test_what_is_ever_said_must_be_on_offer_at_each_place() -> None:
    view = project(ASKED, B)
    assert accepts(view, Says(frozenset({"Good", "Bye"})))
    assert accepts(view, Says(frozenset({"Bye"}))).problems == ("it says Bye, and Good or Bad is on offer somewhere",)
