import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl.logbook import (
    BURST,
    RATE,
    TEXT_MAX,
    Events,
    Logs,
    Stream,
    events_reader,
    logs_reader,
    shortened,
    timestamp,
)
from partyctl.maps import Map


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1_767_225_600.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The books of party p."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "partyctl" / "p"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def logs(clock: Clock) -> Iterator[Logs]:
    made = Logs("p", now=clock)
    yield made
    made.close()


def kept() -> list[Map]:
    return logs_reader("p").read()


def test_a_line_has_its_time_its_process_its_role_and_its_run(logs: Logs) -> None:
    logs.line("w-1", b"hello\r\n", stream="stdout", role="Writer", run="run-0123456789abcdef")
    logs.line("host", "party is up")
    assert kept() == [
        {
            "time": "2026-01-01T00:00:00.000Z",
            "process": "w-1",
            "stream": "stdout",
            "text": "hello",
            "role": "Writer",
            "run": "run-0123456789abcdef",
        },
        {"time": "2026-01-01T00:00:00.000Z", "process": "host", "stream": "stderr", "text": "party is up"},
    ]


def test_times_sort_as_texts() -> None:
    times = [0.0, 1.5, 1e9, 1e9 + 0.001, 1.7e9]
    assert [timestamp(second) for second in times] == sorted(timestamp(second) for second in times)


@pytest.mark.parametrize("seconds", [1.8e12, 1e18, float("inf")])
def test_a_time_after_the_last_year_is_told_as_its_end(seconds: float) -> None:
    assert timestamp(seconds) == "9999-12-31T23:59:59.000Z"


def test_a_time_before_the_first_year_is_told_as_its_begin() -> None:
    assert timestamp(-1e18) == "0001-01-01T00:00:00.000Z"


def test_no_secret_gets_into_a_file(logs: Logs, state: Path) -> None:
    logs.line("w", "Authorization: Bearer abcdef123456")
    logs.restarted("w", "exited: token=abcdef123456", 1)
    events = Events("p")
    events.record("failed", "Writer", cause="key sk-abcdef123456", fields={"env": {"API_KEY": "abcdef123456"}})
    events.close()
    assert b"abcdef123456" not in b"".join(path.read_bytes() for path in state.rglob("*.jsonl"))
    assert len(list(state.rglob("*.jsonl"))) == 2


def test_a_text_of_several_lines_is_kept_as_several(logs: Logs) -> None:
    logs.line("w", "one\n\ntwo\n")
    assert [record["text"] for record in kept()] == ["one", "", "two"]


def test_a_long_line_is_cut_and_says_by_how_much(logs: Logs) -> None:
    logs.line("w", "x" * (TEXT_MAX + 100))
    (record,) = kept()
    assert record["cut"] == 100
    assert record["text"] == "x" * TEXT_MAX + " [... 100 more]"


def test_a_secret_at_the_place_of_the_cut_is_not_shown_in_part() -> None:
    secret = "sk-" + "a1" * 30
    for place in range(TEXT_MAX - 70, TEXT_MAX + 5):
        text, cut = shortened("x" * place + " " + secret)
        assert "a1a1" not in text
        assert bool(cut) == (place + 1 + len("sk-***") > TEXT_MAX)


def test_restarts_and_losses_are_marked(logs: Logs) -> None:
    logs.restarted("broker", "was killed by SIGKILL", 2)
    logs.dropped("w", 7, "the launcher's pipe was full", role="Writer")
    marks = [{key: value for key, value in record.items() if key != "time"} for record in kept()]
    assert marks == [
        {"process": "broker", "mark": "restarted", "text": "was killed by SIGKILL", "restarts": 2},
        {"process": "w", "mark": "dropped", "text": "the launcher's pipe was full", "dropped": 7, "role": "Writer"},
    ]


@given(st.lists(st.binary(max_size=8)), st.lists(st.integers(0, 20)))
def test_a_pipe_gives_the_same_lines_however_its_bytes_arrive(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
    whole: list[str] = []
    parts: list[str] = []
    at_once = Stream(lambda text, cut: whole.append(text), lambda: None)
    at_once.feed(data)
    at_once.end()
    in_parts = Stream(lambda text, cut: parts.append(text), lambda: None)
    for size in [*cuts, len(data)]:
        in_parts.feed(data[:size])
        data = data[size:]
    in_parts.feed(data)
    in_parts.end()
    assert whole == parts
    assert len(whole) == len(lines)


def test_an_endless_line_is_kept_in_bounds_and_an_unfinished_one_is_kept(logs: Logs) -> None:
    pipe = logs.stream("w", role="Writer")
    for _ in range(100):
        pipe.feed(b"x" * 10_000)
    pipe.feed(b"\nlast words")
    pipe.end()
    first, last = kept()
    assert first["cut"] == 1_000_000 - TEXT_MAX
    assert (last["text"], last["role"]) == ("last words", "Writer")


def test_a_flood_is_held_to_its_rate_and_counted(logs: Logs, clock: Clock) -> None:
    line = "x" * 999
    for _ in range(20):  # seconds of 1 MB each
        for _ in range(1000):
            logs.line("noisy", line)
        clock.now += 1
    logs.line("quiet", "still heard")
    logs.ended("noisy")
    records = kept()
    texts = [record for record in records if record["process"] == "noisy" and "mark" not in record]
    marks = [record for record in records if record.get("mark") == "dropped"]
    assert sum(len(str(record["text"])) for record in texts) <= BURST + 20 * RATE
    assert len(texts) + sum(int(str(mark["dropped"])) for mark in marks) == 20_000
    assert len(marks) <= 22
    assert "256 KiB a second" in str(marks[0]["text"])
    assert [record["text"] for record in records if record["process"] == "quiet"] == ["still heard"]


def test_a_clock_that_is_set_back_stops_nothing(logs: Logs, clock: Clock) -> None:
    logs.line("w", "one")
    clock.now -= 86400
    logs.line("w", "two")
    assert [record["text"] for record in kept()] == ["one", "two"]


def test_a_state_directory_that_cannot_be_made_is_trouble_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    logs, events = Logs("p"), Events("p")
    logs.line("w", "lost")
    events.record("started", "broker")
    assert "cannot be made" in logs.trouble
    assert "cannot be made" in events.trouble
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    logs.line("w", "kept")
    events.close()
    logs.close()
    told, line = kept()
    assert (told["mark"], told["dropped"], line["text"]) == ("dropped", 1, "kept")
    (missing,) = events_reader("p").read()
    assert (missing["kind"], missing["subject"], missing["fields"]) == ("dropped", "events", {"dropped": 1})


def test_an_event_has_its_kind_its_subject_its_cause_and_its_fields() -> None:
    events = Events("p", now=Clock())
    events.record("restarted", "broker", cause="was killed by SIGKILL", fields={"restarts": 2})
    events.close()
    assert events_reader("p").read() == [
        {
            "time": "2026-01-01T00:00:00.000Z",
            "kind": "restarted",
            "subject": "broker",
            "cause": "was killed by SIGKILL",
            "fields": {"restarts": 2},
        }
    ]


def test_the_fields_of_an_event_are_bounded() -> None:
    events = Events("p")
    events.record("failed", "w", fields={"tail": "x" * 10**6})
    events.close()
    (event,) = events_reader("p").read()
    assert len(json.dumps(event)) < 1000
    fields = event["fields"]
    assert isinstance(fields, dict)
    assert fields["cut"] > 10**6
