"""Where the events of runs may go."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
import threading

import pytest
from fakes.runs import A, B, Ping, Pong, request_reply
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from partyctl_actors.errors import SessionError
from partyctl_actors.participants import Script
from partyctl_actors.runs import (
    JsonLinesTracer,
    MemoryTracer,
    OpenTelemetryTracer,
    QueueTracer,
    RunEnded,
    RunStarted,
    Session,
    Tracer,
)


def talk(tracer: Tracer, text: str = "hi", answers: int = 1) -> Session:
    return Session(request_reply, {A: Script([Ping(text)]), B: Script([Pong("yo")] * answers)}, tracer=tracer)


def test_memory_keeps_every_event() -> None:
    tracer = MemoryTracer()
    talk(tracer).run()
    assert tracer.names() == ["RunStarted", "TurnGranted", "Delivered", "TurnGranted", "Delivered", "RunEnded"]
    assert len({event.run_id for event in tracer.events}) == 1


def test_events_of_two_runs_can_be_told_apart() -> None:
    tracer = MemoryTracer()

    async def both() -> None:
        await asyncio.gather(talk(tracer).arun(), talk(tracer).arun())

    asyncio.run(both())
    started = [event.run_id for event in tracer.events if isinstance(event, RunStarted)]
    assert len(set(started)) == 2
    for run_id in started:
        assert [type(event) for event in tracer.events if event.run_id == run_id][-1] is RunEnded


def test_a_queue_is_read_on_another_thread() -> None:
    tracer = QueueTracer()
    taken: list[str] = []

    def read() -> None:
        while (event := tracer.take(timeout=10)) is not None:
            taken.append(type(event).__name__)
            if isinstance(event, RunEnded):
                return

    reader = threading.Thread(target=read)
    reader.start()
    talk(tracer).run()
    reader.join(10)
    assert taken == ["RunStarted", "TurnGranted", "Delivered", "TurnGranted", "Delivered", "RunEnded"]
    assert (tracer.pending, tracer.dropped, tracer.take()) == (0, 0, None)


def test_a_full_queue_drops_the_oldest_and_counts_them() -> None:
    tracer = QueueTracer(2)
    talk(tracer).run()
    assert (tracer.pending, tracer.dropped) == (2, 4)
    first, last = tracer.take(), tracer.take()
    assert (type(first).__name__, type(last)) == ("Delivered", RunEnded)


def test_a_queue_of_no_size_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        QueueTracer(0)


def test_lines_of_json_are_whole_whatever_was_said() -> None:
    file = io.StringIO()
    text = "one\ntwo\u2028three\x85four"
    talk(JsonLinesTracer(file, clock=lambda: 7.5), text).run()
    rows = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [row["event"] for row in rows][:3] == ["RunStarted", "TurnGranted", "Delivered"]
    said = {"sender": "A", "receiver": "B", "label": "Ping", "fields": {"text": text}}
    run_id = rows[0]["run_id"]
    delivered = {"event": "Delivered", "at": 7.5, "run_id": run_id, "turn": 1, "envelope": said, "recalled": False}
    assert rows[2] == delivered


def spans(answers: int) -> list[ReadableSpan]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    session = talk(OpenTelemetryTracer(provider.get_tracer("test")), answers=answers)
    if answers:
        session.run()
    else:
        with pytest.raises(SessionError):
            session.run()
    return list(exporter.get_finished_spans())


def test_a_run_is_a_span_and_each_turn_one_in_it() -> None:
    first, second, run = spans(answers=1)
    assert (first.name, second.name, run.name) == ("turn", "turn", "run")
    assert run.context is not None
    assert all(turn.parent is not None and turn.parent.span_id == run.context.span_id for turn in (first, second))
    told = {"partyctl.turn": 2, "partyctl.role": "B", "partyctl.receiver": "A", "partyctl.label": "Pong"}
    assert dict(second.attributes or {}) == told
    assert run.status.is_ok


def test_a_run_that_fails_is_an_error_in_its_turn_and_as_a_whole() -> None:
    first, second, run = spans(answers=0)
    assert [one.status.is_ok for one in (first, second, run)] == [True, False, False]
    assert "no line left" in (run.status.description or "")


def test_without_the_extra_it_is_said_what_to_install() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None\nimport partyctl\npartyctl.OpenTelemetryTracer()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "OpenTelemetry is not installed" in ended.stderr
    assert "partyctl[otel]" in ended.stderr
