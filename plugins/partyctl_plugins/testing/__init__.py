"""What a plugin, and code that drives sessions, is tested with: doubles, and contracts to subclass.

The contracts need pytest, and nothing else here does: they are imported when they are first named.
"""

from typing import TYPE_CHECKING

from partyctl_plugins.testing.doubles import (
    FakeCheckpointStore,
    FakeClock,
    FakeConfinement,
    RecordingEventHandler,
    SequentialIds,
)
from partyctl_plugins.testing.scenes import Act, Dies, Fails, Says, Scene, Stalls, Streams
from partyctl_plugins.testing.transport import (
    FakeConversation,
    FakeTransport,
    FakeTurn,
    SteerableFakeConversation,
    fake_profile,
    resume_refused,
    turn_failed,
    turn_timeout,
)

if TYPE_CHECKING:
    from partyctl_plugins.testing.contracts import (
        CheckpointStoreContract,
        ClockContract,
        ConfinementContract,
        ConversationContract,
        ProcessContract,
        SteerableConversationContract,
        TransportContract,
    )

_CONTRACTS = "partyctl_plugins.testing.contracts"

__all__ = [
    "Act",
    "CheckpointStoreContract",
    "ClockContract",
    "ConfinementContract",
    "ConversationContract",
    "Dies",
    "Fails",
    "FakeCheckpointStore",
    "FakeClock",
    "FakeConfinement",
    "FakeConversation",
    "FakeTransport",
    "FakeTurn",
    "ProcessContract",
    "RecordingEventHandler",
    "Says",
    "Scene",
    "SequentialIds",
    "Stalls",
    "SteerableConversationContract",
    "SteerableFakeConversation",
    "Streams",
    "TransportContract",
    "fake_profile",
    "resume_refused",
    "turn_failed",
    "turn_timeout",
]


def __getattr__(name: str) -> object:
    if not name.endswith("Contract") or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    import pytest

    # So that a check that fails shows what it compared.
    pytest.register_assert_rewrite(_CONTRACTS)
    value: object = getattr(import_module(_CONTRACTS), name)
    globals()[name] = value
    return value
