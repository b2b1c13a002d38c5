"""A transport that plays a script, and the conversation it opens."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from partyctl_base.clock import Clock, SystemClock
from partyctl_base.ids import IdAllocator, RandomIds
from partyctl_plugins.contract import (
    Conversation,
    ConversationSpec,
    Emit,
    NativeMode,
    ProviderProfile,
    SchemaMechanism,
    TransportKind,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.errors import (
    NoRunningTurnError,
    ProviderCapabilityError,
    ProviderOptionsError,
    SessionResumeError,
    SessionStateError,
    TurnFailedError,
)
from partyctl_plugins.manager import nearest
from partyctl_plugins.scripted.script import Script, read
from partyctl_plugins.scripted.turn import Performance
from partyctl_plugins.scripted.world import Process, World

PROFILE = ProviderProfile(
    name="scripted",
    display_name="Script",
    transports=frozenset(TransportKind),
    native_permission_modes=frozenset(NativeMode),
    supports_steer=True,
    output_schema=SchemaMechanism.INLINE_JSON,
)

_OPTIONS = ("script", "state")


class Cursor:
    """Which turn of a script comes next; in a file, if it is to outlive the process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._taken = 0
        self._lock = threading.Lock()

    def take(self) -> int:
        """The number of the next turn, from 1. No two takers get the same."""
        with self._lock:
            if self._path is None:
                self._taken += 1
                return self._taken
            # One byte per turn: appending is atomic between processes, and the position afterwards is the count.
            fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, b".")
                return os.lseek(fd, 0, os.SEEK_CUR)
            finally:
                os.close(fd)


class ScriptedTransport:
    """Plays the script of `options["script"]`; see the package for what a script holds.

    Args:
        options: the provider's options: `script` and, if the position is to be kept in a file, `state`.
        clock, ids, world: where time, conversation ids and the end of the process come from.

    Raises:
        ProviderOptionsError: an option is missing or unknown.
    """

    def __init__(
        self,
        options: Mapping[str, object],
        *,
        clock: Clock | None = None,
        ids: IdAllocator | None = None,
        world: World | None = None,
    ) -> None:
        for name in options:
            if name not in _OPTIONS:
                raise ProviderOptionsError(
                    f"provider 'scripted' has no option {name!r}",
                    fix=nearest(name, _OPTIONS) or f"Its options are {' and '.join(_OPTIONS)}",
                )
        if "script" not in options:
            raise ProviderOptionsError(
                "provider 'scripted' needs a script", fix='Set options = { script = "FILE.toml" }'
            )
        state = options.get("state")
        if state is not None and not isinstance(state, str):
            raise ProviderOptionsError("option 'state' must be the path of a file", why=f"it is {state!r}")
        self._options = options
        self._state = state
        self._cursor: Cursor | None = None
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._world = world or Process()

    @property
    def profile(self) -> ProviderProfile:
        return PROFILE

    def open(self, spec: ConversationSpec) -> Conversation:
        """Open a conversation; the script is read now.

        Raises:
            ProviderOptionsError: the script is not right.
            ProviderCapabilityError: tool servers or an effort were asked for.
            SessionResumeError: the script refuses to resume.
        """
        _check(spec)
        script = read(self._options["script"], spec.cwd)
        if script.refuse_resume and spec.resume_id is not None:
            raise SessionResumeError(session_id=spec.resume_id, where=script.source)
        if self._cursor is None:
            self._cursor = Cursor(Path(spec.cwd, self._state) if self._state is not None else None)
        conversation_id = spec.resume_id or self._ids.new_id("scripted")
        return ScriptedConversation(script, self._cursor, self._clock, self._world, conversation_id, spec.resume_id)


class ScriptedConversation:
    """One run through a script."""

    def __init__(
        self, script: Script, cursor: Cursor, clock: Clock, world: World, conversation_id: str, resume_id: str | None
    ) -> None:
        self._script = script
        self._cursor = cursor
        self._clock = clock
        self._world = world
        self._id = conversation_id
        self._resumed = resume_id is not None
        self._lock = threading.Lock()
        self._performance: Performance | None = None
        self._closed = False

    @property
    def conversation_id(self) -> str | None:
        return self._id

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        """Play the next turn of the script.

        Raises:
            ProviderCapabilityError: tool servers or an effort were asked for.
        """
        _check(request)
        performance = Performance(request, emit, self._clock, self._world, self._id, self._resumed)
        with self._lock:
            if self._closed:
                raise SessionStateError("the conversation is closed", where=self._id)
            if self._performance is not None:
                raise SessionStateError("a turn is running already", where=self._id)
            self._performance = performance
        try:
            number = self._cursor.take()
            if number > len(self._script.turns):
                raise TurnFailedError(
                    f"the script has no turn {number}",
                    where=self._script.source,
                    why=f"it ends after turn {len(self._script.turns)}",
                    fix="Add the turns that are missing",
                )
            result = performance.play(self._script.turns[number - 1], f"{self._script.source}, turn {number}")
            self._resumed = True
            return result
        finally:
            with self._lock:
                self._performance = None

    def interrupt(self) -> None:
        """End the running turn, unless it ignores interrupts."""
        with self._lock:
            if self._performance is not None:
                self._performance.interrupt()

    def steer(self, text: str) -> None:
        """Send a message into the running turn.

        Raises:
            NoRunningTurnError: none runs.
        """
        with self._lock:
            performance = self._performance
        if performance is None:
            raise NoRunningTurnError("there is no running turn to steer", where=self._id)
        performance.steer(text)

    def close(self) -> None:
        """End the running turn and take no further one."""
        with self._lock:
            self._closed = True
            if self._performance is not None:
                self._performance.interrupt()


def _check(asked: ConversationSpec | TurnRequest) -> None:
    if asked.mcp_servers or asked.reasoning_effort is not None:
        what = "tool servers" if asked.mcp_servers else "a reasoning effort"
        raise ProviderCapabilityError(f"provider 'scripted' cannot take {what}", fix="Leave it out")
