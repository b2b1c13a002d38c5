"""An agent session's provider in this process: a `Transport` object, called on the thread that runs the turn.

A thread cannot be killed, so here nothing can be forced: a turn whose provider ignores an interrupt goes on until the
provider ends it. Only a worker can be taken away from under a turn.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
import threading
from collections import deque
from collections.abc import Callable

from partyctl_actors.supervision.engine import Opening
from partyctl_actors.supervision.plan import SupervisorLimits
from partyctl_actors.supervision.policy_events import Found
from partyctl_base.clock import StopSignal
from partyctl_plugins.checks import check_instance, name_of, shown
from partyctl_plugins.contract import (
    AgentEvent,
    Conversation,
    ConversationSpec,
    Emit,
    NoRunningTurnError,
    ProviderCapabilityError,
    ProviderProfile,
    SessionStateError,
    SteerableConversation,
    Transport,
    TurnCancelledError,
    TurnFailedError,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.events import TurnInterrupted
from partyctl_plugins.schema_places import SchemaPlace

_log = logging.getLogger("partyctl.supervision")

INTERRUPT_AGAIN = 0.25
"""Seconds after which a turn that had not come to listen yet is interrupted once more (a worker does the same)."""


class LocalEngine:
    """Opens conversations of a transport.

    Args:
        transport: whose.
        limits: how long a close may take, and an interrupt or a message until the next turn begins.
    """

    predecessor_dead = True
    found = Found.GONE
    taken = None
    end = ""

    def __init__(self, transport: Transport, limits: SupervisorLimits) -> None:
        self._transport = transport
        self._limits = limits
        self._opening: Opening[Conversation] | None = None
        self._held: list[Conversation] = []

    @property
    def profile(self) -> ProviderProfile:
        profile = self._transport.profile
        check_instance("profile of a transport", profile, ProviderProfile)
        return profile

    def open(self, spec: ConversationSpec, stop: StopSignal, limit: float) -> LocalConnection:
        """See `Engine.open`. The transport opens on a thread of its own, so that an interrupt need not wait for it."""
        self._opening = opening = Opening[Conversation](self._dispose)
        if stop.is_set():
            raise TurnCancelledError("the opening of a conversation was interrupted")
        _thread("open", lambda: self._open(spec, opening))
        conversation = opening.result(limit)
        try:
            return LocalConnection(conversation, self._limits, self.profile, self._taken)
        except BaseException:
            _thread("close", lambda: self._dispose(conversation))
            raise

    def abandon(self) -> None:
        opening = self._opening
        if opening is not None:
            opening.abandon()

    def close(self) -> None:
        """See `Engine.close`: what was opened, and came to nobody because of a Ctrl-C, say."""
        for conversation in list(self._held):
            _thread("close", functools.partial(self._dispose, conversation)).join(self._limits.close)

    def _open(self, spec: ConversationSpec, opening: Opening[Conversation]) -> None:
        try:
            conversation = self._transport.open(spec)
        except BaseException as error:
            opening.failed(error)
        else:
            self._held.append(conversation)
            opening.made(conversation)

    def _taken(self, conversation: Conversation) -> None:
        with contextlib.suppress(ValueError):
            self._held.remove(conversation)

    def _dispose(self, conversation: Conversation) -> None:
        self._taken(conversation)
        _quietly("a conversation that was opened too late could not be closed", conversation.close)


class LocalConnection:
    """One conversation of a transport.

    Raises:
        Exception: it does not say how it is called.
    """

    def __init__(
        self, conversation: Conversation, limits: SupervisorLimits, profile: ProviderProfile,
        taken: Callable[[Conversation], None],
    ) -> None:  # fmt: skip
        self._known = name_of(conversation)
        self.alive = True
        self._conversation = conversation
        self._limits = limits
        self._profile = profile
        self._taken = taken
        self._place = SchemaPlace()
        self._changed = threading.Condition()
        # Guarded by that: whether a turn runs, whether it was interrupted, and how many threads reach into it.
        self._running = False
        self._interrupted = False
        self._inside = 0

    @property
    def conversation_id(self) -> str | None:
        try:
            self._known = name_of(self._conversation)
        except Exception:
            _log.exception("A conversation does not say any more how it is called; it was %r", self._known)
        return self._known

    def turn(self, attempt: str, request: TurnRequest, emit: Emit, stop: StopSignal) -> TurnResult:
        """See `Connection.turn`."""
        self._taken(self._conversation)
        if request.idle_timeout is not None:
            raise ProviderCapabilityError(
                "a transport in this process cannot be held to idle_timeout",
                why="its turn runs on the thread of its caller, where nothing can end it",
                fix="Leave idle_timeout out, or name a provider, whose turns run in a worker",
            )
        with self._changed:
            if not self._changed.wait_for(lambda: self._inside == 0, self._limits.interrupt):
                # What was meant for the turn before would land in this one.
                self.alive = False
                raise TurnFailedError(
                    "an interrupt or a message of an earlier turn did not return",
                    where=attempt,
                    why=f"the transport has had it for {self._limits.interrupt:g} s",
                )
            self._running, self._interrupted = True, False
        try:
            if stop.is_set():
                emit(TurnInterrupted())
                return TurnResult(session_id=self.conversation_id, interrupted=True)
            told = _Told(emit)
            try:
                result = self._conversation.turn(self._place.placed(request, self._profile), told)
            finally:
                told.end()
            if not isinstance(result, TurnResult):
                raise TypeError(f"turn returned a {type(result).__name__}, not a TurnResult")
            return result
        finally:
            with self._changed:
                self._running = False
                self._changed.notify_all()

    def acknowledge(self, attempt: str) -> None:
        """See `Connection.acknowledge`: here nothing is kept."""

    def interrupt(self) -> None:
        """See `Connection.interrupt`. On a thread of its own: a transport may take its time for it."""
        with self._changed:
            if not self._running or self._interrupted:
                return
            self._interrupted = True
            self._inside += 1
        _thread("interrupt", self._interrupt)

    def steer(self, text: str) -> None:
        """See `Connection.steer`."""
        conversation = self._conversation
        if not isinstance(conversation, SteerableConversation):
            raise ProviderCapabilityError(
                "the provider takes no message while a turn runs", fix="Say it in the prompt of the next turn"
            )
        with self._changed:
            if not self._running:
                raise NoRunningTurnError("there is no running turn to steer")
            self._inside += 1
        try:
            conversation.steer(text)
        finally:
            self._left()

    def close(self) -> None:
        """See `Connection.close`. A transport that takes longer than its limit is left to itself."""
        self.alive = False
        self._taken(self._conversation)
        closing = _thread("close", lambda: _quietly("a conversation could not be closed", self._conversation.close))
        closing.join(self._limits.close)
        if closing.is_alive():
            _log.error("A conversation was not closed within %g s and is left to itself", self._limits.close)
        else:
            self._place.remove()

    def _interrupt(self) -> None:
        try:
            _quietly("an interrupt failed", self._conversation.interrupt)
            with self._changed:
                over = self._changed.wait_for(lambda: not self._running, INTERRUPT_AGAIN)
            if not over:
                _quietly("an interrupt failed", self._conversation.interrupt)
        finally:
            self._left()

    def _left(self) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()


class _Told:
    """The `emit` of one turn. It calls the session's on the thread of the turn only, and after the end of that never.

    What other threads tell waits until the turn's own tells something, or ends.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._waiting: deque[AgentEvent] = deque()
        self._over = False

    def __call__(self, event: AgentEvent) -> None:
        if not isinstance(event, AgentEvent):
            raise TypeError(f"emit takes an event, not {shown(event)}")
        with self._lock:
            if self._over:
                raise SessionStateError("an event came after the end of its turn", where=type(event).__name__)
            self._waiting.append(event)
        if threading.get_ident() == self._thread:
            self._tell()

    def end(self) -> None:
        """Tell what still waits; nothing comes after it."""
        with self._lock:
            self._over = True
        self._tell()

    def _tell(self) -> None:
        while self._waiting:
            self._emit(self._waiting.popleft())


def _thread(name: str, work: Callable[[], object]) -> threading.Thread:
    """`work` on a thread of its own, in the caller's context, that holds up no exit."""
    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name=name, daemon=True)
    thread.start()
    return thread


def _quietly(what: str, work: Callable[[], object]) -> None:
    """Do `work`; what it raises is a line of the log, because nobody is there who could do anything about it."""
    try:
        work()
    except BaseException:  # on a thread of its own, where there is nobody to interrupt
        _log.exception("%s", what[0].upper() + what[1:])
