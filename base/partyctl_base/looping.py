"""`asyncio.run` for a loop that runs code of others: it ends whatever that code does.

asyncio.run waits without limit for tasks that ignore being cancelled and for threads of the loop's pool, and ends with
the first task that raises SystemExit, whosever task it is.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import logging
import signal
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

UNWIND_LIMIT: Final = 3.0
"""Seconds that tasks get to end once they are cancelled, and then threads of the loop's pool."""

has_left_threads = False
"""Whether a thread of a pool was left behind, which the end of the interpreter would wait for."""

_log = logging.getLogger("partyctl.loop")

# A task that is collected while it waits would be reported as an accident of the loop.
_left_behind: set[asyncio.Task[Any]] = set()


def run_loop(main: Coroutine[Any, Any, T], *, limit: float = UNWIND_LIMIT) -> T:
    """Like `asyncio.run`, with an end.

    Args:
        main: what is run; its result or error is that of the call. A SystemExit of another task is logged.
        limit: seconds for the tasks that are left to end, and again for the threads.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; `main` was cancelled first.
    """
    runner = asyncio.Runner()
    pool = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="asyncio")
    loop = runner.get_loop()
    loop.set_default_executor(pool)
    waiting: set[asyncio.Task[Any] | None] = set()
    task = loop.create_task(main)
    try:
        _through(runner, task, waiting)
        return task.result()
    finally:
        # A task that left the loop by its error is asked for it here, or it would count as never heard.
        _ = task.done() and not task.cancelled() and task.exception()
        try:
            _through(runner, loop.create_task(_unwound(waiting, limit)), waiting)
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            _end(pool, limit)


def may_be_pressed() -> bool:
    """Whether a KeyboardInterrupt here may be a person's: in the main thread alone, by Python's handler of SIGINT."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        return False
    # asyncio's own is a partial of a method of its runner.
    return handler is signal.default_int_handler or isinstance(handler, functools.partial)


def _through(runner: asyncio.Runner, task: asyncio.Task[Any], waiting: set[asyncio.Task[Any] | None]) -> None:
    """Wait for the end of `task`. The loop is entered again as often as another task leaves it.

    `waiting` holds the tasks that only wait for it.
    """
    while True:
        try:
            return runner.run(_over(task, waiting))
        except (SystemExit, KeyboardInterrupt) as error:
            if task.done() or (isinstance(error, KeyboardInterrupt) and may_be_pressed()):
                raise
            _log.warning("A task raised %r, which would end the whole process; it alone ends", error)


async def _over(task: asyncio.Task[Any], waiting: set[asyncio.Task[Any] | None]) -> None:
    """Wait for the end of `task`, and raise none of its errors; cancelled, cancel it first."""
    waiting.add(asyncio.current_task())
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
    if task.cancelled():
        raise asyncio.CancelledError


async def _unwound(waiting: set[asyncio.Task[Any] | None], limit: float) -> None:
    """Cancel what is left, wait for it, and let go of what does not end."""
    await asyncio.sleep(0)  # who waits for this one has said so then
    dying = asyncio.all_tasks() - waiting - {asyncio.current_task()}
    for task in dying:
        task.cancel()
    left = (await asyncio.wait(dying, timeout=limit))[1] if dying else set()
    for task in dying:
        if task in left:
            _log.warning("%s did not stop within %g s and is left behind", task.get_name(), limit)
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        elif not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("%s failed while it stopped", task.get_name(), exc_info=error)
    _left_behind.update(left)
    await asyncio.wait([asyncio.ensure_future(asyncio.get_running_loop().shutdown_asyncgens())], timeout=limit)


def _end(pool: concurrent.futures.ThreadPoolExecutor, limit: float) -> None:
    global has_left_threads
    ending = threading.Thread(target=pool.shutdown, name="partyctl pool", daemon=True)
    ending.start()
    ending.join(limit)
    if ending.is_alive():
        has_left_threads = True
        _log.warning("A thread of the loop's pool did not end within %g s and is left behind", limit)
