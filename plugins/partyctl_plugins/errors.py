"""What can go wrong between a session, its transport and the plugin behind it.

::

    AgentSessionError
    ├── SessionStateError          the call does not fit the state of the session           (caller)
    │   └── NoRunningTurnError     there is no turn to act on                               (caller)
    ├── ContinuityError            the session does not hold the conversation demanded      (caller)
    ├── TurnCancelledError         the turn was cancelled before the provider was asked     (caller)
    ├── TurnLostError              launcher or host are gone, and the turn with them        (machine)
    ├── TurnTimeoutError           the turn ran longer than the request allowed             (provider)
    ├── TurnFailedError            the provider failed the turn; `kind` says how            (provider)
    │   └── CliExitError           the provider's command ended in the middle of it         (provider)
    │       └── SessionResumeError the conversation to go on with is gone                   (provider)
    ├── ProviderCapabilityError    the provider cannot do what was asked                    (caller)
    │   └── ProviderOptionsError   an entry of `options` is not one the provider takes      (caller)
    ├── PluginError                a plugin was not found, told apart or loaded             (machine)
    │   ├── ProviderNotFound       no installed distribution provides this name             (caller)
    │   ├── ProviderConflict       several do                                               (machine)
    │   └── PluginLoadError        it could not be imported, or is no provider              (worker)
    ├── ProcessClosedError         the command takes no input any more                      (provider)
    ├── CheckpointError            a checkpoint could not be kept or read back              (machine)
    └── RecordError                a record on a worker's channel is not one of ours        (worker)

A transport raises only these. Each class names in `wire_fields` the attributes that cross the worker's channel;
an error of a plugin's own subclass arrives as its nearest class here.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from partyctl_base.errors import PartyError, Whose
from partyctl_plugins.checks import is_finite, shown


class FailureKind(StrEnum):
    """How a provider failed a turn; the recovery rules act on this and on nothing else."""

    TRANSIENT = "transient"
    """It is overloaded, limited for a moment, or out of reach."""
    USAGE_LIMIT = "usage_limit"
    """It has nothing left for this account."""
    AUTH = "auth"
    """It does not accept the credentials."""
    SCHEMA = "schema"
    """It could not keep to the answer's schema."""
    CONTEXT_OVERFLOW = "context_overflow"
    """It cannot take this conversation any further."""
    OTHER = "other"
    """It failed otherwise."""


class AgentSessionError(PartyError):
    """Root of everything a session, a transport or a plugin raises."""

    wire_fields: ClassVar[tuple[str, ...]] = ()


class SessionStateError(AgentSessionError):
    """The call does not fit the state of the session."""

    whose = "caller"


class NoRunningTurnError(SessionStateError):
    """There is no running turn to act on."""


class ContinuityError(AgentSessionError):
    """The session does not hold the conversation that was demanded, or a turn was answered in another one.

    Args:
        expected: the conversation id that was demanded.
        actual: the id the session holds, or of the one that answered; None if there is none.
    """

    whose = "caller"
    wire_fields: ClassVar[tuple[str, ...]] = ("expected", "actual")
    expected: str
    actual: str | None

    def __init__(self, expected: str, actual: str | None, *, where: str = "", fix: str = "") -> None:
        found = "there is none" if actual is None else f"it is {actual!r}"
        super().__init__(
            f"conversation {expected!r} was demanded, and {found}",
            where=where,
            fix=fix or "Prepare the turn without expect_conversation, or adopt the conversation first",
        )
        self.expected = expected
        self.actual = actual


class TurnCancelledError(AgentSessionError):
    """The turn was cancelled before the provider was asked."""

    whose = "caller"


class TurnLostError(AgentSessionError):
    """Launcher or host are gone, and the turn with them. It is never begun again by itself.

    Args:
        turn_id: the turn.
        in_flight: whether the provider had been asked, so that the outcome is unknown; if not, it was not started.
    """

    whose = "machine"
    wire_fields: ClassVar[tuple[str, ...]] = ("turn_id", "in_flight")
    turn_id: str
    in_flight: bool

    def __init__(self, turn_id: str, in_flight: bool, *, why: str = "") -> None:
        super().__init__(
            "a turn was lost in flight: its outcome is unknown" if in_flight else "a turn was lost before it started",
            where=turn_id,
            why=why,
            fix="See what it has done before you ask again" if in_flight else "Run it again",
        )
        self.turn_id = turn_id
        self.in_flight = in_flight


