from copy import deepcopy

import pytest

from partyctl.cli.status import absent, show, troubles
from tests.fakes.control_host import STATUS


def test_a_party_that_is_ready_with_all_its_parts_has_no_trouble() -> None:
    assert troubles(STATUS) == []


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("state",), "starting", "the party is starting"),
        (("broker", "state"), "restarting", "broker is restarting"),
        (("launcher",), None, "launcher is missing"),
        (("nodes", 0, "state"), "not responding", "node/0 is not responding"),
        (("workers", 0, "state"), "failed", "is failed"),
    ],
)
def test_each_part_in_trouble_is_named(path: tuple[str | int, ...], value: object, told: str) -> None:
    document = deepcopy(STATUS)
    holder: object = document
    for key in path[:-1]:
        holder = holder[key]  # type: ignore[index]
    holder[path[-1]] = value  # type: ignore[index]
    (trouble,) = troubles(document)
    assert told in trouble


def test_a_party_that_lost_its_endpoint_is_in_trouble_and_says_where_and_why() -> None:
    lost = {"url": "tcp://127.0.0.1:1", "state": "not listening", "keys": 1, "last_cause": "somebody has it"}
    assert troubles({**STATUS, "listen": lost}) == ["the party is not listening at tcp://127.0.0.1:1: somebody has it"]
    assert troubles({**STATUS, "listen": {**lost, "state": "listening"}}) == []


def test_what_is_given_up_and_books_that_cannot_be_written_are_troubles() -> None:
    given_up = {"part": "node/1", "why": "it died 3 times in a row before it was ready, always: x"}
    told = troubles({**STATUS, "gave_up": [given_up], "books": {"logs": "No space left on device", "events": None}})
    assert told == [f"node/1 is given up: {given_up['why']}", "logs are not kept: No space left on device"]


def test_a_party_that_is_not_there_has_a_document_of_the_same_shape() -> None:
    assert absent("p", "not running", None).keys() == STATUS.keys()


def test_a_worker_is_shown_with_the_run_or_the_session_that_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    show({"workers": [{"name": "Writer", "run": "run-1"}, {"name": "Helper", "session": "essay"}]})
    lines = capsys.readouterr().out.splitlines()
    (begin,) = (number for number, line in enumerate(lines) if line.startswith("WORKER"))
    headings, *rows = (line.split() for line in lines[begin : begin + 3])
    at = headings.index("RUN")
    assert headings[at + 1] == "SESSION"
    assert [row[at : at + 2] for row in rows] == [["run-1", "-"], ["-", "essay"]]


def test_a_document_with_holes_is_shown_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    show({"workers": [{"name": "w\x1b[2J"}, 3], "nodes": None, "runs": [{}]})
    shown = capsys.readouterr().out
    assert "w\\x1b[2J" in shown
    assert "\x1b" not in shown


def test_who_was_shown_out_by_the_broker_is_named_and_that_is_no_trouble_of_the_party(
    capsys: pytest.CaptureFixture[str],
) -> None:
    banned = [{"name": "key/anna", "seconds": 1.5, "why": "it shouts"}]
    document = {**STATUS, "broker": {**STATUS["broker"], "banned": banned}}  # type: ignore[dict-item]
    show(document)
    assert "! key/anna was shown out, for 1.5 s more: it shouts" in capsys.readouterr().out.splitlines()
    assert troubles(document) == []
