"""Whether whoever stands in the way of a claim is alive. The kernel may know of the end of a connection before ZeroMQ
does; ZeroMQ is given a moment to notice then.
"""

import time
from collections.abc import Callable
from typing import Final

NOTICE: Final = 0.1
"""Seconds that ZeroMQ is given. On a busy machine its thread waits its turn: 20 ms were not always enough (seen)."""
LOOK_EVERY: Final = 0.0002
"""Seconds between two looks."""


def is_living(
    is_reachable: Callable[[], bool],
    has_hung_up: Callable[[], bool],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Look, for NOTICE at most.

    Args:
        is_reachable: whether ZeroMQ has the connection.
        has_hung_up: whether the kernel says that its peer has closed it.
        clock: seconds.
        sleep: waits for seconds.
    """
    deadline = clock() + NOTICE
    while is_reachable():
        if not has_hung_up() or clock() > deadline:
            return True
        sleep(LOOK_EVERY)
    return False
