"""`partyctl run` of a file with a mistake in it, or with people in it, with a host and without one."""

import json
import re
import subprocess
import sys

import pytest
from support.party import REPOSITORY, Party

MISTAKE = REPOSITORY / "tests" / "programs" / "mistake.py"


@pytest.fixture(params=["hosted", "embedded"])
def place(request: pytest.FixtureRequest, party: Party) -> str:
    """With a running host, and without."""
    if request.param == "hosted":
        party.up("--nodes", "1")
    return str(request.param)


def test_a_mistake_in_a_participant_is_told_with_file_and_line_and_how_to_go_on(place: str, party: Party) -> None:
    failed = party.run("run", str(MISTAKE))
    assert failed.returncode == 1
    line = 1 + MISTAKE.read_text().splitlines().index('    return Resolution(known["missing"])')
    assert f"at {MISTAKE}:{line}, in answer" in failed.stderr
    assert "KeyError: 'missing'" in failed.stderr
    assert re.search(r"^go on with: partyctl runs resume run-\w+$", failed.stderr, re.MULTILINE)
    if place == "hosted":
        logs = party.run("logs").stdout
        assert "Traceback (most recent call last):" in logs
        assert "KeyError: 'missing'" in logs
    else:
        assert "Traceback" not in failed.stderr
        (found,) = re.findall(r"^the whole traceback: partyctl (runs show run-\w+)$", failed.stderr, re.MULTILINE)
        shown = party.run(*found.split()).stderr
        assert "Traceback (most recent call last):" in shown
        assert f'File "{MISTAKE}", line {line}, in answer' in shown


def test_who_waits_for_a_person_at_a_desk_is_told_so_once(place: str, party: Party) -> None:
    run = party.start("run", f"{party.program('people.py')}:desk")
    assert run.stderr is not None
    told = [run.stderr.readline(), run.stderr.readline()]
    assert "began" in told[0]
    assert "Support is asked at a Desk, and the run waits for it" in told[1]
    assert "Human(Terminal())" in told[1]
    run.terminate()
    assert run.wait(20) == 143
    assert "asked" not in run.stderr.read()


def answered(party: Party, *options: str) -> subprocess.CompletedProcess[str]:
    """A run whose person at the terminal types an answer."""
    done = subprocess.run(
        [sys.executable, "-m", "partyctl", "run", *options, f"{party.program('people.py')}:terminal"],
        env=party.environment, cwd=party.root, input="1\non its way\n", capture_output=True, text=True, timeout=40,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Support, what do you say to Customer?" in done.stderr
    return done


def test_a_terminal_asks_on_stderr_and_does_not_repeat_what_is_shown_anyway(party: Party) -> None:
    said = ['Customer -> Support: Ticket(text="parcel 7")', 'Support -> Customer: Resolution(text="on its way")']
    assert answered(party).stdout.splitlines() == said


def test_nothing_but_json_goes_to_stdout_though_a_person_is_asked(party: Party) -> None:
    lines = answered(party, "--json").stdout.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["started", "delivered", "delivered", "ended"]


def test_a_node_that_has_no_terminal_says_so(party: Party) -> None:
    party.up("--nodes", "1")
    failed = party.run("run", f"{party.program('people.py')}:terminal")
    assert failed.returncode == 1
    assert "a node of a party that is up has no terminal" in failed.stderr
