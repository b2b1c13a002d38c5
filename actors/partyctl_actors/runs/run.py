"""A handle on a run that goes on in the background."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType

from partyctl_actors.runs.feed import Feed
from partyctl_actors.runs.local import LocalRun
from partyctl_actors.runs.tracing import RunEvent
from partyctl_actors.transcript import Transcript


class Run:
    """One execution of a session, started by `Session.start`. Observable, not editable.

    `async with session.start() as run:` cancels it at the end of the block, if it still goes on.

    Attributes:
        id: the run's id.
    """

    def __init__(self, run_id: str, execution: LocalRun, feed: Feed) -> None:
        self.id = run_id
        self._execution = execution
        self._feed = feed
        self._task = asyncio.get_running_loop().create_task(execution.execute(), name=f"run {run_id}")
        # A failure is reported by `result`; one that nobody asks for is no warning at the end of the program.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._task.add_done_callback(lambda _: self._over())

    def _over(self) -> None:
        # A task that is cancelled before it began has closed nothing itself.
        self._execution.close()
        self._feed.close()

    @property
    def done(self) -> bool:
        """Whether the run is over, one way or the other."""
        return self._task.done()

    @property
    def transcript(self) -> Transcript:
        """What was delivered so far."""
        return self._execution.transcript

    def events(self) -> AsyncIterator[RunEvent]:
        """What happens from now on, to the end of the run, in order; called right after `start`, all of it.

        Any number of listeners may follow a run, each at its own pace. The last event is RunEnded or RunFailed; why a
        run failed is raised by `result`.
        """
        return self._feed.listen()

    async def result(self) -> Transcript:
        """Wait for the end; the wait may be given up without harm to the run.

        Raises:
            Cancelled: the run was cancelled.
            PartyError, Exception: what ended it early, as `Session.run` raises it.
        """
        return await asyncio.shield(self._task)

    async def cancel(self, reason: str = "it was cancelled by its program") -> None:
        """Stop the run and wait until every role has stopped. Does nothing once it is over."""
        if not self._task.done():
            self._execution.cancel(reason)
            await asyncio.wait({self._task})

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.cancel("its block was left")

    def __repr__(self) -> str:
        return f"<Run {self.id}: {'over' if self.done else 'going on'}, {len(self.transcript)} envelopes>"
