"""partyctl runs: what `partyctl run` and nodes recorded, and going on with it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from partyctl_actors.journals import Decision, JsonlJournal, SqliteJournal
from partyctl_actors.journals.sqlite import shard_of

from .conftest import Cli

STORY = """
import os
import partyctl as ap
Writer, Reviewer = ap.roles("Writer", "Reviewer")
class Draft(ap.Message):
    text: str
class Approve(ap.Message):
    pass
def write(offer, heard):
    with open("asked", "a") as asked:
        asked.write("Writer\\n")
    return Draft("once\\x1b\\u2028")
def review(offer, heard):
    if os.path.exists("absent"):
        raise RuntimeError("the reviewer is not there")
    return Approve()
protocol = ap.Protocol(ap.send(Writer, Reviewer, Draft), ap.send(Reviewer, Writer, Approve))
session = ap.Session(protocol, {Writer: write, Reviewer: review}, id="story")
"""


@pytest.fixture
def story(partyctl: Cli) -> Cli:
    """A run that ended early, after its first decision."""
    (partyctl.home / "story.py").write_text(STORY)
    (partyctl.home / "absent").touch()
    failed = partyctl("run", "story.py")
    assert failed.returncode == 1
    assert "go on with: partyctl runs resume story" in failed.stderr
    (partyctl.home / "absent").unlink()
    return partyctl


def listed(partyctl: Cli) -> list[dict[str, object]]:
    document = json.loads(partyctl("runs", "list", "--json").stdout)
    assert (document["schema_version"], document["party"]) == (1, "default")
    runs: list[dict[str, object]] = document["runs"]
    return runs


def test_a_party_without_runs_says_so(partyctl: Cli) -> None:
    done = partyctl("runs", "list")
    assert (done.returncode, done.stdout) == (0, "")
    assert 'party "default" has no recorded runs' in done.stderr


def test_a_run_that_ended_early_is_listed_and_shown(story: Cli) -> None:
    (run,) = listed(story)
    assert (run["run"], run["state"], run["decisions"]) == ("story", "ended early", 1)
    assert "the reviewer is not there" in str(run["ending"])
    assert "ended early" in story("runs", "list").stdout
    shown = story("runs", "show", "story")
    assert shown.stdout == '1 Writer -> Reviewer: Draft(text="once\\u001b\\u2028")\n'
    assert "the reviewer is not there" in shown.stderr
    document = json.loads(story("runs", "show", "story", "--json").stdout)
    assert [said["payload"] for said in document["said"]] == [{"text": "once\x1b\u2028"}]


def test_it_is_resumed_where_it_was_and_nobody_is_asked_twice(
    story: Cli, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = Cli(story.runtime, tmp_path_factory.mktemp("elsewhere"))
    elsewhere.environment = story.environment
    resumed = elsewhere("runs", "resume", "story", "--json")
    assert resumed.returncode == 0, resumed.stderr
    events = [json.loads(line)["event"] for line in resumed.stdout.splitlines()]
    assert events == ["started", "delivered", "delivered", "ended"]
    assert (story.home / "asked").read_text() == "Writer\n"
    assert [run["state"] for run in listed(story)] == ["complete"]


def test_a_fork_is_a_run_of_its_own(story: Cli) -> None:
    forked = story("runs", "fork", "story", "--at", "0", "--as", "other")
    assert (forked.returncode, forked.stdout) == (0, "other\n")
    assert story("runs", "resume", "other").returncode == 0
    assert (story.home / "asked").read_text() == "Writer\nWriter\n"
    assert {run["run"]: run["state"] for run in listed(story)} == {"other": "complete", "story": "ended early"}
    assert story("runs", "fork", "story", "--at", "1").stdout.startswith("run-")


def test_an_export_is_a_record_of_json_lines(story: Cli, tmp_path: Path) -> None:
    exported = story("runs", "export", "story")
    journal = JsonlJournal(tmp_path / "exported")
    (journal.path / "story.jsonl").write_text(exported.stdout)
    original = SqliteJournal(story.home / "state" / "partyctl" / "default" / "runs").read("story")
    kept, decisions = journal.read("story")
    assert list(decisions) == list(original[1])
    assert kept._replace(changed=0) == original[0]._replace(changed=0)


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("show", "nope"), 1, "There is no record of this run"),
        (("resume", "nope"), 1, "There is no record of this run"),
        (("export", "nope"), 1, "There is no record of this run"),
        (("fork", "story", "--at", "9"), 1, "its record holds 1"),
        (("fork", "story", "--at", "1", "--as", "story"), 1, "already"),
        (("fork", "story", "--at", "1", "--as", "a/b"), 2, "cannot be the id of a run"),
        (("fork", "story", "--at", "-1"), 2, "--at"),
    ],
)
def test_what_cannot_be_done_is_said(story: Cli, words: tuple[str, ...], code: int, why: str) -> None:
    done = story("runs", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert why in done.stderr


@pytest.mark.parametrize("verb", ["show", "resume", "export"])
def test_a_name_that_is_no_text_is_refused_as_that(partyctl: Cli, verb: str) -> None:
    done = partyctl("runs", verb, "\udcff\udcfe")
    assert (done.returncode, done.stdout) == (1, "")
    assert "This cannot be the id of a run" in done.stderr
    assert "damaged" not in done.stderr


def test_an_unknown_run_is_refused_with_what_to_do(partyctl: Cli) -> None:
    assert "See which there are, with `partyctl runs list`" in partyctl("runs", "show", "nope").stderr


def test_a_database_that_lost_its_records_hides_no_other_and_nothing_is_asked_again(story: Cli) -> None:
    journal = SqliteJournal(story.home / "state" / "partyctl" / "default" / "runs")
    other = next(run for run in (f"run-{n}" for n in range(400)) if shard_of(run) != shard_of("story"))
    journal.open(other, "p").append(Decision(1, "A", "B", "Ping", b"\x80", 0))
    file = journal.path / f"runs-{shard_of('story'):02}.sqlite"
    file.write_bytes(b"")
    done = story("runs", "list")
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["RUN", other]
    assert f"partyctl: error: A record is damaged ({file}): it is empty" in done.stderr
    document = json.loads(story("runs", "list", "--json").stdout)
    assert [run["run"] for run in document["runs"]] == [other]
    assert [str(file) in text for text in document["unread"]] == [True]
    for words in (("runs", "resume", "story"), ("run", "story.py")):
        refused = story(*words)
        assert refused.returncode == 1
        assert "it is empty, and a record was begun in it" in refused.stderr
    assert (story.home / "asked").read_text() == "Writer\n"


@pytest.mark.parametrize("about", ['{"file": "x', "[1,2]", '{"file": 7}'])
def test_damage_beside_a_run_is_told_and_not_raised(story: Cli, about: str) -> None:
    directory = story.home / "state" / "partyctl" / "default" / "runs"
    file = directory / f"runs-{shard_of('story'):02}.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as direct, direct:
        direct.execute("UPDATE runs SET about = ?", (about,))
    for words in (("list",), ("show", "story"), ("resume", "story"), ("export", "story")):
        done = story("runs", *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"A record is damaged ({file}, run story)" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_changed_protocol_is_refused(story: Cli) -> None:
    changed = STORY.replace("    pass\ndef write", "    text: str = ''\ndef write")
    (story.home / "story.py").write_text(changed)
    resumed = story("runs", "resume", "story")
    assert resumed.returncode == 7
    assert "made under another protocol" in resumed.stderr


def test_a_record_that_does_not_say_where_it_is_from_is_not_resumed_here(partyctl: Cli) -> None:
    record = SqliteJournal(partyctl.home / "state" / "partyctl" / "default" / "runs").open("r", "p")
    record.close("complete")
    done = partyctl("runs", "resume", "r")
    assert done.returncode == 7
    assert "Resume it in Python" in done.stderr


def test_a_run_that_its_node_and_its_submitter_lost_goes_on_here_and_nobody_is_asked_twice(partyctl: Cli) -> None:
    asked = partyctl.home / "asked"
    program = Path(__file__).parents[2] / "programs" / "journaled.py"
    hold = Path(f"{asked}.hold")
    hold.touch()
    partyctl.environment["ASKED"] = str(asked)
    assert partyctl("up", "-d", "--wait", "--nodes", "1").returncode == 0
    try:
        running = partyctl.start("run", "--json", str(program))
        assert running.stdout is not None
        run = json.loads(running.stdout.readline())["run"]
        for _ in range(3):
            assert json.loads(running.stdout.readline())["event"] == "delivered"
        (node,) = json.loads(partyctl("status", "--json").stdout)["nodes"]
        os.kill(node["pid"], signal.SIGKILL)
        running.kill()
        running.communicate(timeout=60)
    finally:
        partyctl("down", "--now")
    hold.unlink()
    resumed = partyctl("runs", "resume", run)
    assert resumed.returncode == 0, resumed.stderr
    assert len(resumed.stdout.splitlines()) == 12
    questions = asked.read_text().splitlines()
    # The one that was under way when the node was killed is asked once more.
    assert sorted(questions) == sorted({*questions} | {"Reviewer 2"}) or questions.count("Reviewer 2") == 2
    assert len(questions) - len(set(questions)) <= 1


def test_runs_are_deleted_and_only_what_was_named(story: Cli) -> None:
    assert story("runs", "fork", "story", "--at", "1", "--as", "other").returncode == 0
    done = story("runs", "delete", "story", "nobody")
    assert (done.returncode, done.stdout) == (1, "story\n")
    assert "no record of this run (run nobody" in done.stderr
    assert [run["run"] for run in listed(story)] == ["other"]
    done = story("runs", "delete", "other", "--json")
    assert json.loads(done.stdout) == {"schema_version": 1, "party": "default", "deleted": ["other"], "errors": []}
    assert (done.returncode, listed(story)) == (0, [])
    assert "Writer" in (story.home / "asked").read_text()
    assert story("run", "story.py").returncode == 0
    assert (story.home / "asked").read_text() == "Writer\nWriter\n"


def test_runs_that_ended_before_a_moment_are_deleted_and_no_unfinished_one(story: Cli) -> None:
    assert story("runs", "fork", "story", "--at", "1", "--as", "unfinished").returncode == 0
    assert story("runs", "delete", "--before", "1d").stdout == ""
    assert story("runs", "delete", "--before", "2099-01-01").stdout == "story\n"
    assert [run["run"] for run in listed(story)] == ["unfinished"]


def test_deleting_needs_to_be_told_what(partyctl: Cli) -> None:
    done = partyctl("runs", "delete")
    assert (done.returncode, done.stdout) == (2, "")
    assert "name a RUN, or give --before" in done.stderr
    assert partyctl("runs", "delete", "--before", "yesterday").returncode == 2
    assert list(partyctl.home.glob("**/runs")) == []


def test_a_traceback_is_kept_until_the_run_goes_on_or_is_deleted(story: Cli) -> None:
    kept = json.loads(story("runs", "show", "story", "--json").stdout)["traceback"]
    assert kept.startswith("Traceback (most recent call last):")
    assert "the reviewer is not there" in kept
    assert story("runs", "resume", "story").returncode == 0
    assert json.loads(story("runs", "show", "story", "--json").stdout)["traceback"] is None
    (story.home / "absent").touch()
    assert story("runs", "fork", "story", "--at", "1", "--as", "other").returncode == 0
    assert story("runs", "resume", "other").returncode == 1
    left = story.home / "state" / "partyctl" / "default" / "tracebacks"
    assert len(list(left.iterdir())) == 1
    assert story("runs", "delete", "other").returncode == 0
    assert list(left.iterdir()) == []
