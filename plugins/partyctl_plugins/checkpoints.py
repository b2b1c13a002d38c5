"""What a session remembers of its conversation when its process is gone, and where.

A checkpoint store is asked on the thread that runs the session's turns. What it raises is its own failure, never the
provider's: the turn that was paid for keeps its result.
"""

import contextlib
import fcntl
import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from zlib import crc32

from partyctl_plugins.checks import check_conversation, check_filled, check_instance
from partyctl_plugins.claims import Claim, ClaimedElsewhere
from partyctl_plugins.codec import Mismatch, codec, pack, unpack
from partyctl_plugins.errors import CheckpointError, RecordError, SessionStateError
from partyctl_plugins.usage import ProviderUsage

VERSION = 1
"""The version of a checkpoint file's format."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a session goes on.

    Attributes:
        conversation_id: the provider's conversation.
        usage: the last usage reported there, the baseline of providers that count cumulatively.

    Raises:
        TypeError, ValueError: a field is not as described.
    """

    conversation_id: str
    usage: ProviderUsage | None = None

    def __post_init__(self) -> None:
        check_filled("conversation_id", self.conversation_id)
        check_conversation("conversation_id", self.conversation_id)
        if self.usage is not None:
            check_instance("usage", self.usage, ProviderUsage)


class CheckpointStore(Protocol):
    """Keeps one checkpoint per key; any text is a key."""

    def load(self, key: str) -> Checkpoint | None:
        """What was saved last under `key`, None if nothing was."""

    def save(self, key: str, checkpoint: Checkpoint) -> None:
        """Keep `checkpoint` in place of what was there."""

    def clear(self, key: str) -> None:
        """Forget what is there; nothing happens if nothing is."""


class InMemoryCheckpointStore:
    """Keeps checkpoints as long as this object lives. Thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[str, Checkpoint] = {}

    def load(self, key: str) -> Checkpoint | None:
        return self._kept.get(key)

    def save(self, key: str, checkpoint: Checkpoint) -> None:
        self._kept[key] = checkpoint

    def clear(self, key: str) -> None:
        self._kept.pop(key, None)


@dataclass(frozen=True, slots=True)
class _Kept:
    version: int
    key: str
    checkpoint: Checkpoint
    crc: int | None = None
    """A CRC-32 of the rest; files that were written before there was one have none."""


_KEPT = codec(_Kept)


class FileCheckpointStore:
    """Keeps each checkpoint in a file that only its owner may read; a save is whole or has not happened.

    A save is on the disk when it returns; a process killed in the middle of one leaves the checkpoint before it.
    Threads and processes may share a directory, and each key belongs to the sessions of one process at a time.

    Args:
        directory: where; made, for its owner alone, if it is not there.

    Raises:
        CheckpointError: the directory cannot be made, or a file in it is not one of ours.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory).absolute()
        self._threads = threading.Lock()
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _failed("the directory of checkpoints cannot be made", self._directory, error) from error

    def path(self, key: str) -> Path:
        """The file of `key`. Its name is a digest, because a key may be longer than a name, or hold a slash."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        return self._directory / f"{digest[:32]}.checkpoint"

    def claim(self, key: str) -> Claim:
        """Have `key` for this process, as each session does that is made with it.

        Raises:
            SessionStateError: another process has it.
            CheckpointError: that cannot be known.
        """
        path = self.path(key)
        try:
            return Claim(Path(os.path.realpath(path.with_suffix(".owner"))))
        except ClaimedElsewhere as error:
            raise SessionStateError(
                f"a session of another process goes on under the checkpoint key {key!r}",
                where=str(path),
                why=f"{error.owner}; both would go on in one conversation, and each overwrite what the other keeps",
                fix="Close that session, or end its process, or give each session a checkpoint_key of its own",
            ) from error
        except OSError as error:
            raise _failed("a checkpoint key cannot be claimed", path, error) from error

    def load(self, key: str) -> Checkpoint | None:
        """See `CheckpointStore`.

        Raises:
            CheckpointError: the file cannot be read, is not one of ours, or is of a later version.
        """
        path = self.path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed("a checkpoint cannot be read", path, error) from error
        return _decoded(data, key, path)

    def save(self, key: str, checkpoint: Checkpoint) -> None:
        """See `CheckpointStore`.

        Raises:
            CheckpointError: it could not be written; the one before it is still there.
        """
        path = self.path(key)
        try:
            data = _encoded(_Kept(VERSION, key, checkpoint))
        except (Mismatch, RecordError) as error:
            raise CheckpointError("a checkpoint cannot be written down", where=str(path), why=str(error)) from error
        try:
            with self._alone():
                self._replace(path, data)
        except OSError as error:
            raise _failed("a checkpoint cannot be written", path, error) from error

    def clear(self, key: str) -> None:
        """See `CheckpointStore`.

        Raises:
            CheckpointError: the file could not be removed.
        """
        path = self.path(key)
        try:
            with self._alone():
                path.unlink(missing_ok=True)
                self._sync_directory()
        except OSError as error:
            raise _failed("a checkpoint cannot be removed", path, error) from error

    def _replace(self, path: Path, data: bytes) -> None:
        # One name for all drafts of a key: what a killed process left is overwritten, never piled up.
        draft = path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(draft, path)
        self._sync_directory()

    def _sync_directory(self) -> None:
        fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold off other writers of this directory, in this process and in others."""
        with self._threads:
            fd = os.open(self._directory / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                yield
            finally:
                os.close(fd)


def _encoded(kept: _Kept) -> bytes:
    encoded = _KEPT.encode(kept)
    assert isinstance(encoded, dict)
    return pack({**encoded, "crc": _crc(encoded)})


def _crc(kept: object) -> int:
    assert isinstance(kept, dict)
    return crc32(pack({name: value for name, value in kept.items() if name != "crc"}))


def _decoded(data: bytes, key: str, path: Path) -> Checkpoint:
    try:
        value = unpack(data)
        kept = _KEPT.decode(value)
    except (Mismatch, RecordError) as error:
        why = error.describe() if isinstance(error, Mismatch) else str(error)
        raise CheckpointError(
            "a file is no checkpoint",
            where=str(path),
            why=why,
            fix="Move it away: the session then starts a fresh conversation",
        ) from error
    assert isinstance(kept, _Kept)
    if kept.version != VERSION:
        raise CheckpointError(
            f"a checkpoint is of version {kept.version}, and this is version {VERSION}",
            where=str(path),
            fix="Use the version of partyctl that wrote it, or move the file away",
        )
    if kept.crc is not None and kept.crc != _crc(value):
        raise CheckpointError(
            "a checkpoint is damaged",
            where=str(path),
            why="it does not have the checksum it was written with",
            fix="Restore the file, or move it away: the session then starts a fresh conversation",
        )
    if kept.key != key:
        raise CheckpointError(f"a checkpoint belongs to {kept.key!r}, not to {key!r}", where=str(path))
    return kept.checkpoint


def _failed(what: str, path: Path, error: OSError) -> CheckpointError:
    return CheckpointError(what, where=str(path), why=error.strerror or str(error))
