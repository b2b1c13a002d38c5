"""A transport that plays what a test wrote down, for code that drives sessions."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from partyctl_base.clock import Clock, StopSignal
from partyctl_plugins.checks import shown
from partyctl_plugins.contract import (
    AgentEvent,
    ConversationSpec,
    Emit,
    FailureKind,
    McpMechanism,
    NativeMode,
    NoRunningTurnError,
    ProviderCapabilityError,
    ProviderProfile,
    ProviderUsage,
    RenewalBudget,
    SchemaMechanism,
    SessionResumeError,
    SessionStateError,
    TokenUsage,
    TransportKind,
    TurnFailedError,
    TurnRequest,
    TurnResult,
    TurnTimeoutError,
)
from partyctl_plugins.events import AssistantText, SessionStarted, SteerConsumed, SteerDelivered, TurnInterrupted
from partyctl_plugins.testing.doubles import FakeClock


@dataclass(frozen=True, slots=True)
class FakeTurn:
    """What one turn of a script does: its events, then `during`, then a wait if there is one, then how it ends.

    Attributes:
        text: the answer; also told as an event.
        conversation_id: the id its result names; None for that of the conversation.
        input_tokens, output_tokens, duration_ms, context_tokens: what it reports.
        structured_output: the answer as data.
        events: told first.
        during: called in the middle of the turn, on its thread.
        stalls: whether it then waits until it is interrupted, closed or out of time.
        awaits_steer: whether it then waits until it is steered; those three end this too.
        fails: what it raises at its end.
    """

    text: str = "ok"
    conversation_id: str | None = None
    input_tokens: int = 0
    duration_ms: int = 0
    events: Sequence[AgentEvent] = ()
    during: Callable[[], object] | None = None
    context_tokens: int | None = None
    output_tokens: int = 0
    structured_output: object = None
    stalls: bool = False
    awaits_steer: bool = False
    fails: Exception | None = None


ScriptItem: TypeAlias = FakeTurn | Exception
"""One turn of a script; an exception is a turn that raises it and does nothing else."""


def turn_failed(kind: FailureKind = FailureKind.OTHER, detail: str = "") -> TurnFailedError:
    """A turn that the provider fails."""
    return TurnFailedError(f"the script fails this turn: {FailureKind(kind).value}", kind=kind, detail=detail)


def resume_refused(conversation_id: str = "conv-1") -> SessionResumeError:
    """A turn that the provider refuses because the conversation is gone; omitted, a `FakeTransport`'s first."""
    return SessionResumeError(session_id=conversation_id)


def turn_timeout(seconds: float) -> TurnTimeoutError:
    """A turn that takes longer than its `seconds`."""
    return TurnTimeoutError(seconds)


def fake_profile(
    *,
    supports_resume: bool = True,
    supports_steer: bool = False,
    renewal: RenewalBudget | None = None,
    native_permission_modes: Iterable[NativeMode] = (NativeMode.BYPASS,),
) -> ProviderProfile:
    """The profile of a provider that can do everything but what is left out here."""
    return ProviderProfile(
        "fake",
        display_name="Fake",
        transports=frozenset(TransportKind),
        native_permission_modes=frozenset(native_permission_modes),
        supports_resume=supports_resume,
        supports_steer=supports_steer,
        supports_reasoning_effort=True,
        supports_mcp_timeouts=True,
        mcp=McpMechanism.CLI_FLAGS,
        output_schema=SchemaMechanism.INLINE_JSON,
        renewal=renewal,
    )


