from __future__ import annotations

import gc

import pytest
from fakes.runs import A, B, Notice, Ping, Pong, request_reply

from partyctl_actors.protocol import Message
from partyctl_actors.transcript import Envelope, Log, Transcript


def said(*texts: str) -> Log:
    log = Log(request_reply.messages)
    for number, text in enumerate(texts):
        log.add(Envelope(A, B, Ping(text)) if number % 2 == 0 else Envelope(B, A, Pong(text)))
    return log


def test_an_empty_transcript_ended_nowhere() -> None:
    transcript = said().snapshot()
    assert len(transcript) == 0
    assert transcript.ended_at is None
    assert transcript.last(Ping) is None
    assert str(transcript) == ""


def test_iterating_gives_envelopes_in_order_and_messages_gives_classes() -> None:
    transcript = said("one", "two", "three").snapshot()
    assert [envelope.message for envelope in transcript] == [Ping("one"), Pong("two"), Ping("three")]
    assert transcript.messages == (Ping, Pong, Ping)
    assert transcript.ended_at == B


def test_last_gives_the_newest_of_a_class() -> None:
    transcript = said("one", "two", "three").snapshot()
    assert transcript.last(Ping) == Ping("three")
    assert transcript.last(Pong) == Pong("two")
    assert transcript.last(Notice) is None
    assert transcript.last(Message) == Ping("three")


def test_indices_and_slices_are_those_of_a_sequence() -> None:
    transcript = said("one", "two", "three").snapshot()
    assert transcript[-1] == Envelope(A, B, Ping("three"))
    assert transcript[0:2] == (Envelope(A, B, Ping("one")), Envelope(B, A, Pong("two")))
    assert Envelope(B, A, Pong("two")) in transcript
    with pytest.raises(IndexError):
        transcript[3]


def test_a_snapshot_does_not_grow_with_its_log() -> None:
    log = said("one")
    before = log.snapshot()
    log.add(Envelope(B, A, Pong("two")))
    assert len(before) == 1
    assert before.ended_at == B
    assert before[-1].message == Ping("one")
    assert len(log.snapshot()) == 2


def test_transcripts_are_equal_by_what_was_said() -> None:
    assert said("one", "two").snapshot() == said("one", "two").snapshot()
    assert said("one", "two").snapshot() != said("one", "2").snapshot()
    assert said("one").snapshot() != said("one", "two").snapshot()
    assert said("one").snapshot() != "one"


def test_an_envelope_reads_as_a_line() -> None:
    assert str(Envelope(A, B, Ping("hi"))) == "A -> B: Ping(text='hi')"
    assert str(said("a", "b").snapshot()) == "A -> B: Ping(text='a')\nB -> A: Pong(text='b')"
    assert Envelope(A, B, Ping("hi")).payload == {"text": "hi"}


def test_the_garbage_collector_does_not_track_what_was_said() -> None:
    log = said("one", "two")
    gc.collect()
    assert not any(gc.is_tracked(row) for row in log.rows)


def test_a_transcript_cannot_be_hashed() -> None:
    with pytest.raises(TypeError):
        hash(Transcript(said(), 0))
