"""The caller's side of a host's control socket, and the lock that says whether there is a host.

The lock is the truth, the socket only a door: a file left by a crash means nothing, a held lock without an answering
socket means a host that is starting, busy or stopped, and the caller is told which. Messages are msgpack maps over a
SOCK_SEQPACKET socket; the first in each direction is a hello that carries the version of this protocol and the release
of partyctl. Both must be the same at both ends, for what a request means and what its answer holds may change with a
release. The hello, and `down` with its arguments, are the same in all, so that a party can always be stopped.
"""

import contextlib
import errno
import fcntl
import functools
import json
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from partyctl.errors import Condition, HostError, NotAnswering, NotRunning, Owner, Unknown, VersionSkew
from partyctl.maps import Map, pack, unpack
from partyctl_base.channel import Channel, ChannelClosed, ChannelFault, Received
from partyctl_base.paths import PathError, runtime_directory, socket_path
from partyctl_base.process import is_alive

LOCK_NAME: Final = "lock"
CONTROL_NAME: Final = "control.sock"
CONTROL_VERSION: Final = 1

_STEP = 0.02
"""Seconds between two looks at something that has no descriptor to wait on."""


@functools.cache
def release() -> str:
    """The release of partyctl that this process runs."""
    from importlib.metadata import version

    return version("partyctl")


class Reply(dict[str, object]):
    """One message from the host; `fds` are the descriptors that came with it, the receiver's to close."""

    fds: tuple[int, ...] = ()


class Control:
    """An open conversation with the host of a party. Use `connect`; close it, or use it as a context manager.

    Attributes:
        party: the party's name.
        pid: the host's process id, as its hello gave it.
        version: of the control protocol, likewise.
        release: of partyctl, likewise; "" if it was not told.
        config: the fingerprint of the party's configuration, likewise.
    """

    def __init__(self, party: str, channel: Channel) -> None:
        self.party = party
        self.pid: int | None = None
        self.version: object = None
        self.release = ""
        self.config = ""
        self._channel = channel

    def greet(self, timeout: float) -> None:
        """Exchange hellos within `timeout` seconds.

        Raises:
            NotAnswering: none came.
            HostError: what came is no hello.
        """
        hello = self.request({"t": "hello", "version": CONTROL_VERSION}, timeout)
        if hello.get("t") != "hello":
            raise HostError(f'the host of party "{self.party}" sent what is no message of the control protocol')
        pid, release = hello.get("pid"), hello.get("release")
        self.pid = pid if isinstance(pid, int) else None
        self.version = hello.get("version")
        self.release = release if isinstance(release, str) else ""
        self.config = str(hello.get("config", ""))

    def check_version(self) -> None:
        """Refuse a host of another release.

        Raises:
            VersionSkew: the host was started by another release, or speaks another version of the protocol.
        """
        if (self.version, self.release) != (CONTROL_VERSION, release()):
            theirs = f"version {self.version} (partyctl {self.release or 'of an unknown release'})"
            raise VersionSkew(self.party, theirs, f"version {CONTROL_VERSION} (partyctl {release()})")

    def send(self, message: Mapping[str, object], timeout: float) -> None:
        """Send one request without waiting for its reply.

        Raises:
            NotAnswering: the host is gone, or did not take it within `timeout` seconds.
        """
        try:
            self._channel.send(pack(message), timeout=timeout)
        except (ChannelClosed, TimeoutError):
            raise self._silent(timeout) from None

    def request(self, message: Mapping[str, object], timeout: float) -> Reply:
        """Send one request and wait for its first reply, at most `timeout` seconds.

        Raises:
            NotAnswering: the host is gone, hung up, or did not answer in time.
            HostError: the answer is no message of this protocol.
        """
        deadline = time.monotonic() + timeout
        self.send(message, timeout)
        reply = self._receive(max(0.0, deadline - time.monotonic()), timeout)
        if reply is None:
            raise self._silent(timeout)
        return reply

    def replies(self, timeout: float) -> Iterator[Reply]:
        """Further replies until the host closes the conversation, all within `timeout` seconds.

        Raises:
            NotAnswering: the conversation did not end in time.
            HostError: an answer is no message of this protocol.
        """
        deadline = time.monotonic() + timeout
        while (reply := self._receive(max(0.0, deadline - time.monotonic()), timeout)) is not None:
            yield reply

    def fileno(self) -> int:
        """The descriptor, for pollers: readable when a reply or the end has come."""
        return self._channel.fileno()

    def close(self) -> None:
        """End the conversation; idempotent."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _receive(self, left: float, asked: float) -> Reply | None:
        try:
            received = self._channel.receive(timeout=left)
            return None if received is None else _reply(received)
        except TimeoutError:
            raise self._silent(asked) from None
        except (ChannelFault, ValueError) as error:
            raise HostError(
                f'the host of party "{self.party}" sent what is no message of the control protocol', why=str(error)
            ) from None

    def _silent(self, seconds: float) -> NotAnswering:
        # Never NotRunning, even if the host has just ended: what was asked of it may have been done, and a caller
        # that takes "there was no host" for leave to do the work itself would do it twice.
        pid = self.pid or read_owner_pid(self.party)
        return NotAnswering(self.party, pid, condition(pid), seconds)


def connect(party: str, timeout: float = 2.0, *, any_version: bool = False) -> Control:
    """Open a conversation with the host of `party`, waiting at most `timeout` seconds for one that is starting.

    Args:
        party: the party's name.
        timeout: seconds.
        any_version: for a caller that asks only for what every version knows, which is `down`.

    Raises:
        NotRunning: nobody holds the party's lock.
        NotAnswering: somebody does, and did not open the socket or say hello in time.
        VersionSkew: the host was started by another release.
        Unknown: the lock cannot be looked at.
        PathError: the runtime directory cannot be used.
    """
    directory = runtime_directory(party)
    try:
        path = socket_path(directory, CONTROL_NAME)
    except PathError:
        raise NotRunning(party) from None  # no host can listen there, so there is none; `up` says what to do
    deadline = time.monotonic() + timeout
    while True:
        silence: NotAnswering | None = None
        sock = _open(path, max(_STEP, deadline - time.monotonic()))
        if sock is not None:
            try:
                return _greeted(party, sock, max(_STEP, deadline - time.monotonic()), any_version)
            except NotAnswering as error:
                silence = error
        holder = owner(party)
        if holder is None:
            raise NotRunning(party)
        if time.monotonic() >= deadline:
            state = condition(holder.pid)
            door_closed = silence is None and state == "busy"
            raise NotAnswering(party, holder.pid, "starting" if door_closed else state, timeout)
        time.sleep(_STEP)


def _greeted(party: str, sock: socket.socket, timeout: float, any_version: bool) -> Control:
    control = Control(party, Channel(sock))
    try:
        control.greet(timeout)
        if not any_version:
            control.check_version()
    except BaseException:
        control.close()
        raise
    return control


def owner(party: str) -> Owner | None:
    """Who runs `party`: the text in its lock file, if a living process named there still holds the lock.

    The lock is probed only when the file names a living process. A probe holds it for an instant, in which a starting
    host would be refused; so a stale or empty file, as starters find it, is not probed.

    Raises:
        Unknown: the lock file is there and cannot be read.
        PathError: the runtime directory cannot be used.
    """
    path = runtime_directory(party) / LOCK_NAME
    try:
        found = read_owner(path)
    except OSError as error:
        raise Unknown(party, path, error.strerror or str(error)) from None
    return found if found is not None and is_alive(found.pid) and is_held(path) else None


def lost_owner(party: str) -> Owner | None:
    """The host that was the last one and did not take its name out of the lock file, as each does that ends in order.

    None if there is none, one runs, or it cannot be told. Raises PathError as `owner` does.
    """
    path = runtime_directory(party) / LOCK_NAME
    try:
        found = read_owner(path)
    except OSError:
        return None
    return None if found is None or is_held(path) else found


def await_owner(party: str, timeout: float = 1.0) -> Owner | None:
    """Like `owner`, for one that was just refused the lock: its holder may not have written its name yet."""
    deadline = time.monotonic() + timeout
    while (found := owner(party)) is None and time.monotonic() < deadline:
        time.sleep(_STEP)
    return found


def await_free(party: str, pid: int | None, timeout: float) -> bool:
    """Wait until the host `pid` has ended and the party's lock is free; False after `timeout` seconds."""
    path = runtime_directory(party) / LOCK_NAME
    deadline = time.monotonic() + timeout
    while (pid is not None and is_alive(pid)) or is_held(path):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_STEP)
    return True


