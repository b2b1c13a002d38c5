"""The errors of the face, and the one table that turns an error into an exit code.

PartyError
├─ ConfigError         a party.toml that cannot be read, or says what it may not       (caller)
├─ ProgramError        a user's file that cannot be imported, or lacks what was asked  (caller)
├─ CodeHostLost        the process that had imported it ended                          (caller)
├─ RunFailed           a run or a turn on a host's node failed there                   (peer)
├─ NoSuchSession       a party has no agent session of this name                       (caller)
└─ HostError           the host of a party                                             (machine)
   ├─ NotRunning       there is none                                                   (caller)
   ├─ NotAnswering     there is one and it is silent: busy, stopped, starting or gone   (peer)
   ├─ VersionSkew      there is one and it speaks another version of our protocol       (caller)
   ├─ Unknown          it cannot be told whether there is one                           (machine)
   ├─ AlreadyRunning   another one holds the party's lock                              (caller)
   ├─ StateTaken       another one has the party's state directory                     (caller)
   └─ StartFailed      a detached one ended before it was ready                        (machine)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import ClassVar, Literal

from partyctl_base.errors import PartyError, Whose, text_of


class ExitCode(IntEnum):
    """What the command line ends with: the one table of it. `EXIT_CODES` below says which error gives which."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> "ExitCode":
        """A member: its code, and what that says to a person."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "done"
    FAILED = 1, "a run or role failed"
    USAGE = 2, "wrong usage"
    NOT_RUNNING = 3, "the party is not running"
    NOT_ANSWERING = 4, "the host does not answer, or it cannot be told whether there is one"
    ALREADY_RUNNING = 5, "already running"
    DEGRADED = 6, "degraded (status --check)"
    REFUSED = 7, "configuration, protocol, key or confinement refused"
    INTERRUPTED = 130, "ended by force, by Ctrl-C"
    TERMINATED = 143, "ended by force, by SIGTERM"


Condition = Literal["busy", "stopped", "starting", "gone"]
"""What the kernel says of a host that does not answer."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a party's lock: its process id, the party, and when it started (RFC 3339, UTC)."""

    pid: int
    party: str
    started: str


class ConfigError(PartyError):
    """A configuration file is wrong.

    Args:
        what: what is wrong, as a sentence without its full stop.
        file: the file; None when no file is at fault.
        line, column: where in the file, counted from 1, as far as it is known.
        key: the path of the key at fault, as "roles.Writer.provider".
        why, fix: as for every `PartyError`.
    """

    whose: ClassVar[Whose] = "caller"

    def __init__(
        self,
        what: str,
        *,
        file: Path | None = None,
        line: int | None = None,
        column: int | None = None,
        key: str = "",
        why: str = "",
        fix: str = "",
    ) -> None:
        place = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(what, where=", ".join(part for part in (place, key) if part), why=why, fix=fix)
        self.file = file
        self.line = line
        self.column = column
        self.key = key


class ProgramError(PartyError):
    """A user's Python file cannot be imported, or does not hold what was asked for."""

    whose = "caller"


class CodeHostLost(PartyError):
    """The process that had imported a user's file ended before it should.

    Args:
        path: the file.
        ending: how the process ended.
        tail: the last lines it wrote.
    """

    whose = "caller"

    def __init__(self, path: str, ending: str, tail: str) -> None:
        super().__init__(
            "the process that had imported the file ended", where=path, why=f"{ending}\n{tail}" if tail else ending
        )


class RunFailed(PartyError):
    """A run, or a turn of an agent session, failed in another process.

    Args:
        told: the error, as that process worded it.
        code: the exit code that the error has there.
    """

    whose = "peer"

    def __init__(self, told: str, code: int) -> None:
        super().__init__(told)
        self.code = code


class NoSuchSession(PartyError):
    """A party has no agent session of this name.

    Args:
        name: the name.
        known: the names it has sessions of.
    """

    whose = "caller"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        import difflib

        near = difflib.get_close_matches(name, known, n=1)
        named = f"Known are {', '.join(known[:20])}" if known else "Begin one with: partyctl send"
        super().__init__(f"there is no agent session {name!r}", fix=f"Did you mean {near[0]!r}?" if near else named)
        self.name = name


class HostError(PartyError):
    """The host of a party did not start, gave up, or broke the control protocol."""

    whose: ClassVar[Whose] = "machine"


class NotRunning(HostError):
    """No process holds the lock of this party."""

    whose: ClassVar[Whose] = "caller"

    def __init__(self, party: str) -> None:
        super().__init__(f'party "{party}" is not running', fix="Start it with: partyctl up")
        self.party = party


_ADVICE: dict[Condition, tuple[str, str]] = {
    "busy": ("it runs but did not answer", "Try again; if it stays silent, end it with: kill {pid}"),
    "stopped": ("it is stopped by a signal or a debugger", "Let it go on with: kill -CONT {pid}"),
    "starting": ("it holds the lock but its control socket is not open", "Try again in a moment"),
    "gone": ("it ended meanwhile", "Look for the reason in its log, then start it again with: partyctl up"),
}


