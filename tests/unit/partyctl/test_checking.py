"""`partyctl check`: what it finds in a file, and what it says about it."""

import json
from pathlib import Path

import pytest

from partyctl.checking import checked
from partyctl.cli.root import main
from partyctl.errors import ExitCode, ProgramError
from partyctl_actors.protocol import (
    Message,
    Protocol,
    Role,
    choose,
    definition,
    load_view,
    loop,
    project,
    roles,
    send,
    view_definition,
)

HEAD = """
import partyctl as ap
A, B, C = ap.roles("A", "B", "C")
class X(ap.Message): pass
class Y(ap.Message): pass
"""
GOOD = "good = ap.Protocol(ap.send(A, B, X), ap.loop(ap.choose(B, A, {X: ap.repeat(), Y: []})))\n"
BLIND = "blind = ap.Protocol(ap.choose(A, B, {X: [ap.send(B, C, X), ap.send(B, ap.Role('D'), X)], Y: []}))\n"


def program(tmp_path: Path, *lines: str) -> str:
    file = tmp_path / "program.py"
    file.write_text(HEAD + "".join(lines))
    return str(file)


def test_every_protocol_of_a_file_is_checked_once(tmp_path: Path) -> None:
    session = "session = ap.Session(good, {A: ap.Script([X()]), B: ap.Script([Y()])})\n"
    other = "other = ap.Session(ap.Protocol(ap.send(A, B, Y)), {A: ap.Script([]), B: ap.Script([])})\n"
    target = program(tmp_path, GOOD, session, "same = good\n", other)
    assert [(name, report.ok) for name, report in checked(target)] == [("good", True), ("other", True)]


def test_a_name_picks_one_and_a_wrong_one_is_told_what_there_is(tmp_path: Path) -> None:
    target = program(tmp_path, GOOD, "other = ap.Protocol(ap.send(A, B, Y))\n")
    assert [name for name, _ in checked(f"{target}:other")] == ["other"]
    with pytest.raises(ProgramError, match=r"no protocol 'X' .*it has good, other"):
        checked(f"{target}:X")


def test_a_protocol_that_cannot_be_made_is_reported_with_every_role_that_is_refused(tmp_path: Path) -> None:
    ((name, report),) = checked(program(tmp_path, BLIND))
    assert name.endswith("program.py:6")
    assert [verdict.role.name for verdict in report.roles if verdict.refusal] == ["C", "D"]
    assert report.diagram().startswith("A -> B: one of\n")


def test_a_declaration_that_is_malformed_is_reported(tmp_path: Path) -> None:
    ((_, report),) = checked(program(tmp_path, "ap.Protocol(ap.send(A, B, X), ap.repeat())\n"))
    (finding,) = report.findings
    assert (finding.code, finding.what) == ("malformed", "repeat() is outside a loop")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("1 / 0\n", "ZeroDivisionError"),
        ("ap.Session(ap.Protocol(ap.send(A, B, X)), {C: ap.Script([])})\n", "ConformanceError.*no role C"),
        ("", "no Protocol and no Session"),
    ],
)
def test_what_is_no_matter_of_a_protocol_stays_what_it_is(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(ProgramError, match=why):
        checked(program(tmp_path, line))


class X(Message):
    pass


class Y(Message):
    pass


def test_a_definition_in_json_is_checked(tmp_path: Path) -> None:
    first, second = roles("A", "B")
    protocol = Protocol(loop(send(first, second, X), choose(second, first, {X: [], Y: []})))
    file = tmp_path / "protocol.json"
    file.write_text(json.dumps(definition(protocol)))
    ((name, report),) = checked(str(file))
    assert (name, report.protocol) == ("protocol.json", protocol)
    assert [finding.code for finding in report.findings] == ["never-repeated"]


@pytest.mark.parametrize(("text", "what"), [("{}", "no definition of a protocol"), ("[" * 100_000, "cannot be read")])
def test_a_file_that_is_no_definition_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, what: str
) -> None:
    file = tmp_path / "protocol.json"
    file.write_text(text)
    assert main(["check", str(file)]) == ExitCode.REFUSED
    assert what in "".join(capfd.readouterr())