class FakeTransport:
    """Plays a script, which its conversations share; after its end every turn succeeds.

    Args:
        script: a `FakeTurn` or an exception per turn.
        profile: what the provider can do; `fake_profile()` if omitted.
        resumable: the ids that can be resumed besides those this transport has handed out; None for any.
        refuse_at_open: whether an id that cannot be resumed is refused by `open`; by the first turn otherwise.
        clock: what a turn that stalls measures its timeout by; one that waits for nothing if omitted.

    Raises:
        TypeError: an entry of the script is neither.

    Attributes:
        specs: what every conversation was opened with.
        conversations: every conversation, in order.
    """

    def __init__(
        self,
        script: Iterable[ScriptItem] = (),
        profile: ProviderProfile | None = None,
        resumable: Iterable[str] | None = None,
        refuse_at_open: bool = False,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.specs: list[ConversationSpec] = []
        self.conversations: list[FakeConversation] = []
        self._script = _checked(script)
        self._profile = profile or fake_profile()
        self._resumable = None if resumable is None else set(resumable)
        self._refuse_at_open = refuse_at_open
        self._clock = clock or FakeClock()
        self._lock = threading.Lock()
        self._named = 0

    @property
    def profile(self) -> ProviderProfile:
        return self._profile

    @property
    def script_left(self) -> int:
        """How many turns of the script were not taken yet."""
        return len(self._script)

    def open(self, spec: ConversationSpec) -> "FakeConversation":
        """Open a conversation; see `Transport.open`."""
        self.specs.append(spec)
        if spec.permissions.mode not in self._profile.native_permission_modes:
            raise ProviderCapabilityError(f"the fake does not offer the permission mode {spec.permissions.mode.value}")
        resumed = spec.resume_id
        if resumed is not None and not self._profile.supports_resume:
            raise ProviderCapabilityError("the fake resumes no conversation")
        gone = resumed is not None and not self._knows(resumed)
        if gone and self._refuse_at_open:
            raise resume_refused(resumed or "")
        kind = SteerableFakeConversation if self._profile.supports_steer else FakeConversation
        conversation = kind(self, spec, self._clock, gone=gone)
        self.conversations.append(conversation)
        return conversation

    def _knows(self, conversation_id: str) -> bool:
        return self._resumable is None or conversation_id in self._resumable

    def _take(self) -> ScriptItem:
        with self._lock:
            return self._script.pop(0) if self._script else FakeTurn()

    def _new_id(self) -> str:
        with self._lock:
            self._named += 1
            name = f"conv-{self._named}"
        self._learn(name)
        return name

    def _learn(self, conversation_id: str) -> None:
        if self._resumable is not None:
            self._resumable.add(conversation_id)


def _checked(script: Iterable[ScriptItem]) -> list[ScriptItem]:
    if not isinstance(script, Iterable):
        raise TypeError(f"a script must be a sequence of turns, not {shown(script)}")
    checked = list(script)
    for number, item in enumerate(checked, start=1):
        if not isinstance(item, FakeTurn | Exception):
            raise TypeError(f"turn {number} of a script must be a FakeTurn or an exception, not {shown(item)}")
    return checked


class FakeConversation:
    """One conversation of a `FakeTransport`, which makes it.

    Attributes:
        spec: what it was opened with.
        turns: every request, in order.
        steers: every message that came into a turn.
        interrupts: how often it was interrupted, with a turn running or without.
        close_calls: how often it was closed.
    """

    def __init__(self, transport: FakeTransport, spec: ConversationSpec, clock: Clock, *, gone: bool) -> None:
        self.spec = spec
        self.turns: list[TurnRequest] = []
        self.steers: list[str] = []
        self.interrupts = 0
        self.close_calls = 0
        self._transport = transport
        self._clock = clock
        self._gone = gone
        self._id = spec.resume_id
        self._lock = threading.Lock()
        self._running: _Running | None = None

    @property
    def conversation_id(self) -> str | None:
        return self._id

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        """Play the next turn of the script."""
        running = _Running()
        with self._lock:
            if self.close_calls:
                raise SessionStateError("the conversation is closed", where=str(self._id))
            if self._running is not None:
                raise SessionStateError("a turn is running already", where=str(self._id))
            self._running = running
        try:
            self.turns.append(request)
            if self._gone:
                raise resume_refused(str(self._id))
            return self._play(self._transport._take(), request, emit, running)
        finally:
            with self._lock:
                self._running = None

    def interrupt(self) -> None:
        """End the running turn."""
        with self._lock:
            self.interrupts += 1
            if self._running is not None:
                self._running.stop()

    def close(self) -> None:
        """End the running turn and take no further one."""
        with self._lock:
            self.close_calls += 1
            if self._running is not None:
                self._running.stop()

    def _play(self, item: ScriptItem, request: TurnRequest, emit: Emit, running: "_Running") -> TurnResult:
        if isinstance(item, Exception):
            raise item
        resumed = self._id is not None
        if self._id is None:
            self._id = item.conversation_id or self._transport._new_id()
            emit(SessionStarted(self._id))
        self._id = item.conversation_id or self._id
        self._transport._learn(self._id)
        for event in item.events:
            emit(event)
        if item.during is not None:
            item.during()
        if item.stalls or item.awaits_steer:
            self._wait(request.timeout, running.stopped if item.stalls else running.moved)
        self._take_in(emit, running, listens=item.fails is None)
        if item.fails is not None:
            raise item.fails
        interrupted = running.stopped.is_set()
        emit(TurnInterrupted() if interrupted else AssistantText(item.text))
        return TurnResult(
            text="" if interrupted else item.text,
            structured_output=None if interrupted else item.structured_output,
            session_id=self._id,
            resumed=resumed,
            usage=ProviderUsage(TokenUsage(item.input_tokens, item.output_tokens, turns=1), provider="fake"),
            duration_ms=item.duration_ms,
            interrupted=interrupted,
            context_tokens=item.context_tokens,
        )

    def _wait(self, timeout: float | None, until: StopSignal) -> None:
        if timeout is None:
            until.wait(None)
        elif not self._clock.wait(timeout, until):
            raise TurnTimeoutError(timeout)

    def _take_in(self, emit: Emit, running: "_Running", *, listens: bool) -> None:
        """Tell what was sent into the turn; from now on nothing can be."""
        with self._lock:
            running.listens = False
        for text in running.messages:
            emit(SteerDelivered(text))
            if listens:
                emit(SteerConsumed(text))


class SteerableFakeConversation(FakeConversation):
    """A `FakeConversation` that takes messages while its turn runs."""

    def steer(self, text: str) -> None:
        """Send `text` into the running turn; see `SteerableConversation.steer`."""
        with self._lock:
            if self._running is None or not self._running.listens:
                raise NoRunningTurnError("there is no running turn to steer", where=str(self._id))
            self.steers.append(text)
            self._running.messages.append(text)
            self._running.moved.set()


class _Running:
    """The turn that is running now."""

    def __init__(self) -> None:
        self.stopped = StopSignal()
        self.moved = StopSignal()
        self.listens = True
        self.messages: list[str] = []

    def stop(self) -> None:
        self.stopped.set()
        self.moved.set()
