"""partyctl: declared conversations between agents, people and programs, in processes that outlive each other.

Every public name is found here and imported when it is first used, so that the command line stays quick.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partyctl.session import Session as Session
    from partyctl_actors.errors import AllowanceExceeded as AllowanceExceeded
    from partyctl_actors.errors import Cancelled as Cancelled
    from partyctl_actors.errors import ConformanceError as ConformanceError
    from partyctl_actors.errors import ContentError as ContentError
    from partyctl_actors.errors import DeadlineExceeded as DeadlineExceeded
    from partyctl_actors.errors import JournalError as JournalError
    from partyctl_actors.errors import ModelError as ModelError
    from partyctl_actors.errors import ProjectionError as ProjectionError
    from partyctl_actors.errors import ProtocolError as ProtocolError
    from partyctl_actors.errors import ProtocolMismatch as ProtocolMismatch
    from partyctl_actors.errors import SelectionError as SelectionError
    from partyctl_actors.errors import SessionError as SessionError
    from partyctl_actors.participants import Agent as Agent
    from partyctl_actors.participants import Desk as Desk
    from partyctl_actors.participants import Human as Human
    from partyctl_actors.participants import Offer as Offer
    from partyctl_actors.participants import Script as Script
    from partyctl_actors.participants import replies as replies
    from partyctl_actors.protocol import Message as Message
    from partyctl_actors.protocol import Protocol as Protocol
    from partyctl_actors.protocol import Role as Role
    from partyctl_actors.protocol import choose as choose
    from partyctl_actors.protocol import definition as definition
    from partyctl_actors.protocol import load as load
    from partyctl_actors.protocol import loop as loop
    from partyctl_actors.protocol import repeat as repeat
    from partyctl_actors.protocol import roles as roles
    from partyctl_actors.protocol import send as send
    from partyctl_actors.runs import Allowance as Allowance
    from partyctl_actors.runs import Envelope as Envelope
    from partyctl_actors.runs import JsonLinesTracer as JsonLinesTracer
    from partyctl_actors.runs import MemoryTracer as MemoryTracer
    from partyctl_actors.runs import OpenTelemetryTracer as OpenTelemetryTracer
    from partyctl_actors.runs import QueueTracer as QueueTracer
    from partyctl_actors.runs import Transcript as Transcript
    from partyctl_actors.runs import watching as watching
    from partyctl_base.errors import PartyError as PartyError
    from partyctl_plugins.contract import ApprovalPolicy as ApprovalPolicy
    from partyctl_plugins.contract import NativePermissions as NativePermissions
    from partyctl_plugins.contract import TransportKind as TransportKind
    from partyctl_plugins.contract import TurnRequest as TurnRequest

_ACTORS_ERRORS = (
    "AllowanceExceeded Cancelled ConformanceError ContentError DeadlineExceeded JournalError ModelError "
    "ProjectionError ProtocolError ProtocolMismatch SelectionError SessionError"
)
_RUNS = "Allowance Envelope JsonLinesTracer MemoryTracer OpenTelemetryTracer QueueTracer Transcript watching"
_HOMES = {
    "partyctl.session": "Session",
    "partyctl_actors.errors": _ACTORS_ERRORS,
    "partyctl_actors.participants": "Agent Desk Human Offer Script replies",
    "partyctl_actors.protocol": "Message Protocol Role choose definition load loop repeat roles send",
    "partyctl_actors.runs": _RUNS,
    "partyctl_base.errors": "PartyError",
    "partyctl_plugins.contract": "ApprovalPolicy NativePermissions TransportKind TurnRequest",
}
_PUBLIC = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> object:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'partyctl' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
