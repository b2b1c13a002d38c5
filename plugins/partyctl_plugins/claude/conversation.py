"""One conversation with Claude Code: one process, one turn at a time, and who may end them.

Rules:

- `turn` runs on the thread that calls it; `interrupt` and `close` come from any other, leave a mark and nudge it.
- A process is used by the next turn only if this one ended by its `result`. A turn that ends in any other way (a close,
  a timeout without a result) takes its process down: a late answer would be taken for the next turn's. The next turn
  starts a new process that resumes.
- A handler that raises interrupts the turn and is told nothing more; what it raised comes out at the turn's end.
- An interrupt before the prompt is written ends the turn without asking the provider.
"""

import threading
import uuid
from collections.abc import Iterable, Mapping

from partyctl_base.clock import Clock
from partyctl_base.ids import IdAllocator
from partyctl_plugins.claude import command, frames, outcome, start
from partyctl_plugins.claude.command import StreamOptions
from partyctl_plugins.claude.frames import Noise
from partyctl_plugins.claude.inbox import Broken, Ended
from partyctl_plugins.claude.process import CliProcess
from partyctl_plugins.claude.turn import Send, Step, Turn
from partyctl_plugins.contract import (
    ConversationSpec,
    Emit,
    GuardedEmit,
    SessionStateError,
    TurnCancelledError,
    TurnFailedError,
    TurnRequest,
    TurnResult,
    TurnTimeoutError,
)
from partyctl_plugins.events import Lifecycle, RawOutput, TurnInterrupted


