"""The logs of the agent sessions of runs, beside the records of these runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from partyctl_actors.journals.archive import Archive
from partyctl_actors.supervision.policy_state import from_plain
from partyctl_actors.supervision.turn_log import SqliteTurnLog, TurnLogs

FOLDER = "turns"
"""Where they are in the directory of a journal."""


def log_name(run_id: str, role: str) -> str:
    """The name of the agent session of a role and run in these logs."""
    return f"{run_id}/{role}"


def delete_run(journal: Archive, run_id: str) -> None:
    """Delete the record of a run, and the logs of its agents' sessions with it.

    Raises:
        JournalError: there is none, the run is under way, or something could not be deleted; then the record is there,
            and can be deleted again.
    """
    directory = logs_of(journal)

    def logs() -> None:
        if directory is not None and directory.exists():
            with contextlib.closing(TurnLogs(directory, make=False)) as turns:
                turns.delete("", log_name(run_id, ""))

    journal.delete(run_id, logs)


def logs_of(journal: object) -> Path | None:
    """The directory of the logs beside the records of a journal; None if it has none.

    Args:
        journal: one whose `path` is its directory, or another one.
    """
    path = getattr(journal, "path", None)
    return path / FOLDER if isinstance(path, Path) else None


def may_have_worker(journal: object, run_id: str, role: str) -> bool:
    """Whether the agent session of a run and role was left with a worker, or a turn that is not over.

    Raises:
        JournalError: its log cannot be read.
    """
    directory = logs_of(journal)
    if directory is None or not directory.exists():
        return False
    with contextlib.closing(TurnLogs(directory, make=False)) as logs:
        looked = logs.look(log_name(run_id, role))
    if looked is None or looked.state is None:
        return False
    state = from_plain(dict(looked.state))
    return state.turn is not None or state.connection is not None


def run_logs(journal: object) -> Callable[[str, str], SqliteTurnLog] | None:
    """Opens the log of the agent session of a run and role; None if the journal has no directory.

    Args:
        journal: one whose `path` is its directory, or another one. The directory is touched when a log is opened.
    """
    directory = logs_of(journal)
    if directory is None:
        return None
    return lambda run_id, role: TurnLogs(directory).open(log_name(run_id, role))
