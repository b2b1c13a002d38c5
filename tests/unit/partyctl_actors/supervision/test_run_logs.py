"""The logs of the agents of runs, beside the records of these runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import Archive, JsonlJournal, MemoryJournal, SqliteJournal
from partyctl_actors.supervision.policy_state import SessionState, to_plain
from partyctl_actors.supervision.run_logs import FOLDER, delete_run, log_name, may_have_worker, run_logs
from partyctl_actors.supervision.turn_log import TurnLogs


@pytest.fixture(params=[JsonlJournal, SqliteJournal])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    """A journal on the disk."""
    made: Archive = request.param(tmp_path / "records")
    return made


def a_run(journal: Archive, run: str, *roles: str) -> None:
    journal.create(run, "p", [])
    open_log = run_logs(journal)
    assert open_log is not None
    for role in roles:
        log = open_log(run, role)
        log.intend("turn-0-1", {"prompt": "go"})
        log.close()


def logs_left(tmp_path: Path, *names: str) -> list[str]:
    logs = TurnLogs(tmp_path / "records" / FOLDER, make=False)
    found = [name for name in names if logs.look(name) is not None]
    logs.close()
    return found


def test_a_run_is_deleted_with_the_logs_of_its_agents_and_no_other(journal: Archive, tmp_path: Path) -> None:
    a_run(journal, "run-1", "Writer", "Reviewer")
    a_run(journal, "run-11", "Writer")
    names = [log_name("run-1", "Writer"), log_name("run-1", "Reviewer"), log_name("run-11", "Writer")]
    assert logs_left(tmp_path, *names) == names
    delete_run(journal, "run-1")
    assert logs_left(tmp_path, *names) == names[2:]
    assert [kept.run for kept in journal.runs()] == ["run-11"]


def test_a_run_under_way_keeps_its_logs(journal: Archive, tmp_path: Path) -> None:
    a_run(journal, "run-1", "Writer")
    record = journal.open("run-1", "p")
    with pytest.raises(JournalError, match="another run"):
        delete_run(journal, "run-1")
    assert logs_left(tmp_path, "run-1/Writer") == ["run-1/Writer"]
    record.close()


def test_a_run_whose_logs_cannot_be_deleted_is_still_there(journal: Archive, tmp_path: Path) -> None:
    a_run(journal, "run-1", "Writer")
    [file] = (tmp_path / "records" / FOLDER).glob("*.sqlite")
    file.write_bytes(b"no database")
    with pytest.raises(JournalError, match=str(file)):
        delete_run(journal, "run-1")
    assert [kept.run for kept in journal.runs()] == ["run-1"]


def test_a_run_without_agents_is_deleted_and_nothing_is_made(journal: Archive, tmp_path: Path) -> None:
    journal.create("run-1", "p", [])
    delete_run(journal, "run-1")
    assert not (tmp_path / "records" / FOLDER).exists()
    memory = MemoryJournal()
    memory.create("run-1", "p", [])
    delete_run(memory, "run-1")
    assert (run_logs(memory), memory.runs()) == (None, [])


@pytest.mark.parametrize(("connection", "may"), [(None, False), (3, True)])
def test_a_session_that_was_left_with_a_connection_may_have_a_worker(
    journal: Archive, connection: int | None, may: bool
) -> None:
    assert not may_have_worker(journal, "run-1", "Writer")
    open_log = run_logs(journal)
    assert open_log is not None
    log = open_log("run-1", "Writer")
    assert not may_have_worker(journal, "run-1", "Writer")
    log.state(to_plain(SessionState(connection=connection)))
    assert may_have_worker(journal, "run-1", "Writer") is may
    assert not may_have_worker(journal, "run-1", "Reviewer")
    log.close()


def test_without_a_directory_no_agent_was_left_with_a_worker() -> None:
    assert not may_have_worker(MemoryJournal(), "run-1", "Writer")
