"""A model that answers from a list or by a function: for tests, demos, and agents that need no model."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence

from partyctl_actors.errors import ModelError
from partyctl_actors.participants.interface import Offer
from partyctl_actors.participants.models import Answer, ModelRequest
from partyctl_actors.participants.script import check_lines
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role


class Replies:
    """See `replies`."""

    def __init__(self, source: Sequence[Message] | Callable[[Offer], Message | Awaitable[Message]]) -> None:
        self._source = source if callable(source) else tuple(source)
        self._next = 0
        for line in () if callable(self._source) else self._source:
            if not isinstance(line, Message):
                raise TypeError(f"a reply is a message such as Article('done'), not {line!r}")

    def check(self, protocol: Protocol, role: Role) -> None:
        """See `Checked.check`: lines can be said in this order."""
        if not callable(self._source):
            check_lines(protocol, role, self._source)

    def fresh(self) -> Replies:
        """The same replies from the first line."""
        return Replies(self._source)

    def skip(self) -> None:
        """Pass over one line, because it was said in an earlier life of the run."""
        self._next += 1

    async def complete(self, request: ModelRequest) -> Answer:
        """See `LanguageModel.complete`."""
        if callable(self._source):
            reply = self._source(request.offer)
            return Answer(await reply if inspect.isawaitable(reply) else reply)
        if self._next >= len(self._source):
            raise ModelError(
                "The replies have no line left",
                where=str(request.offer.role),
                why=f"all {len(self._source)} were said",
                fix="Give replies([...]) a line for each time the role speaks",
            )
        self._next += 1
        return Answer(self._source[self._next - 1])


def replies(source: Sequence[Message] | Callable[[Offer], Message | Awaitable[Message]]) -> Replies:
    """A model that gives these messages in order, or what a function makes of each offer.

    Every run and role begins at the first line. A function may be async; one that is not must not block.

    Raises:
        TypeError: a line is not a message.
    """
    return Replies(source)
