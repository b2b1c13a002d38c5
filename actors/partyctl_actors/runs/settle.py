"""Waiting for work of others to end, but not for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Any

_log = logging.getLogger("partyctl.runs")


async def settle(tasks: Collection[asyncio.Future[Any]], seconds: float, who: str, *, grace: float = 1.0) -> None:
    """Wait at most `seconds` for `tasks` to end, then cancel them and wait `grace` seconds more, then let go of them.

    What they raise is logged and not raised: they are on their way out.
    """
    if not tasks:
        return
    _, left = await asyncio.wait(tasks, timeout=seconds)
    for task in left:
        task.cancel()
    if left:
        _, left = await asyncio.wait(left, timeout=grace)
    for task in tasks:
        if task in left:
            _log.warning("%s did not stop within %g s and is left behind", who, seconds + grace)
        elif not task.cancelled() and task.exception() is not None:
            _log.warning("%s failed while it stopped", who, exc_info=task.exception())


async def settled(coroutine: Coroutine[Any, Any, None], seconds: float, who: str, *, grace: float = 1.0) -> None:
    """`settle` for one coroutine."""
    await settle([asyncio.ensure_future(coroutine)], seconds, who, grace=grace)
