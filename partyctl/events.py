"""What a provider reports while a turn runs, under one name; each class says when it comes."""

from partyctl_plugins.events import *  # noqa: F403
from partyctl_plugins.events import __all__ as __all__