class ClaudeConversation:
    """A conversation over a `claude` process.

    Args:
        spec: what it is opened with.
        options: the provider's options.
        environ: the environment of the worker.
        clock, ids: where time and request ids come from.
    """

    def __init__(
        self,
        spec: ConversationSpec,
        options: StreamOptions,
        environ: Mapping[str, str],
        *,
        clock: Clock,
        ids: IdAllocator,
    ) -> None:
        self._spec = spec
        self._options = options
        self._environ = environ
        self._clock = clock
        self._ids = ids
        self._conversation_id = spec.resume_id
        self._process: CliProcess | None = None
        self._spent = 0.0
        self._lock = threading.Lock()  # guards the marks below and the assignment of _process
        self._running = False
        self._interrupt_wanted = False
        self._closed = False

    @property
    def conversation_id(self) -> str | None:
        """The CLI's session id; None until it has told one."""
        return self._conversation_id

    @property
    def pid(self) -> int | None:
        """The process id of the CLI, None if none was started."""
        return self._process.pid if self._process else None

    def open(self) -> None:
        """Start the process; see `start.spawn` and `start.shake_hands` for what is raised."""
        self._start(self._options.startup_timeout_s)

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        """Run one turn; see `Conversation.turn`."""
        command.check_request(request, self._spec)
        with self._lock:
            if self._closed:
                raise SessionStateError("the conversation is closed", fix="Open another one.")
            if self._running:
                raise SessionStateError("a turn is running", fix="Wait for its end, or interrupt it.")
            self._running, self._interrupt_wanted = True, False
        try:
            with GuardedEmit(emit, self.interrupt) as guarded:
                return self._turn(request, guarded)
        finally:
            with self._lock:
                self._running = False

    def interrupt(self) -> None:
        """End the running turn; see `Conversation.interrupt`."""
        with self._lock:
            if not self._running:
                return
            self._interrupt_wanted = True
            if self._process is not None:
                self._process.nudge()

    def close(self) -> None:
        """End the process: end of input, terminate, kill, each after `close_grace_s`. A running turn is cancelled."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            process.nudge()
            process.close(self._options.close_grace_s)

    # -- the process -------------------------------------------------------
    def _start(self, timeout: float) -> CliProcess:
        resume_id = self._conversation_id
        process = start.spawn(self._spec, resume_id, self._options, self._environ, self._clock)
        with self._lock:
            self._process, self._spent = process, 0.0
        try:
            request_id = self._ids.new_id("init")
            start.shake_hands(
                process, request_id, resume_id, timeout=timeout, clock=self._clock, check=self._check_closed
            )
        except BaseException:
            process.kill(self._options.close_grace_s)
            raise
        process.attend(False)
        return process

    def _live_process(self, emit: Emit, deadline: float | None) -> CliProcess:
        """The process of the last turn, or a new one that resumes where it ended."""
        process = self._process
        if process is not None and process.usable:
            return process
        if process is not None:
            process.kill(self._options.close_grace_s)
            emit(Lifecycle("restarted", "the claude process had ended; a new one resumes the conversation"))
        timeout = self._options.startup_timeout_s
        if deadline is not None:
            timeout = min(timeout, max(0.0, deadline - self._clock.monotonic()))
        return self._start(timeout)

    def _check_closed(self) -> None:
        if self._closed:
            raise TurnCancelledError("the conversation was closed", where=f"conversation {self._conversation_id}")

    # -- the turn ----------------------------------------------------------
    def _turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        began = self._clock.monotonic()
        deadline = None if request.timeout is None else began + request.timeout
        resumed = self._conversation_id is not None
        process = self._live_process(emit, deadline)
        spent_before = self._spent
        turn = Turn(str(uuid.uuid4()), self._conversation_id)
        if not self._interrupt_wanted:
            self._ask(process, turn, request, emit, deadline)
        try:
            result = outcome.result_of(
                turn,
                resumed=resumed,
                spent_before=spent_before,
                elapsed=self._clock.monotonic() - began,
                approvals=self._spec.approvals,
            )
        except TurnFailedError:
            if (report := outcome.reported(turn, spent_before)) is not None:
                emit(report)
            raise
        if result.interrupted:
            emit(TurnInterrupted())
        return result

    def _ask(self, process: CliProcess, turn: Turn, request: TurnRequest, emit: Emit, deadline: float | None) -> None:
        process.attend(True)
        try:
            process.write(frames.user_message(request.prompt, turn.message_uuid))
            expired = self._follow(process, turn, emit, deadline)
            if expired and request.timeout is not None:
                raise TurnTimeoutError(request.timeout, where=f"conversation {turn.conversation_id}")
        finally:
            self._conversation_id = turn.conversation_id
            process.attend(False)
            if turn.result is not None:
                self._spent = outcome.total_cost(turn.result) or self._spent
            else:
                process.terminate(self._options.close_grace_s)

    def _follow(self, process: CliProcess, turn: Turn, emit: Emit, deadline: float | None) -> bool:
        """Read until the turn is over, or until it has been ended by force. Whether it overran `deadline`."""
        stopping = expired = False
        while not turn.over:
            self._check_closed()
            now = self._clock.monotonic()
            if deadline is not None and now >= deadline:
                if turn.answered:
                    break  # only the reply to the interrupt is missing
                if stopping:
                    process.kill(self._options.close_grace_s)
                    break
                expired = True
            if not stopping and (expired or self._interrupt_wanted):
                stopping = True
                deadline = now + self._options.interrupt_grace_s
                self._carry_out(turn.interrupt(self._ids.new_id("interrupt")), process, emit)
            item = process.read(deadline)
            if isinstance(item, Ended):
                self._check_closed()
                if not stopping and not turn.answered:
                    where = f"in the middle of a turn of conversation {turn.conversation_id}"
                    raise start.ended(process, item.returncode, {}, turn.error, where)
                break
            if isinstance(item, Broken):
                raise start.broken(process, item.why)
            if isinstance(item, Noise):
                emit(RawOutput(item.text))
            elif item is not None:
                self._carry_out(turn.receive(item), process, emit)
        return expired

    def _carry_out(self, steps: Iterable[Step], process: CliProcess, emit: Emit) -> None:
        for step in steps:
            if isinstance(step, Send):
                process.write(step.data)
            else:
                emit(step.event)
