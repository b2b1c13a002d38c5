"""The recorded runs of a party: those of its nodes and those of `partyctl run`, in its state directory."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from partyctl.config import PartyConfig
from partyctl_actors.journals import Archive, Record, SqliteJournal
from partyctl_base.paths import state_directory

COMPLETE = "complete"
"""The ending of a run that came to the end of its protocol."""


def recorded(party: str, *, to_write: bool = True) -> SqliteJournal:
    """The journal of a party.

    Args:
        party: its name.
        to_write: whether records will be made or gone on with; reading them makes nothing.

    Raises:
        PathError, JournalError: its directory cannot be used.
    """
    return SqliteJournal(state_directory(party) / "runs", make=to_write)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the session of a run is, so that `partyctl runs resume` finds it again.

    Attributes:
        file: the Python file.
        name: which Session or Protocol in it; "" for the only one.
        config: the party.toml that counted; "" if none did.
        cwd: the directory in which it ran.
    """

    file: str
    name: str = ""
    config: str = ""
    cwd: str = ""

    @classmethod
    def of(cls, path: Path, name: str | None, config: PartyConfig) -> "Origin":
        """The origin of a run that begins here and now."""
        return cls(str(path), name or "", str(config.source or ""), os.getcwd())

    @classmethod
    def read(cls, about: Mapping[str, str]) -> "Origin":
        """The origin that was kept beside a record; without a file if none was."""
        return cls(*(about.get(key, "") for key in ("file", "name", "config", "cwd")))

    def about(self) -> dict[str, str]:
        """What is kept of it beside a record."""
        return {"file": self.file, "name": self.name, "config": self.config, "cwd": self.cwd}


class Noting:
    """A journal that notes beside each new record where its run comes from."""

    def __init__(self, journal: Archive, origin: Origin) -> None:
        self._journal = journal
        self._origin = origin

    @property
    def path(self) -> Path | None:
        """The directory of the journal, None if it has none."""
        path = getattr(self._journal, "path", None)
        return path if isinstance(path, Path) else None

    def open(self, run_id: str, protocol_id: str) -> Record:
        """See `Journal.open`."""
        return self._journal.open(run_id, protocol_id, about=self._origin.about())
