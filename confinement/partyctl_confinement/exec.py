"""`python -P -m partyctl_confinement.exec MAIN TITLE [STARTED_FD]`: a worker in a fresh interpreter.

For mains that must not share the launcher's memory. The launcher's child made the place before it executed this; here
is what an exec undoes: the environment that only the interpreter needed, the title, what Python ignores.
"""

import os
import sys
from typing import NoReturn

from partyctl_base import process
from partyctl_confinement import place
from partyctl_confinement.environment import WORKER_ALLOW, scrubbed
from partyctl_confinement.mains import call, leave
from partyctl_confinement.title import TitleArea, forget_first_environment


def main(arguments: list[str]) -> NoReturn:
    """Become the worker. Ends with the status its main returns."""
    name, title, *started = arguments
    area = TitleArea.of_this_process()
    place.reset_signals(program=False)
    # A prefix may stand between the launcher's child and this process: then these are not inherited.
    process.set_child_subreaper()
    process.set_no_new_privileges()
    os.umask(0o077)
    os.set_inheritable(place.CHANNEL_FD, False)
    own = scrubbed(os.environ, WORKER_ALLOW)
    os.environ.clear()
    os.environ.update(own)
    forget_first_environment()
    place.line_buffered()
    area.write(title)
    first, beginning = place.CHANNEL_FD + 1, _nothing
    if started:
        fd = int(started[0])
        os.set_inheritable(fd, False)
        first, beginning = fd + 1, lambda: place.announce(fd)
    place.close_others(first)
    leave(call(name, beginning))


def _nothing() -> None:
    """Nobody waits for the beginning of this one."""


if __name__ == "__main__":
    main(sys.argv[1:])
