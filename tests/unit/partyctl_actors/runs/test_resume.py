"""A session with a journal and an id: resumed, replayed, forked, refused; the same over every journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from fakes.runs import A, B, Hanging, Ping, Pong, Stop, rally, request_reply, triangle

from partyctl_actors.errors import JournalError, ProtocolMismatch, SessionError
from partyctl_actors.journals import Archive, Decision, JsonlJournal, MemoryJournal, SqliteJournal
from partyctl_actors.participants import Offer, Script
from partyctl_actors.payloads import pack
from partyctl_actors.protocol import Message, Protocol, Role, par, roles, send
from partyctl_actors.runs import Session
from partyctl_actors.transcript import Envelope


@pytest.fixture(params=[MemoryJournal, JsonlJournal, SqliteJournal])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    made = request.param() if request.param is MemoryJournal else request.param(tmp_path / "runs")
    assert isinstance(made, Archive)
    return made


def answering(answers: Sequence[Message], asked: list[Message]) -> Callable[..., Message]:
    """Says the answer that belongs to what its role has heard, and remembers that it was asked."""

    def answer(offer: Offer, heard: Sequence[Envelope]) -> Message:
        asked.append(answers[len(heard) - 1])
        return asked[-1]

    return answer


def failing_after(answers: Sequence[Message], asked: list[Message]) -> Callable[..., Message]:
    def answer(offer: Offer, heard: Sequence[Envelope]) -> Message:
        if len(heard) > len(answers):
            raise RuntimeError("the provider is down")
        return answering(answers, asked)(offer, heard)

    return answer


PINGS = Script([Ping("1\u2028\n"), Ping("2"), Ping("3")])
ANSWERS = [Pong("a\u2029"), Pong("b\x85"), Stop()]


def session(journal: Archive, b: object, a: object = PINGS, protocol: Protocol = rally, run: str = "one") -> Session:
    cast: Mapping[Role, object] = {A: a, B: b}
    return Session(protocol, cast, journal=journal, id=run)  # type: ignore[arg-type]


def test_a_run_that_failed_goes_on_and_nobody_is_asked_twice(journal: Archive) -> None:
    asked: list[Message] = []
    with pytest.raises(RuntimeError, match="provider is down"):
        session(journal, failing_after(ANSWERS[:1], asked)).run()
    with pytest.raises(RuntimeError, match="provider is down"):
        session(journal, failing_after(ANSWERS[:2], asked)).run()
    transcript = session(journal, answering(ANSWERS, asked)).run()
    assert asked == ANSWERS
    undisturbed = Session(rally, {A: PINGS, B: answering(ANSWERS, [])}).run()
    assert transcript == undisturbed


def test_a_finished_run_is_replayed_and_asks_nobody(journal: Archive) -> None:
    transcript = session(journal, answering(ANSWERS, [])).run()
    again = session(journal, Hanging(), Hanging()).run()
    assert again == transcript
    assert [(kept.run, kept.decisions, kept.ending) for kept in journal.runs()] == [("one", 6, "complete")]


def test_why_a_run_ended_is_in_its_record(journal: Archive) -> None:
    with pytest.raises(RuntimeError):
        session(journal, failing_after([], [])).run()
    assert "the provider is down" in journal.runs()[0].ending


def test_a_changed_protocol_is_a_mismatch_with_both_ids(journal: Archive) -> None:
    session(journal, answering([Pong()], []), protocol=request_reply).run()
    with pytest.raises(ProtocolMismatch, match=f"{request_reply.id} then, {rally.id} now"):
        session(journal, answering(ANSWERS, [])).run()


def test_a_record_that_does_not_fit_shows_both_sides(journal: Archive) -> None:
    record = journal.open("one", rally.id)
    record.append(Decision(1, "A", "B", "Ping", pack({"text": "1"}), 0))
    record.append(Decision(2, "A", "B", "Ping", pack({"text": "2"}), 0))
    record.close()
    with pytest.raises(JournalError, match=r"recorded is turn 2, A to B: Ping; on offer is turn 2, B to A: Pong, Stop"):
        session(journal, Hanging()).run()


def test_a_record_that_is_longer_than_its_protocol_is_refused(journal: Archive) -> None:
    record = journal.open("one", request_reply.id)
    for decision in (
        Decision(1, "A", "B", "Ping", pack({"text": ""}), 0),
        Decision(2, "B", "A", "Pong", pack({"text": ""}), 0),
    ):
        record.append(decision)
    record.append(Decision(3, "A", "B", "Ping", pack({"text": ""}), 0))
    record.close()
    with pytest.raises(JournalError, match="1 decisions beyond the protocol's end"):
        session(journal, Hanging(), protocol=request_reply).run()


def test_a_fork_goes_another_way_from_its_decision_on(journal: Archive) -> None:
    asked: list[Message] = []
    original = session(journal, answering(ANSWERS, asked)).run()
    journal.fork("one", "two", upto=3)
    others = [Pong("not asked"), Stop(), Stop()]
    forked = session(journal, answering(others, asked), run="two").run()
    assert asked == [*ANSWERS, Stop()]
    assert list(forked)[:3] == list(original)[:3]
    assert [envelope.message for envelope in forked][3:] == [Stop()]
    assert session(journal, Hanging(), Hanging()).run() == original


def test_two_sessions_of_one_id_at_once_are_one_too_many(journal: Archive) -> None:
    async def test() -> None:
        first = session(journal, Hanging()).start()
        while len(first.transcript) < 1:
            await asyncio.sleep(0)
        with pytest.raises(JournalError, match=r"being written by another run \(run one\)"):
            await session(journal, answering(ANSWERS, [])).arun()
        await first.cancel()
        with pytest.raises(SessionError, match="cancelled"):
            await first.result()
        assert len(await session(journal, answering(ANSWERS, [])).arun()) == 6

    asyncio.run(test())


def test_runs_without_an_id_do_not_mix(journal: Archive) -> None:
    async def test() -> None:
        value = Session(rally, {A: PINGS, B: answering(ANSWERS, [])}, journal=journal)
        transcripts = await asyncio.gather(*(value.arun() for _ in range(20)))
        assert all(transcript == transcripts[0] for transcript in transcripts)

    asyncio.run(test())
    assert [kept.decisions for kept in journal.runs()] == [6] * 20


def test_a_second_question_gets_its_own_answer(journal: Archive) -> None:
    asking = Session(request_reply, {B: lambda offer, heard: Pong(heard[-1].message.text)}, journal=journal)
    assert [asking.ask(A, Ping(text), expect=Pong) for text in ("one", "two")] == [Pong("one"), Pong("two")]
    assert asking.ask(A, Ping("three"), expect=Pong) == Pong("three")


class Note(Message):
    """Any text."""

    text: str


def test_any_text_is_kept(journal: Archive) -> None:
    texts = ["", "\u2028\u2029\x85\x1c\r\n", "\0", "\ufeff", "\U0001f600" * 5000]
    one, two = roles("One", "Two")
    protocol = Protocol(*(send(one, two, Note) for _ in texts))
    said = Session(protocol, {one: Script([Note(text) for text in texts]), two: Script([])}, journal=journal, id="one")
    transcript = said.run()
    again = Session(protocol, {one: Hanging(), two: Script([])}, journal=journal, id="one").run()
    assert [envelope.message for envelope in again] == [Note(text) for text in texts]
    assert again == transcript


def test_a_third_role_that_was_told_nothing_yet_comes_along(journal: Archive) -> None:
    with pytest.raises(SessionError, match="no line left"):
        Session(
            triangle, {role: Script([Ping()] if role == A else []) for role in triangle.roles}, journal=journal, id="x"
        ).run()
    assert journal.read("x")[0].decisions == 1


def test_a_run_that_never_began_does_not_keep_its_record(journal: Archive) -> None:
    async def test() -> None:
        # Its task is cancelled with the loop, before its first step.
        session(journal, Hanging()).start()

    asyncio.run(test())
    assert len(session(journal, answering(ANSWERS, [])).run()) == 6


def test_branches_are_replayed_in_the_order_in_which_they_were_recorded(journal: Archive) -> None:
    c, d = roles("C", "D")
    branches = Protocol(
        par([send(A, B, Ping), send(B, A, Pong)], [send(c, d, Ping), send(d, c, Pong)]), send(A, c, Stop)
    )

    def cast(*absent: Role) -> dict[Role, object]:
        lines = {A: [Ping("1"), Stop()], B: [Pong("2")], c: [Ping("3")], d: [Pong("4")]}
        return {role: Script([] if role in absent else said) for role, said in lines.items()}

    for run, absent in (("ab", (d,)), ("cd", (B,)), ("neither", (B, d))):
        with pytest.raises(SessionError, match="no line left"):
            Session(branches, cast(*absent), journal=journal, id=run).run()  # type: ignore[arg-type]
        recorded = journal.read(run)[1]
        whole = Session(branches, cast(), journal=journal, id=run).run()  # type: ignore[arg-type]
        assert [(e.sender.name, e.label) for e in whole][: len(recorded)] == [(d.sender, d.label) for d in recorded]
        assert len(whole) == 5
        for _ in range(30):
            again = Session(branches, dict.fromkeys(branches.roles, Hanging()), journal=journal, id=run).run()
            assert again == whole
