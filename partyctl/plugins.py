"""What a provider's plugin is written against: the hook marker and the transport contract, under one name.

from partyctl.plugins import ConversationSpec, Emit, TurnRequest, TurnResult, hookimpl
"""

from partyctl_plugins import hookimpl
from partyctl_plugins.contract import *  # noqa: F403
from partyctl_plugins.contract import __all__ as _contract

__all__ = ["hookimpl", *_contract]
