"""What a forked worker does before its main, and how it ends. Nothing here returns to the launcher's stack."""

import contextlib
import gc
import importlib
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from partyctl_base import process
from partyctl_base.channel import Channel
from partyctl_confinement.title import TitleArea

CHANNEL_FD: Final = 3
"""Where a worker finds its end of the pair; everything above is closed."""

BROKEN_MAIN: Final = 70
"""The exit status of a worker whose main cannot be imported or raised (EX_SOFTWARE of sysexits.h)."""

BROKEN_START: Final = 71
"""The exit status of a worker that could not be put into its place (EX_OSERR)."""

_RESET: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """All a forked worker needs to know.

    Attributes:
        main: "module:function"; the function takes the worker's `Channel` and returns its exit status.
        title: what `ps` shows.
        launcher: the pid of the launcher.
        channel: the descriptor of the worker's end of the pair.
        output: the descriptor that its standard output and error go to.
        nofile: the soft limit of open files that the launcher itself was started with.
        area: where the title goes.
    """

    main: str
    title: str
    launcher: int
    channel: int
    output: int
    nofile: int
    area: TitleArea


def run(plan: ChildPlan) -> NoReturn:
    """Become the worker. Ends with the status its main returns."""
    status = BROKEN_START
    try:
        _take_place(plan)
        status = _call(plan.main)
    except ProcessLookupError:
        pass  # the launcher died meanwhile: nobody is left to work for
    except BaseException:
        _report()
    finally:
        _leave(status)


def _take_place(plan: ChildPlan) -> None:
    # The launcher's objects are this process's too; a collector that finalised them here would close descriptors
    # that have other meanings by now.
    gc.freeze()
    signal.set_wakeup_fd(-1)
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    process.set_parent_death_signal(signal.SIGKILL, plan.launcher)
    process.set_child_subreaper()
    process.set_no_new_privileges()
    os.umask(0o077)
    _place_descriptors(plan)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (plan.nofile, hard))
    plan.area.write(plan.title)


def _place_descriptors(plan: ChildPlan) -> None:
    # First away from the places to fill: a source may itself stand at 0 to 3.
    channel, output = _above(plan.channel), _above(plan.output)
    nothing = _above(os.open(os.devnull, os.O_RDONLY))
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(channel, CHANNEL_FD, inheritable=False)
    os.closerange(CHANNEL_FD + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _above(fd: int) -> int:
    while fd <= CHANNEL_FD:
        fd = os.dup(fd)
    return fd


def _call(main: str) -> int:
    try:
        returned: object = _find(main)(Channel.from_fd(CHANNEL_FD))
    except SystemExit as leaving:
        returned = leaving.code
        if isinstance(returned, str):
            print(returned, file=sys.stderr)
            return 1
    except BaseException:
        _report()
        return BROKEN_MAIN
    if returned is None:
        return 0
    return returned & 0xFF if isinstance(returned, int) else BROKEN_MAIN


def _find(main: str) -> Callable[[Channel], object]:
    module, _, name = main.partition(":")
    found: Callable[[Channel], object] = getattr(importlib.import_module(module), name)
    return found


def _report() -> None:
    with contextlib.suppress(BaseException):
        traceback.print_exc()


def _leave(status: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    os._exit(status)
