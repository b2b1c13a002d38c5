"""Checks of what others implement: subclass one as `Test...`, implement its factories, and pytest runs it."""

from partyctl_plugins.testing.contracts.conversation import ConversationContract
from partyctl_plugins.testing.contracts.means import CheckpointStoreContract, ClockContract, ConfinementContract
from partyctl_plugins.testing.contracts.process import ProcessContract
from partyctl_plugins.testing.contracts.steering import SteerableConversationContract
from partyctl_plugins.testing.contracts.transport import TransportContract

__all__ = [
    "CheckpointStoreContract",
    "ClockContract",
    "ConfinementContract",
    "ConversationContract",
    "ProcessContract",
    "SteerableConversationContract",
    "TransportContract",
]
