"""The logs of the agent sessions of runs, beside the records of these runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from partyctl_actors.supervision.turn_log import SqliteTurnLog, TurnLogs

FOLDER = "turns"
"""Where they are in the directory of a journal."""


def log_name(run_id: str, role: str) -> str:
    """The name of the agent session of a role and run in these logs."""
    return f"{run_id}/{role}"


def run_logs(journal: object) -> Callable[[str, str], SqliteTurnLog] | None:
    """Opens the log of the agent session of a run and role; None if the journal has no directory.

    Args:
        journal: one whose `path` is its directory, or another one. The directory is touched when a log is opened.
    """
    path = getattr(journal, "path", None)
    if not isinstance(path, Path):
        return None
    directory = path / FOLDER
    return lambda run_id, role: TurnLogs(directory).open(log_name(run_id, role))
