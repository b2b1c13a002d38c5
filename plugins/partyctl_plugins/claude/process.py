"""One running CLI: started, written to, read from, closed."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence

from partyctl_base.clock import Clock
from partyctl_confinement.reaper import kill_tree
from partyctl_plugins.claude.frames import Frame
from partyctl_plugins.claude.inbox import Item
from partyctl_plugins.claude.pump import Pump


class CliProcess:
    """A CLI process in a session of its own. Its methods may be called from any thread.

    Args:
        argv, env, cwd: how it is started.
        clock: where time comes from.
        answer: the answer to a frame of the CLI, None for none; called on the pump's thread.
        max_line: ceiling of one line of its output, in bytes.
        write_timeout: seconds it may leave its input unread.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        *,
        clock: Clock,
        answer: Callable[[Frame], bytes | None],
        max_line: int,
        write_timeout: float,
    ) -> None:
        self.argv = tuple(argv)
        pipe = subprocess.PIPE
        self._popen = subprocess.Popen(
            self.argv, env=dict(env), cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        try:
            self._pump = Pump(self._popen, clock=clock, answer=answer, max_line=max_line, write_timeout=write_timeout)
            self._pump.start()
        except BaseException:
            self._popen.kill()
            self._popen.communicate()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def usable(self) -> bool:
        """Whether it lives and can be talked to."""
        # Asked of the kernel: the pump may not have come to see a death yet.
        return self._popen.poll() is None and not self._pump.ended.is_set() and not self._pump.broken

    @property
    def stderr(self) -> str:
        """The last of what it complained."""
        return self._pump.stderr

    def write(self, data: bytes) -> None:
        """Queue bytes for its input; returns at once."""
        self._pump.write(data)

    def attend(self, reading: bool) -> None:
        """Whether somebody reads; see `Inbox.attend`."""
        self._pump.inbox.attend(reading)
        self._pump.look()

    def nudge(self) -> None:
        """Have `read` return, to look at what has changed."""
        self._pump.inbox.nudge()

    def read(self, deadline: float | None) -> Item | None:
        """The next item; None at `deadline` (by the clock; None: no limit) or after a `nudge`."""
        was_full = self._pump.inbox.full
        item = self._pump.inbox.get(deadline)
        if was_full and not self._pump.inbox.full:
            self._pump.look()
        return item

    def close(self, grace: float) -> bool:
        """End of input, then terminate, then kill, each with `grace` seconds to end. May come twice.

        Returns:
            Whether it ended.
        """
        self._pump.close_input()
        return self._pump.ended.wait(grace) or self.terminate(grace)

    def terminate(self, grace: float) -> bool:
        """The same without waiting for the end of input to be heeded."""
        self._pump.close_input()
        self._popen.terminate()
        return self._pump.ended.wait(grace) or self.kill(grace)

    def kill(self, grace: float) -> bool:
        """Kill it with everything it started; its tools run in sessions of their own, which a group would miss."""
        if not self._pump.ended.is_set():
            kill_tree(self.pid, parent=os.getpid())
        return self._pump.ended.wait(grace)
