"""A journal of JSON lines: one file per run, for people and programs to read; a decision is one write and one sync."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from partyctl_actors.errors import JournalError
from partyctl_actors.journals import lines, refusals
from partyctl_actors.journals.archive import NOTHING, Archive, Kept
from partyctl_actors.journals.interface import Decision, Record
from partyctl_actors.journals.places import directory_of

_log = logging.getLogger("partyctl.journals")

SUFFIX = ".jsonl"
_APPENDING = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class JsonlJournal(Archive):
    """Keeps each run in a file of its own, `<id>.jsonl`; see `partyctl_actors.journals.lines` for its form.

    A last line that was not written whole, because the process or the machine died, is cut off when the record is
    opened, and a warning says so. Any other damage is refused with the file and the line. While a record is open its
    file is locked (flock).

    Args:
        path: the directory; made if missing. Files are readable by their owner alone.

    Raises:
        JournalError: the directory cannot be made, is a file, or others can write in it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = directory_of(path, "JsonlJournal")

    def open(self, run_id: str, protocol_id: str, *, about: Mapping[str, str] = NOTHING) -> Record:
        """See `Archive.open`."""
        file = self._file(run_id)
        try:
            try:
                fd = os.open(file, _APPENDING)
            except FileNotFoundError:
                # Somebody may make it at the same moment; then the lock decides whose it is.
                with contextlib.suppress(FileExistsError):
                    self._make(file, lines.head_line(run_id, protocol_id, about))
                fd = os.open(file, _APPENDING)
        except (OSError, ValueError) as error:
            raise refusals.unusable(str(file), error) from error
        try:
            return self._opened(fd, file, run_id, protocol_id)
        except BaseException:
            os.close(fd)
            raise

    def survey(self) -> tuple[Sequence[Kept], Sequence[JournalError]]:
        """See `Archive.survey`."""
        found, unread = [], []
        for file in sorted(self.path.glob(f"*{SUFFIX}")):
            try:
                found.append(_kept(file, _contents(file, file.read_bytes())))
            except JournalError as error:
                unread.append(error)
            except OSError as error:
                unread.append(refusals.unread(str(file), error))
        return sorted(found, key=lambda kept: -kept.changed), unread

    def read(self, run_id: str) -> tuple[Kept, Sequence[Decision]]:
        """See `Archive.read`."""
        file = self._file(run_id)
        try:
            contents = _contents(file, file.read_bytes())
            return _kept(file, contents), contents.decisions
        except FileNotFoundError:
            raise refusals.unknown(run_id, str(self.path)) from None
        except (OSError, ValueError) as error:
            raise refusals.unread(str(file), error) from error

    def create(
        self, run_id: str, protocol_id: str, decisions: Sequence[Decision], about: Mapping[str, str] = NOTHING
    ) -> None:
        """See `Archive.create`."""
        file = self._file(run_id)
        try:
            self._make(file, b"".join(lines.whole(run_id, protocol_id, decisions, about)))
        except FileExistsError:
            raise refusals.exists(run_id) from None
        except (OSError, ValueError) as error:
            raise refusals.unkept(str(file), error) from error

    def delete(self, run_id: str, before: Callable[[], object] = lambda: None) -> None:
        """See `Archive.delete`."""
        file = self._file(run_id)
        try:
            fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise refusals.unknown(run_id, str(self.path)) from None
        except (OSError, ValueError) as error:
            raise refusals.undeleted(str(file), error, file) from error
        try:
            _lock(fd, run_id)
            before()
            file.unlink()
            self._sync()
        except OSError as error:
            raise refusals.undeleted(str(file), error, file) from error
        finally:
            os.close(fd)

    def _make(self, file: Path, content: bytes) -> None:
        """A new file that is never seen without its content: so one without a head is damaged, and not new."""
        fd, half = tempfile.mkstemp(prefix=".new-", dir=self.path)
        try:
            _write(fd, content)
            os.fsync(fd)
            # A link appears whole, and never in the place of another file.
            os.link(half, file)
        finally:
            os.close(fd)
            os.unlink(half)
        self._sync()

    def _opened(self, fd: int, file: Path, run_id: str, protocol_id: str) -> Record:
        _lock(fd, run_id)
        data = _all_of(fd)
        contents = _contents(file, data)
        if contents.run != run_id:
            raise refusals.foreign(str(file), f"it is the record of run {contents.run}")
        refusals.check_protocol(run_id, contents.protocol, protocol_id)
        try:
            if contents.sound < len(data):
                _log.warning(
                    "The end of %s was not written whole; %d bytes of it were cut off", file, len(data) - contents.sound
                )
                os.ftruncate(fd, contents.sound)
            os.fsync(fd)
        except OSError as error:
            raise refusals.unkept(str(file), error) from error
        return _JsonlRecord(fd, file, run_id, contents)

    def _file(self, run_id: str) -> Path:
        # An id may hold anything a file's name may not; quoting also keeps it in this directory.
        return self.path / (quote(run_id, safe="", errors="surrogatepass") + SUFFIX)

    def _sync(self) -> None:
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


class _JsonlRecord:
    def __init__(self, fd: int, file: Path, run_id: str, contents: lines.Contents) -> None:
        self._fd: int | None = fd
        self._file = file
        self._run_id = run_id
        self._decisions = contents.decisions
        self._last = contents.last
        self._broken = False

    def append(self, decision: Decision) -> None:
        if self._fd is None or self._broken:
            raise refusals.closed(self._run_id)
        try:
            if not os.fstat(self._fd).st_nlink:
                self._broken = True
                raise refusals.gone(self._file)
            line = lines.decision_line(decision, self._last)
            _write(self._fd, line)
            os.fdatasync(self._fd)
        except (OSError, ValueError) as error:
            # Whether it was written is not known, and after a failed sync a second one would promise too much.
            self._broken = True
            raise refusals.unkept(str(self._file), error) from error
        self._decisions.append(decision)
        self._last = line

    def decisions(self) -> Sequence[Decision]:
        return tuple(self._decisions)

    def close(self, ending: str = "") -> None:
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        try:
            if ending and not self._broken:
                # Not synced: nothing depends on it.
                _write(fd, lines.ending_line(ending, self._last))
        except OSError as error:
            _log.warning("How run %s ended could not be written to %s: %s", self._run_id, self._file, error)
        finally:
            os.close(fd)


def _lock(fd: int, run_id: str) -> None:
    """Hold a record; one that was deleted between its opening and now is as good as somebody else's."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_nlink:
            return
    raise refusals.held(run_id)


def _contents(file: Path, data: bytes) -> lines.Contents:
    try:
        contents = lines.read(data)
    except lines.Foreign as error:
        raise refusals.foreign(str(file), str(error)) from None
    except lines.Damage as error:
        raise refusals.damaged(str(file), str(error)) from None
    if not contents.sound:
        why = "it lost its first line" if data else "it is empty, and a record was begun in it"
        raise refusals.damaged(str(file), why)
    return contents


def _kept(file: Path, contents: lines.Contents) -> Kept:
    changed = file.stat().st_mtime
    return Kept(contents.run, contents.protocol, len(contents.decisions), changed, contents.ending, contents.about)


def _all_of(fd: int) -> bytes:
    parts, place = [], 0
    while part := os.pread(fd, 1 << 20, place):
        parts.append(part)
        place += len(part)
    return b"".join(parts)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
