"""Stop a party.

Running runs get --timeout seconds to end; then, or at once with --now, they are cut off. The command waits until the
host has ended and its lock is free, and shows what the host waits for. Stopping a party that does not run is a
success, and a host that was started by another version of partyctl is stopped as any other.

Exit codes: 0 stopped, or was not running; 4 the host does not answer (the message says whether it is busy, stopped or
gone, and what to do).
"""

from pathlib import Path

import click

from partyctl.cli.options import Seconds, chosen_party, party_options
from partyctl.cli.output import printable, say
from partyctl.control import Control, await_free, condition, connect, owner
from partyctl.errors import HostError, NotAnswering, NotRunning

_MARGIN = 20.0
"""Seconds that stopping everything may take beyond the drain."""


@click.command(help=__doc__)
@party_options
@click.option("--timeout", type=Seconds(), default=30.0, show_default=True, help="Seconds for running runs to end.")
@click.option("--now", is_flag=True, help="Do not wait for running runs.")
def command(file: Path | None, party: str | None, timeout: float, now: bool) -> int:
    """Stop a party; see the module's text, which is the manual page."""
    name = chosen_party(file, party)
    limit = (0.0 if now else timeout) + _MARGIN
    try:
        with connect(name, any_version=True) as control:
            control.send({"t": "down", "timeout": timeout, "now": now}, limit)
            _watch(control, limit)
            pid = control.pid
    except (NotRunning, NotAnswering) as error:
        if isinstance(error, NotAnswering) and (error.condition != "gone" or owner(name) is not None):
            raise
        say(f'party "{name}" is not running')
        return 0
    if not await_free(name, pid, _MARGIN):
        raise NotAnswering(name, pid, condition(pid), limit)
    say(f'party "{name}" is down')
    return 0


def _watch(control: Control, limit: float) -> None:
    """Show the host's progress until it hangs up."""
    for reply in control.replies(limit):
        match reply.get("t"):
            case "progress":
                say(printable(str(reply.get("text", ""))))
            case "failed":
                why, fix = (
                    printable(str(reply.get("error", ""))),
                    f"Try again; if it stays so, end it with: kill {control.pid}",
                )
                raise HostError("the host refused to stop", why=why, fix=fix)
