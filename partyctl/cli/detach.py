"""Starts a host in the background and follows it until it is ready, or explains why it is not.

The starter and the host share a pipe: one byte "1" says ready, "!" and a text say why the host ends. The pipe, not
the log, carries that text, because several starters may share one log. Either the party is ready in time or nothing
of it is left: a host that fails, is late, or whose starter is interrupted, is ended.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

from partyctl.config import PartyConfig
from partyctl.control import condition, connect, owner
from partyctl.errors import AlreadyRunning, HostError, Owner, StartFailed, exit_code
from partyctl.hostlog import log_path, open_log
from partyctl_base.errors import PartyError

LOCK_LIMIT: Final = 15.0
"""Seconds a detached host gets to take the lock when nobody waits for more."""

END_LIMIT: Final = 10.0
"""Seconds a host gets to stop after SIGTERM, before SIGKILL; its children then end by themselves."""

_TAIL = 2000
_READY = b"1"
_FAILED = b"!"


class Detached:
    """A host process in a session of its own.

    Attributes:
        pid: its process id.
        log: where its output goes.
    """

    def __init__(self, config: PartyConfig) -> None:
        self._party = config.name
        self.log = log_path(config.name)
        self._report, theirs = os.pipe()
        try:
            with os.fdopen(open_log(self.log), "ab") as output:
                self._log_start = output.seek(0, os.SEEK_END)
                # A new session: the terminal's Ctrl-C and its closing do not reach the host. -P: a file called
                # click.py in the current directory is not our library.
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "partyctl", *_arguments(config), "--report-fd", str(theirs)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(theirs,),
                    start_new_session=True,
                )
        finally:
            os.close(theirs)
        self.pid = self._process.pid

    def await_lock(self, limit: float = LOCK_LIMIT) -> None:
        """Wait until the host holds the party's lock.

        Raises:
            AlreadyRunning: another one was faster.
            StartFailed: it ended first, or did neither in time and was ended.
        """
        deadline = time.monotonic() + limit
        with self._ended_on_error():
            while (holder := owner(self._party)) is None or holder.pid != self.pid:
                if self._wait_report(0.02):
                    self._explain()
                if time.monotonic() >= deadline:
                    raise self._late("did not take the party's lock", limit)
        self._let_go()

    def await_ready(self, limit: float) -> None:
        """Wait until the host says that everything is ready. Raises as `await_lock`."""
        with self._ended_on_error():
            if not self._wait_report(limit):
                raise self._late("was not ready", limit)
            self._explain()
        self._let_go()

    def _wait_report(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._report, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _explain(self) -> None:
        """Return if the host says ready; otherwise raise what it says, or what its end tells."""
        told = os.read(self._report, select.PIPE_BUF)
        if told.startswith(_READY):
            return
        try:
            code = self._process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            raise self._late("failed and did not end", END_LIMIT) from None
        if not told.startswith(_FAILED):
            why = f"killed by signal {-code}" if code < 0 else f"exited with status {code}"
            raise StartFailed(
                "the host ended before it was ready", code if code > 0 else 1, why=why + self._last_line(),
                fix=f"See {self.log}",
            )  # fmt: skip
        self._raise_told(told[1:], code)

    def _late(self, what: str, limit: float) -> StartFailed:
        state = condition(self.pid)
        fix = f"It was ended. See {self.log}, or give it more time with --wait-timeout"
        return StartFailed(f"the host {what} within {limit:g} s", 4, why=f"it is {state}", fix=fix)

    def _raise_told(self, text: bytes, code: int) -> None:
        try:
            told = json.loads(text)
            error, pid = str(told["error"]), told["owner"]
        except (ValueError, KeyError, TypeError):
            error, pid = text.decode("utf-8", "replace"), None
        if code == 5:
            raise AlreadyRunning(self._party, Owner(pid, self._party, "") if isinstance(pid, int) else None)
        raise StartFailed(error, code if code > 0 else 1)

    def _last_line(self) -> str:
        """The last line the host wrote, when all it left is its log."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(self._log_start, log.seek(0, os.SEEK_END) - _TAIL))
            lines = log.read(_TAIL).decode("utf-8", "replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            return f', last line "{last}"' if last else ""
        return ""

    @contextlib.contextmanager
    def _ended_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._end()
            os.close(self._report)
            raise

    def _end(self) -> None:
        if self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _let_go(self) -> None:
        os.close(self._report)
        # The host outlives this command; without a return code Popen would complain about that when collected.
        self._process.returncode = 0


@contextlib.contextmanager
def reporting(fd: int | None) -> Iterator[None]:
    """In the detached host: tell the starter at the other end of the pipe `fd` why the host ends, if it fails.

    It is told of all that can go wrong, from the reading of the configuration on. None: there is no starter.
    """
    if fd is None:
        yield
        return
    # The host's children must not keep the starter waiting for the end of its pipe, and a starter that has left must
    # not fail the host: as long as we can read the pipe ourselves, no write to it fails for want of a reader.
    os.set_inheritable(fd, False)
    held = (os.dup(fd), os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    try:
        yield
    except PartyError as error:
        holder = error.pid if isinstance(error, AlreadyRunning) else None
        text = json.dumps({"error": str(error), "code": exit_code(error), "owner": holder})
        os.write(held[0], _FAILED + text.encode()[: select.PIPE_BUF - 1])
        raise
    finally:
        for descriptor in held:
            os.close(descriptor)


def follow(party: str, limit: float) -> None:
    """Wait until a host that already runs is ready.

    Raises:
        NotRunning, NotAnswering: it is not there, or not ready within `limit` seconds.
        HostError: it says that its start failed.
    """
    deadline = time.monotonic() + limit
    with connect(party, limit) as control:
        reply = control.request({"t": "wait"}, max(0.0, deadline - time.monotonic()))
    if reply.get("t") != "ready":
        why, fix = str(reply.get("error", reply.get("t"))), f"See {log_path(party)}, then run partyctl up again"
        raise HostError(f'party "{party}" did not become ready', why=why, fix=fix)


def _arguments(config: PartyConfig) -> list[str]:
    arguments = ["up", "--party", config.name]
    if config.source is not None:
        arguments += ["--file", str(config.source)]
    if config.nodes is not None:
        arguments += ["--nodes", str(config.nodes)]
    return arguments
