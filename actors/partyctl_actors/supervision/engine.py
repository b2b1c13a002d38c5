"""What an agent session works with: something that opens connections to a provider, in this process or in workers.

Both are called from threads and block. Nothing here retries, waits for better times, or decides.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from partyctl_actors.supervision.policy_events import Found
from partyctl_base.clock import StopSignal
from partyctl_plugins.contract import (
    ConversationSpec,
    Emit,
    ProviderProfile,
    TurnCancelledError,
    TurnRequest,
    TurnResult,
    TurnTimeoutError,
)

C = TypeVar("C")


class Connection(Protocol):
    """One open conversation, and whatever it takes to reach it."""

    @property
    def conversation_id(self) -> str | None:
        """The provider's id of the conversation, None until it has one."""

    @property
    def alive(self) -> bool:
        """Whether a turn can still be asked of it."""

    def turn(self, attempt: str, request: TurnRequest, emit: Emit, stop: StopSignal) -> TurnResult:
        """Run one turn; `emit` is called on the calling thread. If `stop` is set already, the provider is not asked.

        Args:
            attempt: the name of the turn and of the attempt at it. The attempt that this connection was taken over
                with is not asked for again: what comes of it is waited for.
            request, emit, stop: as above.

        Raises:
            AgentSessionError: the provider failed it.
            LauncherLost: all workers are gone, for no fault of this one.
            Exception: anything else is the transport's own bug.
        """

    def acknowledge(self, attempt: str) -> None:
        """What came of this attempt is durable: nobody need keep it any longer. Returns at once."""

    def interrupt(self) -> None:
        """Have the running turn end. Returns at once; does nothing without one."""

    def steer(self, text: str) -> None:
        """Send a message into the running turn; see `SteerableConversation.steer`."""

    def close(self) -> None:
        """End the connection, and a turn that runs in it. Idempotent, never raises, has a limit."""


class Engine(Protocol):
    """Opens connections, one at a time.

    Attributes:
        found: what was found of the worker of a session that had this one's log before.
        taken: that worker's connection, taken over; None if there is none.
        end: how that worker ended, as far as it is known and it did.
    """

    @property
    def found(self) -> Found: ...

    @property
    def taken(self) -> Connection | None: ...

    @property
    def end(self) -> str: ...

    @property
    def profile(self) -> ProviderProfile:
        """What the provider can do."""

    @property
    def predecessor_dead(self) -> bool:
        """Whether the end of the process behind the connection before is confirmed."""

    def open(self, spec: ConversationSpec, stop: StopSignal, limit: float) -> Connection:
        """Open a connection. One that is not there when this raises will not be: what comes late is closed.

        Args:
            spec: what with.
            stop: if it is set already, nothing is opened.
            limit: how long it may take, in seconds.

        Raises:
            TurnCancelledError: it was stopped, or abandoned.
            TurnTimeoutError: it took too long.
            AgentSessionError, LauncherLost, Exception: as for `Connection.turn`.
        """

    def abandon(self) -> None:
        """Have the opening under way, if there is one, raise at once. From any thread."""

    def close(self) -> None:
        """Give up everything that is still held. Idempotent, never raises."""


class Opening(Generic[C]):
    """An opening under way on another thread; whoever waits for it may give it up.

    Args:
        dispose: told what was opened after it was given up.
    """

    def __init__(self, dispose: Callable[[C], None]) -> None:
        self._dispose = dispose
        self._moved = threading.Condition()
        self._given_up = False
        self._made: list[C] = []
        self._error: BaseException | None = None

    def made(self, opened: C) -> None:
        """It has succeeded."""
        with self._moved:
            late = self._given_up
            if not late:
                self._made.append(opened)
                self._moved.notify_all()
        if late:
            self._dispose(opened)

    def failed(self, error: BaseException) -> None:
        """It has failed."""
        with self._moved:
            self._error = error
            self._moved.notify_all()

    def abandon(self) -> None:
        """Whoever waits gives up now."""
        with self._moved:
            self._given_up = not self._made
            self._moved.notify_all()

    def result(self, limit: float) -> C:
        """What was opened.

        Raises:
            TurnCancelledError: it was abandoned.
            TurnTimeoutError: it took longer than `limit` seconds.
            BaseException: what it failed with.
        """
        try:
            with self._moved:
                over = self._moved.wait_for(lambda: self._made or self._error or self._given_up, limit)
                if self._made:
                    return self._made[0]
                if self._error is not None:
                    raise self._error
                if over:
                    raise TurnCancelledError("the opening of a conversation was interrupted")
            raise TurnTimeoutError(limit, where="open", why="the conversation was not opened in time")
        except BaseException:
            self.abandon()
            for opened in self._made:  # somebody pressed Ctrl-C in the very moment
                self._dispose(opened)
            raise
