"""What an agent session tells those who watch it. What they raise is a line of the log, and the turn goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from partyctl_actors.supervision.policy_commands import Command, Decided
from partyctl_actors.supervision.spending import Used
from partyctl_plugins.contract import AgentEvent, EventHandler

_log = logging.getLogger("partyctl.supervision")
T = TypeVar("T")


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
        _hand(on_decided, command, "decisions")


def used(on_used: Callable[[Used], None] | None, used: Used) -> None:
    """Call `on_used` with what an attempt used."""
    _hand(on_used, used, "use")


def _hand(watcher: Callable[[T], None] | None, told: T, what: str) -> None:
    if watcher is None:
        return
    try:
        watcher(told)
    except Exception:
        _log.exception("Whoever watches the %s of a session failed; the session goes on", what)
