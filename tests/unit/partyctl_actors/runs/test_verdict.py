from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fakes.runs import Ping

from partyctl.errors import told
from partyctl_actors.errors import AllowanceExceeded, ContentError, ProjectionError
from partyctl_actors.runs.allowance import Excess
from partyctl_actors.runs.messages import Failed
from partyctl_actors.runs.reports import report
from partyctl_actors.runs.verdict import Ending, RoleFailed, Verdict, error_of
from partyctl_base.errors import PartyError


def test_a_complete_run_is_no_error() -> None:
    assert error_of(Verdict(Ending.COMPLETE, 3), "r") is None


@pytest.mark.parametrize("ending", [ending for ending in Ending if ending is not Ending.COMPLETE])
def test_every_other_end_is_an_error_that_names_run_step_and_role(ending: Ending) -> None:
    failure = Failed(3, "ValueError", "no", "", "", "", "")
    error = error_of(Verdict(ending, 3, "A", "the cause", Excess("steps", 2, 2), failure), "r")
    assert isinstance(error, PartyError)
    assert "run r, step 3" in str(error)
    if ending not in (Ending.ALLOWANCE, Ending.JOURNAL, Ending.CANCELLED):
        assert "A" in error.what


def test_an_excess_keeps_its_figures() -> None:
    error = error_of(Verdict(Ending.ALLOWANCE, 1, excess=Excess("tokens", 110, 100)), "r")
    assert isinstance(error, AllowanceExceeded)
    assert (error.limit, error.spent, error.allowed) == ("tokens", 110, 100)


def test_roles_that_did_not_confirm_are_noted() -> None:
    error = error_of(Verdict(Ending.CANCELLED, 0, unanswered=("A", "B")), "r")
    assert error is not None
    assert error.__notes__ == ["did not confirm that they stopped: A, B"]


def failed(error: BaseException) -> PartyError:
    made = error_of(Verdict(Ending.FAILED, 3, "A", failure=report(error, 3)), "r")
    assert made is not None
    return made


def test_an_error_of_ours_comes_back_as_its_own_class() -> None:
    made = failed(ContentError("This is no Ping", where="here", why="text: missing", fix="Add it"))
    assert type(made) is ContentError
    assert str(made) == "This is no Ping (here): text: missing. Add it"
    assert made.__notes__ == ["raised by A, run r, step 3"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError(), "ValueError"),
        (ProjectionError("no"), "ProjectionError: no"),
        (AllowanceExceeded("steps", 1, 1), "AllowanceExceeded: The allowance"),
    ],
)
def test_any_other_error_comes_back_as_a_failed_role_with_type_and_text(error: Exception, text: str) -> None:
    made = failed(error)
    assert isinstance(made, RoleFailed)
    assert (made.role, made.error) == ("A", type(error).__name__)
    assert text in str(made)


def test_an_exception_whose_text_cannot_be_read_is_reported_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert report(Mute(), 1) == Failed(1, "Mute", "(its text cannot be read: RuntimeError)", "", "", "", "")


def raised(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:
        trace = error.__traceback__
        return error.with_traceback(trace and trace.tb_next)  # this frame is no part of it
    raise AssertionError("it raised nothing")


def test_a_report_names_the_last_line_of_the_users_code_not_of_what_it_called() -> None:
    at = report(raised(lambda: json.loads("{")), 1).at
    assert re.fullmatch(rf"{re.escape(__file__)}:\d+, in <lambda>", at)
    ours = report(raised(lambda: Ping.from_wire({"no": 1})), 1)
    assert ours.at.startswith(f"{__file__}:")


PACKAGES = sysconfig.get_path("purelib")


def module(name: str, file: str, source: str, **known: object) -> dict[str, Any]:
    """The names of a module that was read from there."""
    names: dict[str, Any] = {"__name__": name, **known}
    exec(compile(source, file, "exec"), names)
    return names


@pytest.mark.parametrize("directory", [PACKAGES, "/home/anna/.local/lib/python3.11/site-packages"])
def test_a_participant_from_an_installed_package_is_named_by_its_line_not_by_that_of_what_it_called(
    directory: str,
) -> None:
    other = module("http_of.core", f"{directory}/http_of/core.py", "def get():\n    raise OSError('no')")
    acme = module("acme.roles", f"{directory}/acme/roles.py", "def answer(offer):\n    return get()", get=other["get"])
    assert report(raised(contained_call(acme["answer"])), 1).at == f"{directory}/acme/roles.py:2, in answer"


def contained_call(call: Callable[[object], object]) -> Callable[[], object]:
    """The call, as our own code makes it: no line of the user's is on the way."""
    names = module("partyctl_actors.runs.caller", "caller.py", "def ours():\n    return call(None)", call=call)
    made: Callable[[], object] = names["ours"]
    return made


def test_an_error_that_came_through_no_code_of_the_user_names_no_line() -> None:
    assert report(ValueError("made, and never raised"), 1).at == ""


def test_a_package_that_we_call_ourselves_is_nobodys_participant() -> None:
    checks = module("pydantic.main", f"{PACKAGES}/pydantic/main.py", "def check(value):\n    raise ValueError(value)")
    error = raised(contained_call(checks["check"]))
    assert report(error, 1).at == ""


@pytest.mark.parametrize("error", [KeyError("k"), ContentError("no")])
def test_the_line_arrives_with_an_error_from_another_process(error: Exception) -> None:
    made = error_of(Verdict(Ending.FAILED, 3, "A", failure=replace(report(error, 3), at="x.py:1, in f")), "r")
    assert "run r, step 3, at x.py:1, in f" in told(made)


def test_a_report_has_a_bounded_size() -> None:
    made = report(PartyError("x" * 10**6, why="y" * 10**6), 1)
    assert sum(len(text) for text in (made.text, made.what, made.where, made.why, made.fix)) < 100_000
