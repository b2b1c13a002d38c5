"""What a forked worker does before its main, and how it ends. Nothing here returns to the launcher's stack."""

import contextlib
import gc
import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from partyctl_confinement import limits, place
from partyctl_confinement.mains import call, leave, report
from partyctl_confinement.requests import EXEC, Spawn
from partyctl_confinement.title import TitleArea

BROKEN_START: Final = 71
"""The exit status of a worker that could not be put into its place (EX_OSERR)."""

_INTERPRETER: Final = ("-P", "-m", "partyctl_confinement.exec")


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """All a forked worker needs to know.

    Attributes:
        request: what it is to be.
        launcher: the pid of the launcher.
        channel: the descriptor of the worker's end of the pair.
        output: the descriptor that its standard output and error go to.
        started: the descriptor on which it says that it does.
        nofile: the soft limit of open files that the launcher itself was started with.
        area: where the title goes.
        interpreter: what a fresh interpreter of ours needs in its environment beside the worker's own.
    """

    request: Spawn
    launcher: int
    channel: int
    output: int
    started: int
    nofile: int
    area: TitleArea
    interpreter: Mapping[str, str] = field(default_factory=dict)


def title(name: str) -> str:
    """What `ps` shows of a worker."""
    return f"partyctl: {name}"


def run(plan: ChildPlan) -> NoReturn:
    """Become the worker. Ends with the status its main returns."""
    status = BROKEN_START
    try:
        _take_place(plan)
        if plan.request.mode == EXEC:
            _execute(plan)
        status = call(plan.request.main, lambda: place.announce(place.STARTED_FD))
    except ProcessLookupError:
        pass  # the launcher died meanwhile, or took it back: nobody is left to work for
    except BaseException:
        report()
    finally:
        leave(status)


def _take_place(plan: ChildPlan) -> None:
    # The launcher's objects are this process's too; a collector that finalised them here would close descriptors
    # that have other meanings by now.
    gc.freeze()
    request = plan.request
    place.reset_signals(program=bool(request.argv))
    # A foreign program does not expect children it never had: its orphans become the launcher's.
    place.take(launcher=plan.launcher, subreaper=not request.argv)
    place.place_descriptors(plan.channel, plan.output, plan.started)
    if not request.argv and request.mode != EXEC:
        plan.area.write(title(request.name))
    place.await_record()
    place.close_others(place.STARTED_FD + 1)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (plan.nofile, hard))
    limits.apply(limits.effective(request.limits).items())


def _execute(plan: ChildPlan) -> NoReturn:
    """Become another program. What the place is made of survives it, and no memory of the launcher does."""
    request = plan.request
    os.set_inheritable(place.CHANNEL_FD, True)
    if request.argv:
        place.announce(place.STARTED_FD)
        argv, environment = request.argv, dict(os.environ)
    else:
        os.set_inheritable(place.STARTED_FD, True)
        told = (request.main, title(request.name), str(place.STARTED_FD))
        argv, environment = (sys.executable, *_INTERPRETER, *told), {**os.environ, **plan.interpreter}
    try:
        os.execve(argv[0], argv, environment)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(2, f"partyctl: {argv[0]} cannot be executed: {error.strerror}\n".encode())
        os._exit(BROKEN_START)
