"""Ending what a verb does when a signal asks for it: once politely, then by force, so that it always ends.

The first Ctrl-C or SIGTERM cancels the work. A second one ends the process at once; so does a loop that is held for
`HELD_LIMIT` seconds by somebody's code, and work that is not over after `LIMIT` seconds. Who held it is said.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator, Sequence
from types import FrameType

from partyctl.cli.output import say
from partyctl_base.looping import run_loop

HELD_LIMIT = 5.0
"""Seconds a loop that was asked to stop may be held before the process ends."""

LIMIT = 30.0
"""Seconds all that was asked to stop may take; the sum of what a run grants its roles and workers is less."""

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def until_signalled(work: Coroutine[object, object, int]) -> int:
    """Run to the end, or until a signal ends it; the exit code."""
    stopper = _Stopper()
    with stopper.listening():
        return run_loop(stopper.watched(work))


class _Stopper:
    def __init__(self) -> None:
        self._asked: signal.Signals | None = None
        self._over = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[int] | None = None

    async def watched(self, work: Coroutine[object, object, int]) -> int:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(work)
        if self._asked is not None:
            self._task.cancel()
        try:
            return await self._task
        except asyncio.CancelledError:
            if self._asked is None:
                raise
            say(_WORDS[self._asked])
            return 128 + self._asked

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals, not by the loop: one that is held would not hear of them.

        One that whoever started this process has it ignore, as a shell does for jobs in the background, stays ignored.
        """
        wanted = [number for number in _WORDS if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._signalled) for number in wanted}
        try:
            yield
        finally:
            self._over.set()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self._asked is not None:
            self._force(signal.Signals(number), frame)
        self._asked = signal.Signals(number)
        threading.Thread(target=self._watch, name="partyctl stopping", daemon=True).start()
        if self._loop is not None and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _watch(self) -> None:
        """End the process if the loop is held, or nothing comes to its end."""
        assert self._asked is not None
        for _ in range(int(LIMIT / HELD_LIMIT)):
            beat = threading.Event()
            # A RuntimeError says that the loop is closed.
            with contextlib.suppress(RuntimeError):
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(beat.set)
            if self._over.wait(HELD_LIMIT):
                return
            if not beat.is_set():
                break
        self._force(self._asked, sys._current_frames().get(threading.main_thread().ident or 0))

    def _force(self, number: signal.Signals, frame: FrameType | None) -> None:
        from partyctl.masking import masked

        who = _holder(frame)
        line = f"partyctl: {_WORDS[number]}, by force{f': held by {who}' if who else ''}\n"
        # Not by the stream, in the middle of whose writing a signal may come.
        with contextlib.suppress(OSError):
            os.write(2, masked(line).encode(errors="replace"))
        os._exit(128 + number)


def _holder(frame: FrameType | None) -> str:
    """Whose code a thread is in, and at which line of it; "" if it is in nobody's."""
    from partyctl_actors.runs.reports import own_line

    frames: list[tuple[FrameType, int]] = []
    while frame is not None:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return ", at ".join(filter(None, (_role([frame for frame, _ in frames]), own_line(frames))))


def _role(frames: Sequence[FrameType]) -> str:
    """The role, or the tracer, for which the innermost code runs."""
    from partyctl_actors.runs import RoleActor
    from partyctl_actors.runs.contained import guarded
    from partyctl_actors.runs.local import LocalRun

    for frame in frames:
        actor = frame.f_locals.get("self")
        if isinstance(actor, RoleActor):
            return str(actor.role)
        if isinstance(actor, LocalRun):
            return "the tracer"
        if frame.f_code is guarded.__code__:
            return str(frame.f_locals["role"])
    return ""
