"""A role that is played by a plain function."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from partyctl_actors.errors import ConformanceError
from partyctl_actors.participants.annotations import returned
from partyctl_actors.participants.conformity import fits, labels
from partyctl_actors.participants.interface import BasePlayer, Offer, Seat
from partyctl_actors.protocol.conformance import Says
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role
from partyctl_actors.transcript import Envelope, Log, Transcript

T = TypeVar("T")
_log = logging.getLogger("partyctl.runs")

PlainFunction: TypeAlias = Callable[[Offer, Transcript], Message | Awaitable[Message]]
"""`function(offer, heard)`: what may be said now, and all that was said to the role so far (`heard.last(Ticket)` is the
newest Ticket). It returns the message, or is an `async def` that does. One that is not async runs in a thread."""


class Function:
    """A role played by a function; a cast may name the function itself.

    Args:
        function: see `PlainFunction`.

    Raises:
        ConformanceError: it cannot be called with two arguments.
    """

    def __init__(self, function: PlainFunction) -> None:
        self.function = function
        try:
            inspect.signature(function).bind(None, None)
        except TypeError as error:
            raise ConformanceError(
                "A function that plays a role is called with (offer, heard)",
                where=named(function),
                why=str(error),
                fix="Give it these two parameters",
            ) from None
        except ValueError:
            # Some built-in callables have no signature to look at.
            pass

    def check(self, protocol: Protocol, role: Role) -> None:
        """See `Checked.check`: what the function is annotated to return is on offer."""
        kinds = returned(self.function)
        if kinds is not None:
            fits(protocol, role, Says(labels(protocol, role, kinds, f"what {named(self.function)} returns")))

    def bind(self, seat: Seat) -> _FunctionPlayer:
        """See `Participant.bind`."""
        return _FunctionPlayer(self.function, seat)

    def __repr__(self) -> str:
        return f"Function({named(self.function)})"


class _FunctionPlayer(BasePlayer):
    def __init__(self, function: PlainFunction, seat: Seat) -> None:
        self._function = function
        self._role = seat.role
        self._heard = Log(seat.protocol.messages)

    def hear(self, envelope: Envelope) -> None:
        self._heard.add(envelope)

    async def author(self, offer: Offer) -> Message:
        heard = self._heard.snapshot()
        return await run_function(
            f"partyctl role {self._role}", is_async(self._function), lambda: self._function(offer, heard)
        )


def is_async(function: object) -> bool:
    """Whether calling it gives a coroutine: an `async def`, or an object whose `__call__` is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def run_function(name: str, asynchronous: bool, call: Callable[[], T | Awaitable[T]]) -> T:
    """What `call` returns: on the loop if it is asynchronous, else from a thread of its own by this name.

    A thread cannot be made to stop; one that is no longer waited for is named in the log.
    """
    try:
        answer = call() if asynchronous else await in_thread(name, call)
    except asyncio.CancelledError:
        if not asynchronous:
            _log.warning("The thread %r goes on, though nobody waits for what it returns", name)
        raise
    return await answer if inspect.isawaitable(answer) else answer


async def in_thread(name: str, work: Callable[[], T]) -> T:
    """What `work` returns or raises, from a thread of its own.

    A daemon thread per call and not the loop's pool: one that never returns holds up neither the end of the run nor of
    the process.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Callable[[], T]] = loop.create_future()

    def settle(outcome: Callable[[], T]) -> None:
        if not done.done():
            done.set_result(outcome)

    def run() -> None:
        outcome = _outcome(work)
        # A RuntimeError says that the run ended without waiting for this thread, and its loop with it.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name=name, daemon=True).start()
    return (await done)()


def _outcome(work: Callable[[], T]) -> Callable[[], T]:
    try:
        result = work()
    except BaseException as error:
        raised = error

        def fail() -> T:
            raise raised

        return fail
    return lambda: result


def named(function: object) -> str:
    """How a function is called in a message to a person."""
    return getattr(function, "__qualname__", None) or repr(function)