class NotAnswering(HostError):
    """A process holds the lock of this party and did not answer.

    Args:
        party: the party's name.
        pid: the process that holds the lock, as far as it is known.
        condition: what the kernel says of that process.
        seconds: how long it was waited for.
    """

    whose: ClassVar[Whose] = "peer"

    def __init__(self, party: str, pid: int | None, condition: Condition, seconds: float) -> None:
        why, fix = _ADVICE[condition]
        super().__init__(
            f'the host of party "{party}" did not answer within {seconds:g} s',
            where=f"pid {pid}" if pid else "",
            why=f"{condition}: {why}",
            fix=fix.format(pid=pid or "its process id"),
        )
        self.party = party
        self.pid = pid
        self.condition = condition


class VersionSkew(HostError):
    """The host was started by another version of partyctl.

    Args:
        party: the party's name.
        theirs, ours: the versions of the control protocol, and of partyctl where they are known.
    """

    whose: ClassVar[Whose] = "caller"

    def __init__(self, party: str, theirs: str, ours: str) -> None:
        super().__init__(
            f'the host of party "{party}" speaks {theirs}, this is {ours}',
            why="it was started by another version of partyctl",
            fix="Stop it with: partyctl down, which works with any version. Then start it again with: partyctl up",
        )
        self.party = party


class Unknown(HostError):
    """It cannot be told whether a party runs, because its lock file cannot be looked at."""

    def __init__(self, party: str, lock: Path, why: str) -> None:
        super().__init__(
            f'it cannot be told whether party "{party}" is running',
            where=str(lock),
            why=why,
            fix="Make the file readable for you, or remove what stands in its place",
        )
        self.party = party


class AlreadyRunning(HostError):
    """Another host holds this party's lock; `pid` is its process, None if it did not say in time."""

    whose: ClassVar[Whose] = "caller"

    def __init__(self, party: str, owner: Owner | None, *, differs: bool = False) -> None:
        super().__init__(
            f'party "{party}" is already running{", with another configuration" if differs else ""}',
            where=f"pid {owner.pid}" if owner else "",
            fix="Stop it with: partyctl down. Give a second party another name with --party",
        )
        self.party = party
        self.owner = owner
        self.pid = owner.pid if owner else None


class StateTaken(HostError):
    """A host with another runtime directory has the state directory of this party."""

    whose: ClassVar[Whose] = "caller"

    def __init__(self, party: str, directory: str) -> None:
        super().__init__(
            f'the state directory of party "{party}" is in use by a host with another runtime directory',
            where=directory,
            fix="Stop that one with: partyctl down, where PARTYCTL_RUNTIME_DIR and XDG_RUNTIME_DIR are its own. "
            "Give a second party another name with --party, or another XDG_STATE_HOME",
        )
        self.party, self.directory = party, directory


class StartFailed(HostError):
    """A detached host ended before it was ready, or was late and was ended; `code` is the exit code that tells why."""

    def __init__(self, what: str, code: int, *, why: str = "", fix: str = "") -> None:
        super().__init__(what, why=why, fix=fix)
        self.code = code


# By dotted name, so that the table costs no import of the floors below. The nearest class of the error's own counts.
EXIT_CODES: dict[str, ExitCode] = {
    "partyctl_base.errors.PartyError": ExitCode.FAILED,
    "partyctl.errors.NotRunning": ExitCode.NOT_RUNNING,
    "partyctl.errors.NotAnswering": ExitCode.NOT_ANSWERING,
    "partyctl.errors.VersionSkew": ExitCode.NOT_ANSWERING,
    "partyctl.errors.Unknown": ExitCode.NOT_ANSWERING,
    "partyctl.errors.AlreadyRunning": ExitCode.ALREADY_RUNNING,
    "partyctl.errors.StateTaken": ExitCode.REFUSED,
    "partyctl.errors.ConfigError": ExitCode.REFUSED,
    "partyctl.errors.ProgramError": ExitCode.REFUSED,
    "partyctl_base.paths.PathError": ExitCode.REFUSED,
    "partyctl_broker.errors.KeyRefused": ExitCode.REFUSED,
    "partyctl_actors.errors.ProtocolError": ExitCode.REFUSED,
    "partyctl_confinement.errors.ConfinementRefused": ExitCode.REFUSED,
    "partyctl_plugins.errors.ProviderConflict": ExitCode.REFUSED,
    "partyctl_plugins.errors.ProviderNotFound": ExitCode.REFUSED,
}
"""Error class -> exit code. USAGE, DEGRADED and the codes of signals belong to no error of ours."""


def told(error: BaseException) -> str:
    """An error and its notes, as a person reads it; an error that is not ours with its class.

    Further lines of the error itself are set in, so that each note is seen to be one.
    """
    text = str(error) if isinstance(error, PartyError) else f"{type(error).__name__}: {text_of(error)}"
    if not isinstance(error, RunFailed):  # that one was told before
        text = text.rstrip().replace("\n", "\n  ")
    return "\n".join([text, *getattr(error, "__notes__", [])])


def exit_code(error: BaseException) -> int:
    """The exit code of a command that ended with `error`; a detached host's own code is passed on."""
    if isinstance(error, RunFailed):
        return error.code
    if isinstance(error, StartFailed):
        return error.code
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return next((EXIT_CODES[name] for name in names if name in EXIT_CODES), ExitCode.FAILED)
