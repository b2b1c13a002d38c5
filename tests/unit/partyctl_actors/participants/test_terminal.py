"""A person at a terminal, through pipes."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from fakes.runs import A, B, Ping, Pong, Stop, jumping, rally, request_reply

from partyctl_actors.errors import SessionError
from partyctl_actors.participants import Human, Offer, Script, Terminal
from partyctl_actors.protocol import Message, Protocol, Role, between, send
from partyctl_actors.runs import Session
from partyctl_actors.transcript import Envelope


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


class Inner(Message):
    word: str


class Everything(Message):
    """All sorts of fields.

    And more about them."""

    text: str
    stars: Annotated[int, between(1, 5)]
    mood: Mood
    size: Literal["small", 7]
    sure: bool
    tags: list[str]
    inner: Inner
    note: str | None = None
    more: list[str] = dataclasses.field(default_factory=list)


class Desk:
    """A terminal, what is typed into it, and what it shows."""

    def __init__(self) -> None:
        ends = os.pipe()
        self.shown = io.StringIO()
        self.input = os.fdopen(ends[0], "r")
        self.typing: int | None = ends[1]
        self.terminal = Terminal(self.input, self.shown)

    def type(self, *lines: str) -> None:
        assert self.typing is not None
        os.write(self.typing, "".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        if self.typing is not None:
            os.close(self.typing)
            self.typing = None


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()
    made.input.close()


def test_a_message_is_chosen_by_number_or_label_and_its_fields_are_asked_for(desk: Desk) -> None:
    desk.type("1", "yo", "Stop")
    offer = Offer(B, A, (Pong, Stop))
    assert asyncio.run(desk.terminal.choose("r", offer)) == Pong("yo")
    assert asyncio.run(desk.terminal.choose("r", offer)) == Stop()
    question = "B, what do you say to A?\n  1 Pong: A pong.\n  2 Stop: Enough.\n> "
    assert desk.shown.getvalue() == f"{question}  text: {question}"


def test_text_is_typed_as_it_is_and_everything_else_as_json(desk: Desk) -> None:
    desk.type("1", '"quoted" 7', "5", "good", "7", "true", '["a", "b"]', '{"word": "w"}', "a note", '["x"]')
    said = asyncio.run(desk.terminal.choose("r", Offer(A, B, (Everything,))))
    assert said == Everything('"quoted" 7', 5, Mood.GOOD, 7, True, ["a", "b"], Inner("w"), "a note", ["x"])
    assert "  1 Everything: All sorts of fields.\n" in desk.shown.getvalue()


def test_what_does_not_fit_is_told_and_asked_for_again(desk: Desk) -> None:
    desk.type("3", "Ping", "1")
    desk.type("t", "nine", "9", "[" * 20_000, "4", "ugly", "bad", "large", "small", "yes", "false", "a", "[]")
    desk.type("{}", '{"word": 5}', '{"word": "w"}', "", "")
    said = asyncio.run(desk.terminal.choose("r", Offer(A, B, (Everything, Stop))))
    assert said == Everything("t", 4, Mood.BAD, "small", False, [], Inner("w"))
    shown = desk.shown.getvalue()
    assert shown.count("  a number from 1 to 2, or a name\n") == 2
    assert shown.count("  stars: ") == 4
    assert "less than or equal to 5\n" in shown
    assert "    This is no Inner" in shown


def test_the_end_of_the_input_is_an_error_that_names_the_role(desk: Desk) -> None:
    desk.type("1")
    desk.close()
    with pytest.raises(SessionError, match=r"terminal was closed \(B\)"):
        asyncio.run(desk.terminal.choose("r", Offer(B, A, (Pong,))))


def test_a_last_line_without_an_end_counts_and_so_does_another_systems(desk: Desk) -> None:
    assert desk.typing is not None
    os.write(desk.typing, b"1\r\nyo\xff")
    desk.close()
    assert asyncio.run(desk.terminal.choose("r", Offer(B, A, (Pong,)))) == Pong("yo\ufffd")


def test_input_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "answers"
    file.write_text("1\nyo\n")
    with file.open() as read:
        terminal = Terminal(read, io.StringIO())
        assert asyncio.run(terminal.choose("r", Offer(B, A, (Pong,)))) == Pong("yo")


def test_roles_take_turns_and_a_question_that_is_no_longer_wanted_leaves_the_line_to_the_next(desk: Desk) -> None:
    async def test() -> None:
        first = asyncio.ensure_future(desk.terminal.choose("1", Offer(A, B, (Ping,))))
        second = asyncio.ensure_future(desk.terminal.choose("2", Offer(B, A, (Pong,))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert desk.shown.getvalue().count("what do you say") == 1
        first.cancel()
        desk.type("1", "yo")
        assert await second == Pong("yo")
        assert first.cancelled()

    asyncio.run(test())


def test_a_person_sees_what_the_role_was_told_and_runs_end_to_end(desk: Desk) -> None:
    desk.type("1", "one", "1", "two")
    session = Session(rally, {A: Human(desk.terminal), B: Script([Pong("back"), Stop()])})
    assert [envelope.message for envelope in session.run()] == [Ping("one"), Pong("back"), Ping("two"), Stop()]
    assert "\nB -> A: Pong(text='back')\n" in desk.shown.getvalue().replace("text: ", "text: \n")
    assert desk.shown.getvalue().endswith("B -> A: Stop()\n")


def test_a_run_that_is_stopped_does_not_wait_for_a_line(desk: Desk) -> None:
    async def test() -> None:
        run = Session(request_reply, {A: Script([Ping()]), B: Human(desk.terminal)}).start()
        while "what do you say" not in desk.shown.getvalue():
            await asyncio.sleep(0)
        await run.cancel()
        assert run.done

    jumping(test())


def test_what_others_say_does_not_steer_the_terminal(desk: Desk) -> None:
    desk.terminal.told("r", Envelope(A, B, Ping("\x1b[2J")))
    evil = Role("A\u202e")
    desk.type("1", "x")
    Session(Protocol(send(evil, B, Ping)), {evil: Human(desk.terminal), B: Script([])}).run()
    assert "\x1b" not in desk.shown.getvalue()
    assert "\u202e" not in desk.shown.getvalue()
