"""How a conductor and its role actors reach each other: through a bus, or within one process by direct calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from partyctl_actors.runs import messages
from partyctl_broker.port import Bus, Mailbox

TURN: Final = 256
"""Calls made before other callbacks of the loop get their turn."""


class ToRoles(Protocol):
    """The conductor's line."""

    def send(self, role: str, message: messages.ToRole) -> None:
        """Tell a role.

        Raises:
            BusError: it cannot be sent.
        """
        ...

    def close(self) -> None:
        """Hang up; whoever is still on the line hears it. Idempotent."""
        ...


class ToConductor(Protocol):
    """A role actor's line."""

    def send(self, message: messages.ToConductor) -> None:
        """Tell the conductor.

        Raises:
            BusError: it cannot be sent.
        """
        ...

    def close(self) -> None:
        """Hang up; the conductor hears it. Idempotent."""
        ...


class ConductorEnd(Protocol):
    """A conductor, as those on its line know it."""

    def told(self, role: str, message: messages.ToConductor) -> None:
        """A role said something."""
        ...

    def lost(self, role: str, why: str) -> None:
        """A role hung up."""
        ...


class RoleEnd(Protocol):
    """A role actor, as its conductor knows it."""

    def told(self, message: messages.ToRole) -> None:
        """The conductor said something."""
        ...

    def lost(self, why: str) -> None:
        """The conductor hung up."""
        ...


class PostToRoles:
    """A conductor's line through a bus.

    Args:
        mailbox: the conductor's.
        addresses: the roles' addresses by name.
    """

    def __init__(self, mailbox: Mailbox, addresses: Mapping[str, str]) -> None:
        self._mailbox, self._addresses = mailbox, addresses
        self.close = mailbox.close

    def send(self, role: str, message: messages.ToRole) -> None:
        """See `ToRoles.send`."""
        self._mailbox.send(self._addresses[role], messages.encode(message))


class PostToConductor:
    """A role actor's line through a bus.

    Args:
        mailbox: the role's.
        conductor: the conductor's address.
    """

    def __init__(self, mailbox: Mailbox, conductor: str) -> None:
        self._mailbox, self._conductor = mailbox, conductor
        self.close = mailbox.close

    def send(self, message: messages.ToConductor) -> None:
        """See `ToConductor.send`."""
        self._mailbox.send(self._conductor, messages.encode(message))


class DirectLines:
    """The lines of one run within one process. Nothing is packed, and the conductor is called at once. A role is called
    from the loop, so that two who answer each other do not grow a stack, and everybody else on the loop gets a turn.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: deque[tuple[Callable[[Any], None], object]] = deque()
        self._scheduled = False
        self._conductor: ConductorEnd | None = None
        self._roles: dict[str, RoleEnd] = {}

    def conductor(self, end: ConductorEnd) -> ToRoles:
        """The line of the conductor, of whom there is one, before any role."""
        self._conductor = end
        return _DirectToRoles(self)

    def role(self, name: str, end: RoleEnd) -> ToConductor:
        """The line of a role."""
        assert self._conductor is not None, "the conductor comes first"
        self._roles[name] = end
        return _DirectToConductor(self, name, self._conductor)

    def tell_role(self, name: str, message: messages.ToRole) -> None:
        """See `ToRoles.send`."""
        end = self._roles.get(name)
        if end is not None:
            self._calls.append((end.told, message))
            if not self._scheduled:
                self._schedule()
        elif self._conductor is not None:
            self._conductor.lost(name, "it is not there")

    def leave(self, name: str) -> None:
        """A role hung up."""
        if self._roles.pop(name, None) is not None and self._conductor is not None:
            self._conductor.lost(name, "it was closed")

    def end(self) -> None:
        """The conductor hung up."""
        if self._conductor is not None:
            self._conductor = None
            self._calls.extend((end.lost, "it was closed") for end in self._roles.values())
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        calls = self._calls
        try:
            for _ in range(TURN):
                if not calls:
                    break
                call, argument = calls.popleft()
                call(argument)
        finally:
            self._scheduled = bool(calls)
            if self._scheduled:
                self._loop.call_soon(self._turn)


class _DirectToRoles:
    def __init__(self, lines: DirectLines) -> None:
        self.send = lines.tell_role
        self.close = lines.end


class _DirectToConductor:
    def __init__(self, lines: DirectLines, name: str, conductor: ConductorEnd) -> None:
        self.send = partial(conductor.told, name)
        self.close = partial(lines.leave, name)


Ways: TypeAlias = Bus | DirectLines
"""What conductors and role actors are given to reach each other."""
