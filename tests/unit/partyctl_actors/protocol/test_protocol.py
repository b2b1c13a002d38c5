from datetime import timedelta

from partyctl_actors.protocol import Message, Protocol, choose, loop, repeat, roles, send

Writer, Reviewer, Reader = roles("Writer", "Reviewer", "Reader")


class Draft(Message):
    text: str


class Approve(Message):
    pass


class Reject(Message):
    critique: str


def review() -> Protocol:
    return Protocol(
        loop(
            send(Writer, Reviewer, Draft, within=timedelta(seconds=2.5)),
            choose(Reviewer, Writer, {Approve: [], Reject: [repeat()]}),
        ),
        send(Writer, Reader, Draft),
    )


def test_roles_and_messages_come_in_the_order_in_which_they_are_first_written() -> None:
    branches = {Approve: [send(Reviewer, Reader, Draft)], Reject: [send(Reviewer, Reader, Reject)]}
    protocol = Protocol(choose(Writer, Reviewer, branches))
    assert protocol.roles == (Writer, Reviewer, Reader)
    assert dict(protocol.messages) == {"Approve": Approve, "Reject": Reject, "Draft": Draft}


def test_equal_declarations_are_equal_values() -> None:
    assert review() == review()
    assert hash(review()) == hash(review())
    assert review() != Protocol(send(Writer, Reader, Draft))
    assert review() != "review"


def test_the_text_form_is_indented_and_shows_times() -> None:
    assert str(review()).splitlines() == [
        "loop",
        "  Writer -> Reviewer: Draft @2.5s",
        "  Reviewer -> Writer: one of",
        "    Approve",
        "    Reject",
        "      repeat",
        "Writer -> Reader: Draft",
    ]


def test_the_text_form_of_much_shared_steps_has_an_end() -> None:
    step = send(Writer, Reader, Draft)
    for _ in range(40):
        step = choose(Writer, Reader, {Draft: [step], Approve: [step]})
    assert str(Protocol(step)).splitlines()[-1] == "... and more than 5000 lines further on"


def test_the_short_form_names_the_roles() -> None:
    assert repr(review()) == f"<Protocol {review().id[:8]} of Writer, Reviewer, Reader>"