class TurnTimeoutError(AgentSessionError):
    """The turn ran longer than the request allowed, or the provider was silent for longer.

    Args:
        timeout: the limit that passed, in seconds.
    """

    whose = "provider"
    wire_fields: ClassVar[tuple[str, ...]] = ("timeout",)
    timeout: float

    def __init__(self, timeout: float, *, where: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(f"the turn did not end within {timeout:g} s", where=where, why=why, fix=fix)
        self.timeout = timeout


class TurnFailedError(AgentSessionError):
    """The provider failed the turn.

    Args:
        message: what happened, for a person.
        kind: how it failed; decides what the session does next.
        detail: the provider's own words, as much of them as helps.
        resets_at: when a usage limit ends, in seconds since the epoch, if the provider said so; no time is None.

    Raises:
        TypeError: `resets_at` is no number.
        ValueError: `kind` is none.
    """

    whose = "provider"
    wire_fields: ClassVar[tuple[str, ...]] = ("kind", "detail", "resets_at")
    kind: FailureKind
    detail: str
    resets_at: float | None

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = FailureKind.OTHER,
        detail: str = "",
        resets_at: float | None = None,
        where: str = "",
        why: str = "",
        fix: str = "",
    ) -> None:
        super().__init__(message, where=where, why=why, fix=fix)
        self.kind = FailureKind(kind)
        self.detail = detail
        self.resets_at = _time(resets_at)


class CliExitError(TurnFailedError):
    """The provider's command ended in the middle of the turn.

    Args:
        argv: the command; empty where the provider is no command.
        returncode: its exit status, minus the signal number if a signal ended it, None if unknown.
        stdout: the end of its standard output.
        stderr: the end of its standard error.
        message: what happened, if "NAME ended with status N" does not say it.
        kind, detail, resets_at: as for `TurnFailedError`.
    """

    wire_fields: ClassVar[tuple[str, ...]] = (*TurnFailedError.wire_fields, "argv", "returncode", "stdout", "stderr")
    argv: tuple[str, ...]
    returncode: int | None
    stdout: str
    stderr: str

    def __init__(
        self,
        argv: Sequence[str] = (),
        returncode: int | None = None,
        *,
        stdout: str = "",
        stderr: str = "",
        message: str = "",
        kind: FailureKind = FailureKind.OTHER,
        detail: str = "",
        resets_at: float | None = None,
        where: str = "",
        why: str = "",
        fix: str = "",
    ) -> None:
        command = argv[0] if argv else "the provider"
        super().__init__(
            message or f"{command} {_ending(returncode)} in the middle of the turn",
            kind=kind,
            detail=detail,
            resets_at=resets_at,
            where=where,
            why=why or _last_line(stderr),
            fix=fix,
        )
        self.argv = tuple(argv)
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr


class SessionResumeError(CliExitError):
    """The conversation to go on with is gone. Raised at open or at the first turn; its kind is always OTHER.

    Args:
        session_id: the id of the conversation that was refused.
        argv, returncode, stdout, stderr, detail: as for `CliExitError`.
    """

    wire_fields: ClassVar[tuple[str, ...]] = (*CliExitError.wire_fields, "session_id")
    session_id: str

    def __init__(
        self,
        argv: Sequence[str] = (),
        returncode: int | None = None,
        session_id: str = "",
        *,
        stdout: str = "",
        stderr: str = "",
        detail: str = "",
        where: str = "",
        why: str = "",
    ) -> None:
        named = f"conversation {session_id!r}" if session_id else "the conversation"
        super().__init__(
            argv,
            returncode,
            stdout=stdout,
            stderr=stderr,
            message=f"the provider refused to resume {named}",
            detail=detail,
            where=where,
            why=why,
        )
        self.session_id = session_id


class ProviderCapabilityError(AgentSessionError):
    """The provider cannot do what was asked."""

    whose = "caller"


class ProviderOptionsError(ProviderCapabilityError):
    """An entry of `options` is not one the provider takes."""


class PluginError(AgentSessionError):
    """A provider's plugin could not be found, told apart or loaded."""

    whose: ClassVar[Whose] = "machine"


class ProviderNotFound(PluginError):
    """No installed distribution provides this name."""

    whose = "caller"


class ProviderConflict(PluginError):
    """Several installed distributions provide the same name."""


class PluginLoadError(PluginError):
    """The plugin could not be imported, or is no provider.

    Args:
        detail: the end of the traceback, for whoever wrote the plugin.
    """

    whose = "worker"
    wire_fields: ClassVar[tuple[str, ...]] = ("detail",)
    detail: str

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "", detail: str = "") -> None:
        super().__init__(what, where=where, why=why, fix=fix)
        self.detail = detail


class ProcessClosedError(AgentSessionError):
    """The command has ended, its input is closed, or it leaves its input unread."""

    whose = "provider"


class CheckpointError(AgentSessionError):
    """A checkpoint could not be kept, or what was kept cannot be read back."""

    whose: ClassVar[Whose] = "machine"


class RecordError(AgentSessionError):
    """A record on a worker's channel is not one of ours."""

    whose = "worker"


def _time(at: object) -> float | None:
    if at is None:
        return None
    if isinstance(at, bool) or not isinstance(at, int | float):
        raise TypeError(f"resets_at must be seconds since the epoch, not {shown(at)}")
    return float(at) if is_finite(at) else None


def _ending(returncode: int | None) -> str:
    if returncode is None:
        return "ended"
    if returncode < 0:
        return f"was ended by signal {-returncode}"
    return f"ended with status {returncode}"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""