def test_views_from_elsewhere_are_looked_at_together(tmp_path: Path) -> None:
    first, second = roles("A", "B")
    protocol = Protocol(send(first, second, X), send(second, first, Y))
    file = tmp_path / "views.json"
    views = [view_definition(protocol.view(role)) for role in protocol.roles]
    file.write_text(json.dumps(views))
    ((_, report),) = checked(str(file))
    assert (report.ok, report.verdict(), report.protocol) == (True, "accepted", None)
    file.write_text(json.dumps([*views, views[0]]))
    ((_, report),) = checked(str(file))
    assert [finding.code for finding in report.findings] == ["malformed"]
    assert "A has two" in report.verdict()


def test_views_of_which_not_everything_can_be_looked_at_are_refused(tmp_path: Path) -> None:
    numbers = {f"K{number}": 0 for number in range(200)}
    view = {"schema": "partyctl.view/v1", "start": 0}
    pairs = [("A", "B"), ("C", "D")]
    views = [view | {"role": one, "states": [{"says": [other, numbers]}]} for one, other in pairs]
    views += [view | {"role": other, "states": [{"hears": [one, numbers]}]} for one, other in pairs]
    file = tmp_path / "views.json"
    file.write_text(json.dumps(views))
    ((_, report),) = checked(str(file))
    assert [finding.code for finding in report.findings] == ["unbounded"]
    assert not report.ok


def test_the_text_has_verdict_diagram_and_views(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", program(tmp_path, "p = ap.Protocol(ap.send(A, B, X))\n")]) == ExitCode.OK
    out = capfd.readouterr().out
    assert out.splitlines()[0].startswith("p: accepted, ")
    views = ["A, from 0", "0: !B X -> 1", "1: done", "", "B, from 0", "0: ?A X -> 1", "1: done"]
    assert out.splitlines()[1:] == ["", "A -> B: X", "", *views]


def test_a_refusal_shows_role_place_both_runs_rule_and_recipe(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", program(tmp_path, BLIND)]) == ExitCode.REFUSED
    out = capfd.readouterr().out
    for part in (
        "error, projection: C cannot know what to do",
        "the run [A -> B: X] looks like the run [A -> B: Y]",
        "the rule: a role knows by itself when its part is over (A -> B)",
        "Tell C: begin every branch of the choice A -> B",
        "\nC, refused\n",
    ):
        assert part in out


def test_the_diagram_can_be_mermaid(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for line, code in ((GOOD, ExitCode.OK), (BLIND, ExitCode.REFUSED)):
        assert main(["check", "--mermaid", program(tmp_path, line)]) == code
        assert "\n\nsequenceDiagram\n    participant r0 as A\n" in capfd.readouterr().out


def test_the_document_carries_views_and_refusals_as_data(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", program(tmp_path, BLIND)]) == ExitCode.REFUSED
    document = json.loads(capfd.readouterr().out)
    (found,) = document.pop("protocols")
    assert document == {"schema_version": 1, "ok": False}
    assert (found["ok"], found["id"]) == (False, None)
    accepted, _, refused, _ = found["roles"]
    assert load_view(accepted["view"]) == project(Protocol(choose(Role("A"), Role("B"), {X: [], Y: []})), Role("A"))
    assert refused["view"] is None
    assert refused["refusal"]["where"] == "A -> B"
    assert refused["refusal"]["rule"] == "a role knows by itself when its part is over"
    assert refused["refusal"]["runs"] == [[{"sender": "A", "receiver": "B", "label": label}] for label in ("X", "Y")]
    assert [(finding["code"], finding["role"]) for finding in found["findings"]] == [
        ("projection", "C"),
        ("projection", "D"),
    ]
    assert all(finding["recipe"].startswith("Tell ") for finding in found["findings"])


def test_names_from_the_file_do_not_steer_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    line = "Evil = type('Evil', (ap.Message,), {'name': 'a'})\np = ap.Protocol(ap.send(ap.Role('A\\u202e'), B, X))\n"
    main(["check", program(tmp_path, line)])
    assert "\u202e" not in capfd.readouterr().out
