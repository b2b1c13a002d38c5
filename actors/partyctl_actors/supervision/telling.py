"""What an agent session tells those who watch it. What they raise is a line of the log, and the turn goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from partyctl_actors.supervision.policy_commands import Command, Decided
from partyctl_plugins.contract import AgentEvent, EventHandler

_log = logging.getLogger("partyctl.supervision")


def tell(handlers: Sequence[EventHandler], event: AgentEvent) -> None:
    """Call each handler with the event of a turn, in order, on this thread."""
    for handler in handlers:
        try:
            handler.on_event(event)
        except Exception:
            _log.exception("An event handler failed on %s; the turn goes on", type(event).__name__)


def report(on_decided: Callable[[Decided], None] | None, commands: Sequence[Command]) -> None:
    """Log each decision among `commands`, and call `on_decided` with it."""
    for command in commands:
        if not isinstance(command, Decided):
            continue
        _log.info("%s", command)
        if on_decided is None:
            continue
        try:
            on_decided(command)
        except Exception:
            _log.exception("Whoever watches the decisions of a session failed; the session goes on")
