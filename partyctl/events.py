"""What a provider reports while a turn runs, and ready handlers for it, under one name."""

from partyctl_plugins.events import *  # noqa: F403
from partyctl_plugins.events import __all__ as _events
from partyctl_plugins.handlers import *  # noqa: F403
from partyctl_plugins.handlers import __all__ as _handlers

__all__ = [*_events, *_handlers]
