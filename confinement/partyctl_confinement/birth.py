"""Makes one worker: its pair, its pipe, its fork. It waits at its channel until its record is written."""

import contextlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from partyctl_base.channel import Channel
from partyctl_confinement import child
from partyctl_confinement.requests import Spawn
from partyctl_confinement.title import TitleArea


@dataclass(frozen=True, slots=True)
class Parents:
    """What every worker gets from its launcher.

    Attributes:
        nofile: the soft limit of open files.
        area: where a forked worker's title goes.
        interpreter: what a fresh interpreter of ours needs in its environment beside the worker's own.
    """

    nofile: int
    area: TitleArea
    interpreter: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Born:
    """A worker that was forked and waits. The descriptors are the caller's.

    Attributes:
        output: the reading end of its standard output and error.
        end: the client's end of its pair; closed before `begin`, the worker ends.
    """

    pid: int
    output: int
    end: int

    def begin(self) -> None:
        """Let it come to its main. Raises OSError if it is dead already."""
        os.write(self.end, b"x")


def fork(request: Spawn, parents: Parents, started: int) -> Born:
    """Fork a worker.

    Args:
        request: what it is to be.
        parents: what it gets from the launcher.
        started: the descriptor on which it says that it comes to its main.

    Raises:
        OSError: the machine has no room for it; nothing is left of it.
    """
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        near, far = Channel.pair()
        ours.callback(near.close)
        theirs.callback(far.close)
        reading, writing = os.pipe2(os.O_CLOEXEC)
        ours.callback(os.close, reading)
        theirs.callback(os.close, writing)
        os.set_blocking(reading, False)
        plan = child.ChildPlan(
            request=request,
            launcher=os.getpid(),
            channel=far.fileno(),
            output=writing,
            started=started,
            nofile=parents.nofile,
            area=parents.area,
            interpreter=parents.interpreter,
        )
        _flush_output()
        pid = os.fork()
        if pid == 0:
            child.run(plan)
        ours.pop_all()
        return Born(pid, reading, near.detach())


def _flush_output() -> None:
    """What the launcher printed is its own: a worker must not print it again."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the host's terminal may be gone
            stream.flush()
