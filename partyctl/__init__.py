"""partyctl: declared conversations between agents, people and programs, in processes that outlive each other.

Every public name is found here and imported when it is first used, so that the command line stays quick.
"""

TYPE_CHECKING = False  # as type checkers know it; `typing` takes 7 ms, in which a Ctrl-C would find nobody to tell it

if TYPE_CHECKING:
    from partyctl.agent import Agent as Agent
    from partyctl.serving import Remote as Remote
    from partyctl.serving import aserve as aserve
    from partyctl.serving import serve as serve
    from partyctl.session import Session as Session
    from partyctl_actors.errors import AllowanceExceeded as AllowanceExceeded
    from partyctl_actors.errors import Cancelled as Cancelled
    from partyctl_actors.errors import ConformanceError as ConformanceError
    from partyctl_actors.errors import ContentError as ContentError
    from partyctl_actors.errors import DeadlineExceeded as DeadlineExceeded
    from partyctl_actors.errors import JournalError as JournalError
    from partyctl_actors.errors import ModelError as ModelError
    from partyctl_actors.errors import ModelNotFound as ModelNotFound
    from partyctl_actors.errors import ModelRefused as ModelRefused
    from partyctl_actors.errors import ModelUnavailable as ModelUnavailable
    from partyctl_actors.errors import ProjectionError as ProjectionError
    from partyctl_actors.errors import ProtocolError as ProtocolError
    from partyctl_actors.errors import ProtocolMismatch as ProtocolMismatch
    from partyctl_actors.errors import SelectionError as SelectionError
    from partyctl_actors.errors import SessionError as SessionError
    from partyctl_actors.journals import Decision as Decision
    from partyctl_actors.journals import Journal as Journal
    from partyctl_actors.journals import JsonlJournal as JsonlJournal
    from partyctl_actors.journals import MemoryJournal as MemoryJournal
    from partyctl_actors.journals import Record as Record
    from partyctl_actors.journals import SqliteJournal as SqliteJournal
    from partyctl_actors.participants import Answer as Answer
    from partyctl_actors.participants import BasePlayer as BasePlayer
    from partyctl_actors.participants import Desk as Desk
    from partyctl_actors.participants import Human as Human
    from partyctl_actors.participants import HumanIo as HumanIo
    from partyctl_actors.participants import LanguageModel as LanguageModel
    from partyctl_actors.participants import Machine as Machine
    from partyctl_actors.participants import ModelRequest as ModelRequest
    from partyctl_actors.participants import Offer as Offer
    from partyctl_actors.participants import Participant as Participant
    from partyctl_actors.participants import Player as Player
    from partyctl_actors.participants import Policy as Policy
    from partyctl_actors.participants import Script as Script
    from partyctl_actors.participants import Seat as Seat
    from partyctl_actors.participants import Terminal as Terminal
    from partyctl_actors.participants import View as View
    from partyctl_actors.participants import fallback as fallback
    from partyctl_actors.participants import metered as metered
    from partyctl_actors.participants import model as model
    from partyctl_actors.participants import replies as replies
    from partyctl_actors.participants import retrying as retrying
    from partyctl_actors.participants import traced as traced
    from partyctl_actors.protocol import Answers as Answers
    from partyctl_actors.protocol import Lines as Lines
    from partyctl_actors.protocol import Message as Message
    from partyctl_actors.protocol import Protocol as Protocol
    from partyctl_actors.protocol import Role as Role
    from partyctl_actors.protocol import Step as Step
    from partyctl_actors.protocol import accepts as accepts
    from partyctl_actors.protocol import between as between
    from partyctl_actors.protocol import check as check
    from partyctl_actors.protocol import choose as choose
    from partyctl_actors.protocol import definition as definition
    from partyctl_actors.protocol import explore as explore
    from partyctl_actors.protocol import load as load
    from partyctl_actors.protocol import loop as loop
    from partyctl_actors.protocol import par as par
    from partyctl_actors.protocol import patterns as patterns
    from partyctl_actors.protocol import project as project
    from partyctl_actors.protocol import refines as refines
    from partyctl_actors.protocol import render as render
    from partyctl_actors.protocol import repeat as repeat
    from partyctl_actors.protocol import roles as roles
    from partyctl_actors.protocol import send as send
    from partyctl_actors.protocol import stop as stop
    from partyctl_actors.protocol import where as where
    from partyctl_actors.runs import Allowance as Allowance
    from partyctl_actors.runs import Envelope as Envelope
    from partyctl_actors.runs import JsonLinesTracer as JsonLinesTracer
    from partyctl_actors.runs import MemoryTracer as MemoryTracer
    from partyctl_actors.runs import OpenTelemetryTracer as OpenTelemetryTracer
    from partyctl_actors.runs import QueueTracer as QueueTracer
    from partyctl_actors.runs import Run as Run
    from partyctl_actors.runs import Transcript as Transcript
    from partyctl_actors.runs import watching as watching
    from partyctl_actors.supervision.agent_session import AgentSession as AgentSession
    from partyctl_base.errors import PartyError as PartyError
    from partyctl_plugins.contract import AgentSessionError as AgentSessionError
    from partyctl_plugins.contract import ApprovalPolicy as ApprovalPolicy
    from partyctl_plugins.contract import Checkpoint as Checkpoint
    from partyctl_plugins.contract import CheckpointError as CheckpointError
    from partyctl_plugins.contract import CheckpointStore as CheckpointStore
    from partyctl_plugins.contract import CliExitError as CliExitError
    from partyctl_plugins.contract import Clock as Clock
    from partyctl_plugins.contract import Continuity as Continuity
    from partyctl_plugins.contract import ContinuityError as ContinuityError
    from partyctl_plugins.contract import FailureKind as FailureKind
    from partyctl_plugins.contract import FileCheckpointStore as FileCheckpointStore
    from partyctl_plugins.contract import HttpMcpServer as HttpMcpServer
    from partyctl_plugins.contract import IdAllocator as IdAllocator
    from partyctl_plugins.contract import InMemoryCheckpointStore as InMemoryCheckpointStore
    from partyctl_plugins.contract import NativeMode as NativeMode
    from partyctl_plugins.contract import NativePermissions as NativePermissions
    from partyctl_plugins.contract import NoRunningTurnError as NoRunningTurnError
    from partyctl_plugins.contract import OutputSchema as OutputSchema
    from partyctl_plugins.contract import ProviderCapabilityError as ProviderCapabilityError
    from partyctl_plugins.contract import ProviderUsage as ProviderUsage
    from partyctl_plugins.contract import RandomIds as RandomIds
    from partyctl_plugins.contract import RetryPolicy as RetryPolicy
    from partyctl_plugins.contract import SessionResumeError as SessionResumeError
    from partyctl_plugins.contract import SessionStateError as SessionStateError
    from partyctl_plugins.contract import StdioMcpServer as StdioMcpServer
    from partyctl_plugins.contract import StopSignal as StopSignal
    from partyctl_plugins.contract import SystemClock as SystemClock
    from partyctl_plugins.contract import TokenUsage as TokenUsage
    from partyctl_plugins.contract import TransportKind as TransportKind
    from partyctl_plugins.contract import Turn as Turn
    from partyctl_plugins.contract import TurnCancelledError as TurnCancelledError
    from partyctl_plugins.contract import TurnFailedError as TurnFailedError
    from partyctl_plugins.contract import TurnLostError as TurnLostError
    from partyctl_plugins.contract import TurnRequest as TurnRequest
    from partyctl_plugins.contract import TurnResult as TurnResult
    from partyctl_plugins.contract import TurnTicket as TurnTicket
    from partyctl_plugins.contract import TurnTimeoutError as TurnTimeoutError

