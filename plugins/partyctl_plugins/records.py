"""What a supervisor and its worker say to each other: one msgpack map per message, its kind under "t".

Supervisor to worker (a `Command`)::

    load       plugin{name, target, distribution, version} env{} cwd kind options{}
    open       spec{...} env{}
    turn       turn_id request{...}
    interrupt  turn_id
    steer      turn_id steer_id text
    ack        turn_id
    attach
    close

Worker to supervisor (a `Report`)::

    ready      pid
    loaded     profile{...}
    opened     conversation_id
    event      turn_id event{type, ...}
    result     turn_id result{...}
    failed     phase turn_id error{type, kind, message, detail, fields{}}
    steered    steer_id error{...}?
    attached   phase? turn_id is_open conversation_id? kept? profile? dropped
    closed

Nothing is numbered: the channel is in order and ends with either process. Every command but `interrupt` and `ack` is
answered exactly once: `load` by loaded or failed, `open` by opened or failed, `turn` by result or failed after its
events, `steer` by steered, at any time, `attach` by attached, `close` by closed, after a failed if the conversation
could not be closed properly. The first report is `ready`.

A worker outlives a supervisor that dies, if its launcher keeps it. It goes on with its turn, says nothing, and keeps
the newest events of that turn, bounded in number and bytes, and the last outcome, a result or a failed of a turn, until
`ack`, or until the next `turn`. Its launcher gives it another channel for the next supervisor, which begins with
`attach`. After `attached` come the events that were kept, and if it names a turn whose outcome is kept, that one; then
all goes on as before, with the reports that are still to come.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, cast

from partyctl_plugins.checks import check_filled
from partyctl_plugins.codec import Codec, Mismatch, pack, tagged, unpack
from partyctl_plugins.contract import ConversationSpec
from partyctl_plugins.errors import AgentSessionError, RecordError
from partyctl_plugins.events import AgentEvent
from partyctl_plugins.failures import ErrorRecord, rebuild
from partyctl_plugins.manager import ProviderEntry
from partyctl_plugins.profile import ProviderProfile, TransportKind
from partyctl_plugins.turns import TurnRequest, TurnResult


@dataclass(frozen=True, slots=True)
class Load:
    """Import a plugin and make its transport.

    Attributes:
        plugin: which.
        env: the whole environment it gets; applied before it is imported.
        cwd: absolute directory the worker changes to before.
        kind: how the provider is to be reached.
        options: the provider's own settings.
    """

    plugin: ProviderEntry
    cwd: str
    kind: TransportKind = TransportKind.STREAM
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Open:
    """Open the conversation.

    Attributes:
        spec: what it is opened with.
        env: further environment variables, such as the profile asked for by name.
    """

    spec: ConversationSpec
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """Run a turn. The same id may come again: an attempt is not a turn."""

    turn_id: str
    request: TurnRequest


@dataclass(frozen=True, slots=True)
class Interrupt:
    """End the turn of this id; one that is not running or waiting to run is left alone."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class Steer:
    """Send a message into the turn of this id. What becomes of it there is told by events of that turn.

    Attributes:
        turn_id: the running turn.
        steer_id: the name by which the answer says which message it is about.
        text: the message; not empty.
    """

    turn_id: str
    steer_id: str
    text: str

    def __post_init__(self) -> None:
        check_filled("text", self.text)


@dataclass(frozen=True, slots=True)
class Ack:
    """The outcome of the turn of this id is durable; the worker may forget it."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class Attach:
    """Another supervisor goes on with this worker: tell it where it stands, and report to it from now on."""


@dataclass(frozen=True, slots=True)
class Close:
    """End the running turn, close the conversation and end."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker is up."""

    pid: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """The plugin is imported and its transport made."""

    profile: ProviderProfile


@dataclass(frozen=True, slots=True)
class Opened:
    """The conversation is open; its id is None until the provider names it."""

    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened in the running turn."""

    turn_id: str
    event: AgentEvent


@dataclass(frozen=True, slots=True)
class Result:
    """The turn ended with a result."""

    turn_id: str
    result: TurnResult
    conversation_id: str | None = None


class Phase(StrEnum):
    """What failed."""

    LOAD = "load"
    OPEN = "open"
    TURN = "turn"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Failed:
    """A command failed."""

    phase: Phase
    error: ErrorRecord
    turn_id: str = ""
    conversation_id: str | None = None

    def exception(self) -> AgentSessionError:
        """The error itself.

        Raises:
            RecordError: the worker described none of ours.
        """
        return rebuild(self.error)


@dataclass(frozen=True, slots=True)
class Steered:
    """A message was handed to the conversation; with an error, it was not."""

    steer_id: str
    error: ErrorRecord | None = None

    def exception(self) -> AgentSessionError | None:
        """The error itself, None if there was none.

        Raises:
            RecordError: the worker described none of ours.
        """
        return None if self.error is None else rebuild(self.error)


@dataclass(frozen=True, slots=True)
class Attached:
    """Where the worker stands.

    Attributes:
        phase: the command under way, None if there is none.
        turn_id: the turn under way; empty if there is none.
        is_open: whether the conversation is open.
        conversation_id: that of the conversation, None if it has none.
        kept: the turn whose outcome nobody has acknowledged and which follows; None if there is none.
        profile: what the provider can do, None until the plugin is loaded.
        dropped: how many events came before those that were kept and follow.
    """

    phase: Phase | None = None
    turn_id: str = ""
    is_open: bool = False
    conversation_id: str | None = None
    kept: str | None = None
    profile: ProviderProfile | None = None
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Closed:
    """The conversation is closed; the worker ends."""


Command: TypeAlias = Load | Open | Turn | Interrupt | Steer | Ack | Attach | Close
Report: TypeAlias = Ready | Loaded | Opened | Event | Result | Failed | Steered | Attached | Closed


def _kind(cls: type) -> str:
    return cls.__name__.lower()


_COMMANDS = tagged([Load, Open, Turn, Interrupt, Steer, Ack, Attach, Close], "t", _kind)
_REPORTS = tagged([Ready, Loaded, Opened, Event, Result, Failed, Steered, Attached, Closed], "t", _kind)


def encode_command(command: Command) -> bytes:
    """Bytes of a command. Raises RecordError if it holds what cannot be sent."""
    return _encode(_COMMANDS, command)


def decode_command(data: bytes) -> Command:
    """The command in `data`. Raises RecordError if there is none."""
    return cast(Command, _decode(_COMMANDS, data))


def encode_report(report: Report) -> bytes:
    """Bytes of a report. Raises RecordError if it holds what cannot be sent."""
    return _encode(_REPORTS, report)


def decode_report(data: bytes) -> Report:
    """The report in `data`. Raises RecordError if there is none."""
    return cast(Report, _decode(_REPORTS, data))


def _encode(union: Codec, record: object) -> bytes:
    try:
        return pack(union.encode(record))
    except Mismatch as mismatch:
        raise RecordError(
            "a value cannot be sent", where=type(record).__name__.lower(), why=mismatch.describe()
        ) from mismatch


def _decode(union: Codec, data: bytes) -> object:
    try:
        return union.decode(unpack(data))
    except Mismatch as mismatch:
        raise RecordError("a record is malformed", why=mismatch.describe()) from mismatch
