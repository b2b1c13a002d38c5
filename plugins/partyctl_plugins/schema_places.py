"""Where a provider that reads output schemas from files may write them, if its caller named no directory.

A conversation has one directory for it, made when it is first needed, for its owner alone, and removed when the
conversation is closed. While its process lives, the process holds a lock on it. The kernel frees that lock when the
process dies, by whatever; so whoever sees the end of a worker, and whoever makes another such directory, can tell which
belong to nobody any more, and removes them.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from partyctl_plugins.errors import TurnFailedError
from partyctl_plugins.profile import ProviderProfile, SchemaMechanism
from partyctl_plugins.turns import TurnRequest

PREFIX = "partyctl-schemas-"
_UNLOCKED = ".partyctl-new-"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class SchemaPlace:
    """The directory of one conversation.

    Args:
        parent: where it is made; None for the directory for temporary files.
    """

    def __init__(self, parent: str | None = None) -> None:
        self._parent = parent
        self._lock: int | None = None
        self._path: Path | None = None

    def placed(self, request: TurnRequest, profile: ProviderProfile | None) -> TurnRequest:
        """The request, with a `host_dir` for its schema where the provider needs one and the caller gave none.

        Raises:
            TurnFailedError: the directory cannot be made.
        """
        schema = request.output_schema
        by_file = profile is not None and profile.output_schema is SchemaMechanism.FILE_PATH
        if schema is None or schema.host_dir is not None or not by_file:
            return request
        return replace(request, output_schema=replace(schema, host_dir=self._made()))

    def remove(self) -> None:
        """Remove the directory, if there is one. Idempotent, never raises."""
        path, self._path = self._path, None
        lock, self._lock = self._lock, None
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)

    def _made(self) -> str:
        if self._path is None:
            parent = self._parent or tempfile.gettempdir()
            try:
                sweep(parent)
                self._make(parent)
            except OSError as error:
                raise TurnFailedError(
                    "the directory for the file of an output schema cannot be made",
                    where=parent,
                    why=error.strerror or str(error),
                    fix="Make room there, or name a directory: OutputSchema(schema, host_dir=...)",
                ) from error
        return str(self._path)

    def _make(self, parent: str) -> None:
        # Under another name until it is locked, so that nobody takes it for one without an owner.
        new = Path(tempfile.mkdtemp(prefix=_UNLOCKED, dir=parent))
        try:
            lock = os.open(new, _DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                path = new.with_name(PREFIX + new.name.removeprefix(_UNLOCKED))
                new.rename(path)
            except BaseException:
                os.close(lock)
                raise
        except BaseException:
            new.rmdir()
            raise
        self._lock, self._path = lock, path


def sweep(parent: str | None = None) -> int:
    """Remove the directories of processes that are dead; how many there were.

    Args:
        parent: where they are; None for the directory for temporary files.
    """
    removed = 0
    for path in Path(parent or tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # It may be another user's, or be removed by somebody else at this moment.
        with contextlib.suppress(OSError):
            lock = os.open(path, _DIRECTORY)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
                    removed += 1
            finally:
                os.close(lock)
    return removed