def is_held(path: Path) -> bool:
    """Whether another open file holds the lock on `path`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def condition(pid: int | None) -> Condition:
    """What the kernel says of a host that does not answer."""
    if pid is None or not is_alive(pid):
        return "gone"
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "gone"
    # The state follows the command name, which may hold brackets itself.
    return "stopped" if stat[stat.rindex(")") + 2] in "Tt" else "busy"


def read_owner_pid(party: str) -> int | None:
    """The process named in the lock file, whether it holds the lock or not."""
    try:
        found = read_owner(runtime_directory(party) / LOCK_NAME)
    except OSError:
        return None
    return found.pid if found else None


def read_owner(path: Path) -> Owner | None:
    """The text of a lock file; None if there is no file, or its text is torn. Raises OSError if it cannot be read."""
    try:
        with path.open("rb") as stream:
            told = json.loads(stream.read(4096))
        return Owner(int(told["pid"]), str(told["party"]), str(told["started"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _open(path: Path, timeout: float) -> socket.socket | None:
    """A connected socket; None if nobody listens there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # connect(2) waits for a full backlog for as long as the send timeout allows; a non-blocking one would not.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", *_timeval(timeout)))
    try:
        sock.connect(str(path))
    except OSError as error:
        sock.close()
        if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN, errno.EPROTOTYPE):
            return None
        raise HostError("the control socket cannot be opened", where=str(path), why=error.strerror or "") from None
    return sock


def _timeval(seconds: float) -> tuple[int, int]:
    microseconds = max(1, int(seconds * 1_000_000))
    return microseconds // 1_000_000, microseconds % 1_000_000


def _reply(received: Received) -> Reply:
    try:
        message: Map = unpack(received.data)
    except ValueError:
        for fd in received.fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        raise
    reply = Reply(message)
    reply.fds = received.fds
    return reply
