"""A role that is played by a table: for each request, the function that answers it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from partyctl_actors.participants.annotations import returned
from partyctl_actors.participants.conformity import fits, labels
from partyctl_actors.participants.function import is_async, named, run_function
from partyctl_actors.participants.interface import BasePlayer, Offer, Seat
from partyctl_actors.protocol.conformance import Answers
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role
from partyctl_actors.transcript import Envelope

Handler: TypeAlias = Callable[[Any], Message | Awaitable[Message]]
"""Called with the request; returns its answer, or is an `async def` that does. One that is not runs in a thread."""


class Machine:
    """Answers requests by a table, and never speaks first: `Machine({Ticket: resolve})`.

    A session checks the table against its role when it is made: each request that the role is asked has its handler,
    none is left over, the answer goes at once to whoever asked, and what a handler is annotated to return is on offer.

    Args:
        table: the class of a request to the function that is called with it and returns the answer.

    Raises:
        TypeError: a key is no message class, or a value cannot be called with one argument.
    """

    def __init__(self, table: Mapping[type[Message], Handler]) -> None:
        self.table = dict(table)
        for kind, handler in self.table.items():
            if not isinstance(kind, type) or not issubclass(kind, Message) or kind is Message:
                raise TypeError(f"a Machine is keyed by classes of messages, such as Ticket, not by {kind!r:.100}")
            if not callable(handler):
                raise TypeError(f"the Machine's answer to {kind.__name__} is a function, not {handler!r:.100}")
            try:
                inspect.signature(handler).bind(None)
            except TypeError as error:
                raise TypeError(f"{named(handler)} is called with one argument, the {kind.__name__}: {error}") from None
            except ValueError:
                # Some built-in callables have no signature to look at.
                pass

    def check(self, protocol: Protocol, role: Role) -> None:
        """See `Checked.check`."""
        replies: dict[str, frozenset[str] | None] = {}
        for kind, handler in self.table.items():
            (request,) = labels(protocol, role, (kind,), "the table's request")
            answers = returned(handler)
            replies[request] = None if answers is None else labels(protocol, role, answers, f"the answer to {request}")
        fits(protocol, role, Answers(replies))

    def bind(self, seat: Seat) -> _Clerk:
        """See `Participant.bind`."""
        return _Clerk(self.table, seat.role)

    def __repr__(self) -> str:
        return f"Machine({', '.join(kind.__name__ for kind in self.table)})"


class _Clerk(BasePlayer):
    def __init__(self, table: Mapping[type[Message], Handler], role: Role) -> None:
        self._table = table
        self._role = role
        self._request: Message | None = None

    def hear(self, envelope: Envelope) -> None:
        self._request = envelope.message

    async def author(self, offer: Offer) -> Message:
        request = self._request
        assert request is not None, "a table was checked to be asked first"
        handler = self._table[type(request)]
        return await run_function(f"partyctl role {self._role}", is_async(handler), lambda: handler(request))
