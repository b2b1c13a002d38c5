"""Calls a worker's main and makes its end an exit status; the same after a fork and after an exec."""

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import Final, NoReturn

from partyctl_base.channel import Channel
from partyctl_confinement.place import CHANNEL_FD

BROKEN_MAIN: Final = 70
"""The exit status of a worker whose main cannot be imported or raised (EX_SOFTWARE of sysexits.h)."""

OUT_OF_MEMORY: Final = 72
"""The exit status of a worker whose main ended in a MemoryError."""


def call(main: str, beginning: Callable[[], None]) -> int:
    """Import `main`, call it with the worker's channel, and give the exit status.

    Args:
        main: "module:function".
        beginning: called between the two.
    """
    try:
        found = _find(main)
        beginning()
        returned: object = found(Channel.from_fd(CHANNEL_FD))
    except SystemExit as leaving:
        returned = leaving.code
        if isinstance(returned, str):
            print(returned, file=sys.stderr)
            return 1
    except MemoryError:
        report()
        return OUT_OF_MEMORY
    except BaseException:
        report()
        return BROKEN_MAIN
    if returned is None:
        return 0
    return returned & 0xFF if isinstance(returned, int) else BROKEN_MAIN


def report() -> None:
    """Print the traceback of the exception being handled, if that can be done."""
    with contextlib.suppress(BaseException):
        traceback.print_exc()


def leave(status: int) -> NoReturn:
    """End the process; whatever else the interpreter would do at its end is the launcher's, not the worker's."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    os._exit(status)


def _find(main: str) -> Callable[[Channel], object]:
    module, _, name = main.partition(":")
    found: Callable[[Channel], object] = getattr(importlib.import_module(module), name)
    return found
