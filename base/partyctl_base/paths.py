"""Where files live: the XDG directories, private to their owner, and paths short enough for a socket."""

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

from partyctl_base.errors import PartyError

SOCKET_PATH_MAX = 107
"""Bytes that fit into sockaddr_un.sun_path before its closing NUL (unix(7))."""

RUNTIME_VARIABLE = "PARTYCTL_RUNTIME_DIR"
"""Names the parent of all runtime directories; wins over XDG_RUNTIME_DIR."""


class PathError(PartyError):
    """A directory or socket path cannot be used."""

    whose = "machine"


def runtime_directory(party: str) -> Path:
    """The directory of `party`'s sockets and locks, made if missing, 0700 and ours.

    Raises:
        PathError: it belongs to another user, is a link, can be written by others or cannot be made.
    """
    override = os.environ.get(RUNTIME_VARIABLE)
    base = _xdg("XDG_RUNTIME_DIR")
    if override:
        root = Path(override)
    elif base:
        root = base / "partyctl"
    else:
        root = Path(tempfile.gettempdir()) / f"partyctl-{os.getuid()}"
    _private(root)
    return _private(root / party)


def state_directory(party: str) -> Path:
    """The directory of what must survive a reboot (journals, logs), made if missing, 0700 and ours."""
    base = _xdg("XDG_STATE_HOME") or _home() / ".local" / "state"
    return _private(base / "partyctl" / party)


def config_directory() -> Path:
    """Where a user keeps a `party.toml` for every directory. Not made."""
    return (_xdg("XDG_CONFIG_HOME") or _home() / ".config") / "partyctl"


def _xdg(variable: str) -> Path | None:
    # A relative one is to be ignored, says their specification: it would be another place in each directory.
    named = os.environ.get(variable, "")
    return Path(named) if os.path.isabs(named) else None


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        # A service or a container may run under a uid that has neither HOME nor an entry in the user database.
        return Path("/")


def socket_path(directory: Path, name: str) -> Path:
    """`directory/name`, checked against what the kernel takes as a socket's path.

    Raises:
        PathError: the path is longer than 107 bytes, or is no UTF-8, which endpoints are written in.
    """
    path = directory / name
    length = len(os.fsencode(path))
    shorter = f"Set {RUNTIME_VARIABLE} to a directory with a shorter path, for example /tmp/party"
    if os.fsencode(path) != str(path).encode("utf-8", "replace"):
        raise PathError(
            "the socket path is no UTF-8", where=repr(os.fsencode(path)), fix=shorter.replace("shorter", "plain")
        )
    if length > SOCKET_PATH_MAX:
        raise PathError(
            f"the socket path is {length} bytes long, the kernel takes {SOCKET_PATH_MAX}",
            where=str(path),
            fix=shorter,
        )
    return path


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read it. Anything else is not waited for: a FIFO would be, without end.

    Raises:
        OSError: it cannot be opened, or is of another kind, which `strerror` says.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"It is {_KINDS.get(kind, 'a special file')}, not a regular file", str(path))
    return open(descriptor, "rb")


_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def _private(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise PathError(
            "a private directory cannot be made",
            where=str(path),
            why=error.strerror or str(error),
            fix=f"Make it yourself, or set {RUNTIME_VARIABLE} or the XDG variables to a writable place",
        ) from error
    if stat.S_ISLNK(status.st_mode) or not stat.S_ISDIR(status.st_mode):
        raise PathError("a private directory is not a real directory", where=str(path), fix="Remove it and try again")
    if status.st_uid != os.getuid():
        raise PathError(
            "a private directory belongs to another user",
            where=str(path),
            why=f"uid {status.st_uid}",
            fix=f"Set {RUNTIME_VARIABLE} to a directory of your own",
        )
    if status.st_mode & 0o022:
        # What is in it may be anybody's, and it may be a place for everybody, such as /tmp.
        raise PathError(
            "a private directory can be written by others",
            where=str(path),
            why=f"its mode is {stat.S_IMODE(status.st_mode):04o}",
            fix=f"Name a directory of your own, or look what is in this one and close it with: chmod 700 {path}",
        )
    if status.st_mode & 0o077:
        try:
            path.chmod(0o700)
        except OSError as error:
            raise PathError(
                "a private directory cannot be closed to others",
                where=str(path),
                why=error.strerror or str(error),
                fix=f"Do it yourself, with chmod 700, or set {RUNTIME_VARIABLE} or the XDG variables to another place",
            ) from error
    return path
