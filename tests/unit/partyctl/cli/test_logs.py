import json

import pytest

from partyctl.cli.books import json_line
from partyctl.cli.events import event_line
from partyctl.cli.logs import Lines


def test_lines_are_led_by_time_and_role_in_columns() -> None:
    layout = Lines()
    shown = [
        layout({"time": "T1", "process": "w-1", "role": "Reviewer", "stream": "stderr", "text": "one"}),
        layout({"time": "T2", "process": "broker", "stream": "stderr", "text": "two"}),
    ]
    assert shown == ["T1 Reviewer | one", "T2 broker   | two"]


@pytest.mark.parametrize(
    ("mark", "shown"),
    [
        ({"mark": "restarted", "restarts": 2, "text": "was killed by SIGKILL"},
         "--- restarted (2): was killed by SIGKILL ---"),
        ({"mark": "dropped", "dropped": 7, "text": "No space left on device"},
         "--- 7 lines are missing: No space left on device ---"),
        ({"mark": "of a later version", "text": "x"}, "--- of a later version: x ---"),
    ],
)  # fmt: skip
def test_marks_stand_out(mark: dict[str, object], shown: str) -> None:
    assert Lines()({"time": "T", "process": "broker", **mark}) == f"T broker | {shown}"


def test_what_a_process_wrote_cannot_steer_the_terminal() -> None:
    shown = Lines()({"time": "T", "process": "w\x1b", "text": "a\x1b[2J\tb\r"})
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "\t" not in shown
    assert "\x1b" not in event_line({"time": "T", "kind": "k", "subject": "s", "cause": "\x1b[2J", "fields": {}})


def test_a_record_with_holes_is_shown_all_the_same() -> None:
    assert Lines()({}) == "  | "
    assert event_line({"fields": 3}) == "  "


def test_an_event_is_one_line() -> None:
    event = {"time": "T", "kind": "restarted", "subject": "broker", "cause": "exited", "fields": {"n": 1, "s": "é"}}
    assert event_line(event) == 'T restarted broker: exited (n=1 s="é")'


def test_a_record_as_json_has_its_schema_version() -> None:
    assert json.loads(json_line({"time": "T", "text": "é"})) == {"schema_version": 1, "time": "T", "text": "é"}
