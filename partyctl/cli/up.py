"""Start a party and keep it running.

The host stays in the foreground. The first Ctrl-C (or SIGTERM) drains: running runs may end, then everything stops.
The second stops at once.

With --detach the host goes on in the background; its messages go to host.log in the party's state directory. With
--wait (which detaches too) the command returns when broker, launcher and all nodes are ready; if they are not within
--wait-timeout seconds, or the start fails, everything is stopped again and the command fails with the host's own
message and exit code.

Exit codes: 0 ended after a drain, or started; 1 the party gave up; 4 not ready in time; 5 the party is already
running; 7 the configuration or a confinement is refused; 130 or 143 stopped by a second signal.
"""

from dataclasses import replace
from pathlib import Path

import click

from partyctl.cli.detach import Detached, follow, reporting
from partyctl.cli.options import Seconds, party_options
from partyctl.cli.output import say
from partyctl.config import PartyConfig, check_enforceable, load
from partyctl.config_schema import NODES_MAX
from partyctl.config_text import runs_as
from partyctl.control import await_owner, connect, owner
from partyctl.errors import AlreadyRunning

_ATTEMPTS = 3
"""A lock that is held by nobody was only being looked at, by `status` for example: ask again."""


@click.command(help=__doc__)
@party_options
@click.option("-d", "--detach", is_flag=True, help="Go on in the background.")
@click.option("--wait", is_flag=True, help="Detach, and return when the party is ready.")
@click.option("--wait-timeout", type=Seconds(), default=60.0, show_default=True, help="Seconds for --wait.")
@click.option("--nodes", type=click.IntRange(1, NODES_MAX), help="Number of node processes; wins over the file.")
@click.option("--ok-if-running", is_flag=True, help="A party that already runs, as file and options ask, is a success.")
@click.option("--report-fd", type=int, hidden=True, help="Where a detached host reports to its starter.")
def command(
    file: Path | None,
    party: str | None,
    detach: bool,
    wait: bool,
    wait_timeout: float,
    nodes: int | None,
    ok_if_running: bool,
    report_fd: int | None,
) -> int:
    """Start a party; see the module's text, which is the manual page."""
    with reporting(report_fd):
        config = load(file)
        config = replace(config, name=party or config.name, nodes=nodes or config.nodes)
        try:
            if (running := owner(config.name)) is not None:
                raise AlreadyRunning(config.name, running)
            check_enforceable(config)
            if detach or wait:
                return _detached(config, wait_timeout if wait else None)
            return _serve(config, report_fd)
        except AlreadyRunning as error:
            if report_fd is not None or not ok_if_running:
                raise
            with connect(config.name) as control:
                if not runs_as(control.config, config):
                    raise AlreadyRunning(config.name, error.owner, differs=True) from None
            say(f'party "{config.name}" is already running{f" (pid {error.pid})" if error.pid else ""}')
            if wait:
                follow(config.name, wait_timeout)
            return 0


def _serve(config: PartyConfig, ready_fd: int | None) -> int:
    # The host brings asyncio and more; nobody who asked for help pays for it.
    from partyctl.host import serve

    for attempt in range(_ATTEMPTS):
        try:
            return serve(config, ready_fd=ready_fd)
        except AlreadyRunning as error:
            holder = error.owner or await_owner(config.name)
            if holder is not None or attempt == _ATTEMPTS - 1:
                raise AlreadyRunning(config.name, holder) from None
    raise AssertionError("the last attempt returns or raises")


def _detached(config: PartyConfig, wait_timeout: float | None) -> int:
    host = Detached(config)
    if wait_timeout is None:
        host.await_lock()
        say(f'party "{config.name}" is starting (pid {host.pid}), log {host.log}')
    else:
        host.await_ready(wait_timeout)
        say(f'party "{config.name}" is ready (pid {host.pid}), log {host.log}')
    return 0
