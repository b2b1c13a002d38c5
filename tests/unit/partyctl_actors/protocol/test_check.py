import pytest
from fakes.letters import A, B, C, D, X, Y, Z

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol import Protocol, Report, check, choose, loop, par, repeat, send, stop


def codes(report: Report) -> list[tuple[str, str, object]]:
    return [(finding.level, finding.code, finding.role) for finding in report.findings]


def test_a_protocol_that_ends_has_nothing_to_be_said_against_it() -> None:
    report = check(Protocol(loop(send(A, B, X), choose(B, A, {X: repeat(), Y: []}))))
    assert report.ok
    assert report.findings == ()
    assert [verdict.role for verdict in report.roles] == [A, B]


def test_a_loop_without_an_exit_is_a_warning_where_it_begins() -> None:
    report = check([send(B, A, Y), loop(send(A, B, X), repeat())])
    assert report.ok
    assert codes(report) == [("warning", "no-exit", None)]
    assert report.findings[0].where == "B -> A"
    inner = check([choose(A, B, {X: loop(send(B, A, X), repeat()), Y: []})])
    assert [finding.where for finding in inner.findings] == ["B -> A"]


def test_a_loop_that_a_stop_or_an_outer_repeat_leaves_has_an_exit() -> None:
    assert check(loop(choose(A, B, {X: repeat(), Y: stop()}))).findings == ()
    inner = loop(choose(A, B, {X: repeat(), Y: repeat("r")}))
    assert check(loop(choose(B, A, {X: inner, Y: []}), name="r")).findings == ()


def test_a_branch_of_a_par_without_an_exit_keeps_the_whole_from_its_end() -> None:
    report = check([par(loop(send(A, B, X), repeat()), [send(C, D, X)])])
    assert codes(report) == [("warning", "no-exit", None)]


def test_a_role_that_the_others_may_go_on_without_is_a_warning() -> None:
    report = check(choose(A, B, {X: loop(send(A, B, X), repeat()), Y: send(B, C, Z)}))
    assert codes(report) == [("warning", "no-exit", None), ("warning", "starvation", C)]


def test_a_role_that_knows_that_its_part_is_over_does_not_starve() -> None:
    report = check(choose(A, B, {X: [send(B, C, X), loop(send(A, B, X), repeat())], Y: send(B, C, Z)}))
    assert codes(report) == [("warning", "no-exit", None)]


def test_a_loop_that_is_never_repeated_is_a_warning() -> None:
    report = check(loop(loop(choose(A, B, {X: repeat("r"), Y: []})), name="r"))
    assert codes(report) == [("warning", "never-repeated", None)]
    assert report.findings[0].where == "<loop of 1 steps>"


def test_every_role_that_cannot_follow_is_told_with_its_recipe() -> None:
    report = check([choose(A, B, {X: [send(B, C, X), send(D, A, X)], Y: []})])
    assert not report.ok
    assert report.protocol is None
    assert codes(report) == [("error", "projection", C), ("error", "projection", D)]
    assert all(finding.recipe.startswith(f"Tell {finding.role}: ") for finding in report.findings)
    assert [verdict.view is None for verdict in report.roles] == [False, False, True, True]


def test_steps_that_make_no_protocol_are_a_finding() -> None:
    report = check([send(A, B, X), repeat()])
    assert codes(report) == [("error", "malformed", None)]


def test_what_is_not_made_of_steps_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="not a step"):
        check("steps")  # type: ignore[arg-type]


def test_a_report_reads_as_verdict_findings_diagram_and_views() -> None:
    text = str(check(loop(send(A, B, X), repeat())))
    accepted, warning, _, *rest = text.splitlines()
    assert accepted.startswith("accepted, ")
    assert warning.startswith("warning, no-exit: ")
    assert rest == ["loop", "  A -> B: X", "  repeat", "", "A, from 0", "0: !B X -> 0", "", "B, from 0", "0: ?A X -> 0"]
    refused = str(check(choose(A, B, {X: send(B, C, X), Y: []})))
    assert refused.startswith("refused\nerror, projection: C cannot know what to do")
