"""What a handler raises, kept until the turn that it was told of has ended."""

from collections.abc import Callable
from types import TracebackType

from partyctl_plugins.events import AgentEvent


class GuardedEmit:
    """An `emit` that never raises, for a transport whose provider goes on answering whatever a handler does.

    A turn left in the middle leaves its answer to the next one. So what a handler raises ends the turn in the ordinary
    way, by `stop`; it is told nothing more, and what it raised comes out at the end of the `with` block, in place of
    the turn's own result or error::

        with GuardedEmit(emit, self.interrupt) as guarded:
            return self._run(request, guarded)

    Args:
        emit: tells the handlers.
        stop: has the turn end early.

    Attributes:
        failure: what was raised, None so far.
    """

    def __init__(self, emit: Callable[[AgentEvent], None], stop: Callable[[], None]) -> None:
        self.failure: Exception | None = None
        self._emit = emit
        self._stop = stop

    def __call__(self, event: AgentEvent) -> None:
        if self.failure is not None:
            return
        try:
            self._emit(event)
        except Exception as error:
            self.failure = error
            self._stop()

    def __enter__(self) -> "GuardedEmit":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.failure is not None and (error is None or isinstance(error, Exception)):
            raise self.failure