_ACTORS_ERRORS = (
    "AllowanceExceeded Cancelled ConformanceError ContentError DeadlineExceeded JournalError ModelError ModelNotFound "
    "ModelRefused ModelUnavailable ProjectionError ProtocolError ProtocolMismatch SelectionError SessionError"
)
_PROTOCOL = (
    "Answers Lines Message Protocol Role Step accepts between check choose definition explore load loop par patterns "
    "project refines render repeat roles send stop where"
)
_RUNS = "Allowance Envelope JsonLinesTracer MemoryTracer OpenTelemetryTracer QueueTracer Run Transcript watching"
_PARTICIPANTS = (
    "Answer BasePlayer Desk Human HumanIo LanguageModel Machine ModelRequest Offer Participant Player "
    "Policy Script Seat Terminal View fallback metered model replies retrying traced"
)
_CONTRACT = (
    "AgentSessionError ApprovalPolicy Checkpoint CheckpointError CheckpointStore CliExitError Clock Continuity "
    "ContinuityError FailureKind FileCheckpointStore HttpMcpServer IdAllocator InMemoryCheckpointStore NativeMode "
    "NativePermissions NoRunningTurnError OutputSchema ProviderCapabilityError ProviderUsage RandomIds RetryPolicy "
    "SessionResumeError SessionStateError StdioMcpServer StopSignal SystemClock TokenUsage TransportKind Turn "
    "TurnCancelledError TurnFailedError TurnLostError TurnRequest TurnResult TurnTicket TurnTimeoutError"
)
_HOMES = {
    "partyctl.agent": "Agent",
    "partyctl.serving": "Remote aserve serve",
    "partyctl.session": "Session",
    "partyctl_actors.errors": _ACTORS_ERRORS,
    "partyctl_actors.journals": "Decision Journal JsonlJournal MemoryJournal Record SqliteJournal",
    "partyctl_actors.participants": _PARTICIPANTS,
    "partyctl_actors.protocol": _PROTOCOL,
    "partyctl_actors.runs": _RUNS,
    "partyctl_base.errors": "PartyError",
    "partyctl_actors.supervision.agent_session": "AgentSession",
    "partyctl_plugins.contract": _CONTRACT,
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
