"""Running a coroutine so that whatever it leaves unheard is seen: tasks, and exceptions that nobody retrieved."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

from fakes.runs import JumpingLoop

T = TypeVar("T")


def quietly(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on a loop whose clock jumps; fails if it leaves a task, or an exception that nobody heard."""
    unheard: list[dict[str, Any]] = []

    async def alone() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        result = await work
        # What was woken last gets its turn.
        for _ in range(5):
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        result = runner.run(alone())
        gc.collect()
    assert not unheard, unheard
    return result
