"""One turn of a script, step by step."""

import threading
from collections.abc import Sequence

from partyctl_base.clock import Clock, StopSignal
from partyctl_plugins.contract import Emit, ProviderUsage, TokenUsage, TurnRequest, TurnResult
from partyctl_plugins.errors import (
    AgentSessionError,
    NoRunningTurnError,
    SessionResumeError,
    TurnFailedError,
    TurnTimeoutError,
)
from partyctl_plugins.events import (
    AssistantText,
    SessionStarted,
    SteerConsumed,
    SteerDelivered,
    SteerRejected,
    ToolCall,
    ToolResult,
    TurnInterrupted,
    UsageReport,
)
from partyctl_plugins.scripted import script
from partyctl_plugins.scripted.script import Step
from partyctl_plugins.scripted.world import World

FLOOD_LINE = b"the script floods standard error ".ljust(63, b".") + b"\n"
FLOOD_PIECE = 1024 * len(FLOOD_LINE)


class Performance:
    """A turn while it is played. `interrupt` and `steer` come from any thread; the rest is the turn's thread's own.

    A message is taken in where the turn comes to its next step; one that comes too late for that is rejected.

    Args:
        request: the prompt and its limit.
        emit: takes the events.
        clock, world: where time and the end of the process come from.
        conversation_id: the conversation it runs in.
        resumed: whether that had turns before.
    """

    def __init__(
        self, request: TurnRequest, emit: Emit, clock: Clock, world: World, conversation_id: str, resumed: bool
    ) -> None:
        self.stop = StopSignal()
        self._request = request
        self._emit = emit
        self._clock = clock
        self._world = world
        self._id = conversation_id
        self._resumed = resumed
        self._started = clock.monotonic()
        self._ears = self.stop  # what ends a wait; a turn that ignores interrupts listens to a signal nobody sets
        self._said: list[str] = []
        self._tools = 0
        self._answer = script.Say(())
        self._exit_status: int | None = None
        self._lock = threading.Lock()  # guards the four below
        self._messages: list[str] = []
        self._unawaited = 0  # messages that came and that no step has waited for; such a step need not wait
        self._listens = True
        self._wake = StopSignal()

    def interrupt(self) -> None:
        """End the turn, unless it ignores interrupts."""
        self.stop.set()
        with self._lock:
            self._wake.set()

    def steer(self, text: str) -> None:
        """Have `text` taken in at the next step.

        Raises:
            NoRunningTurnError: there is none any more.
        """
        with self._lock:
            if not self._listens:
                raise NoRunningTurnError("the turn is finishing", where=self._id)
            self._messages.append(text)
            self._unawaited += 1
            self._wake.set()

    def play(self, steps: Sequence[Step], place: str) -> TurnResult:
        """Carry out `steps`; `place` names the turn in messages.

        Raises:
            TurnFailedError, SessionResumeError: a step says so.
            TurnTimeoutError: the request's limit is over.
        """
        if not self._resumed:
            self._emit(SessionStarted(self._id))
        try:
            for step in steps:
                if self._ears.is_set():
                    break
                self._carry_out(step, place)
                if not self._ears.is_set():
                    self._take_in()
        except AgentSessionError:
            self._reject("the turn failed")
            raise
        interrupted = self._ears.is_set()
        self._reject("the turn was interrupted" if interrupted else "the turn had no step left")
        if interrupted:
            self._emit(TurnInterrupted())
        usage = self._usage()
        self._emit(UsageReport(usage))
        return self._result(usage, interrupted)

    def _carry_out(self, step: Step, place: str) -> None:
        match step:
            case script.Say():
                self._say(step)
            case script.Wait(seconds):
                self._wait(seconds, self._ears)
            case script.Tool():
                self._use(step)
            case script.Fail(kind, message, resets_at):
                raise TurnFailedError(message, kind=kind, resets_at=resets_at, where=place)
            case script.RefuseResume():
                raise SessionResumeError(session_id=self._id, where=place)
            case script.Crash(how):
                self._world.end(how)
            case script.FloodStderr(size):
                for start in range(0, size, FLOOD_PIECE):
                    piece = FLOOD_LINE * (FLOOD_PIECE // len(FLOOD_LINE))
                    self._world.complain(piece[: size - start])
            case script.IgnoreInterrupts():
                self._ears = StopSignal()
            case script.AwaitSteer():
                self._await_steer()
            case script.ExitAfterResult(status):
                self._exit_status = status

    def _say(self, step: script.Say) -> None:
        for piece in step.pieces:
            self._emit(AssistantText(piece))
        self._said.extend(step.pieces)
        self._answer = step

    def _take_in(self) -> None:
        with self._lock:
            taken, self._messages = self._messages, []
        for text in taken:
            self._emit(SteerDelivered(text))
            self._emit(SteerConsumed(text))

    def _reject(self, reason: str) -> None:
        """From now on there is no turn to steer; what was sent and not taken in is told."""
        with self._lock:
            self._listens = False
        for text in self._messages:
            self._emit(SteerDelivered(text))
            self._emit(SteerRejected(text, reason))

    def _await_steer(self) -> None:
        while True:
            with self._lock:
                if self._unawaited or self._ears.is_set():
                    self._unawaited = max(0, self._unawaited - 1)
                    return
                self._wake = wake = StopSignal()
            self._wait(None, wake)

    def _wait(self, seconds: float | None, ears: StopSignal) -> None:
        timeout = self._request.timeout
        if timeout is None:
            if seconds is None:
                ears.wait(None)
            else:
                self._clock.wait(seconds, ears)
            return
        left = max(0.0, self._started + timeout - self._clock.monotonic())
        late = seconds is None or seconds > left
        stopped = self._clock.wait(left if seconds is None else min(seconds, left), ears)
        if late and not stopped:
            raise TurnTimeoutError(timeout)

    def _use(self, step: script.Tool) -> None:
        self._tools += 1
        tool_id = f"tool-{self._tools}"
        self._emit(ToolCall(tool_id, step.name, step.args))
        self._emit(ToolResult(tool_id, step.name, step.stdout, step.stderr, step.exit_code))

    def _usage(self) -> ProviderUsage:
        words_in = len(self._request.prompt.split())
        words_out = sum(len(piece.split()) for piece in self._said)
        return ProviderUsage(TokenUsage(input_tokens=words_in, output_tokens=words_out, turns=1), provider="scripted")

    def _result(self, usage: ProviderUsage, interrupted: bool) -> TurnResult:
        kind = TurnResult if self._exit_status is None else _LastResult
        result = kind(
            text="".join(self._answer.pieces),
            structured_output=self._answer.structured,
            session_id=self._id,
            resumed=self._resumed,
            usage=usage,
            duration_ms=round((self._clock.monotonic() - self._started) * 1000),
            interrupted=interrupted,
        )
        if isinstance(result, _LastResult):
            result.arm(self._world, self._exit_status or 0)
        return result


class _LastResult(TurnResult):
    """A result after which the process ends.

    A conversation does not learn when its result has been sent. It does learn when nobody holds it any more, and a
    worker lets go of a result once it is on the channel.
    """

    def arm(self, world: World, status: int) -> None:
        object.__setattr__(self, "_end", lambda: world.end(status))

    def __del__(self) -> None:
        end = getattr(self, "_end", None)
        if end is not None:
            end()
