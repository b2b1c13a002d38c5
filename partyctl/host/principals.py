"""Who may connect to the broker of a party, so that a broker that is started again is told all of them anew."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from partyctl.host.children import Child


@dataclass(frozen=True, slots=True)
class Principal:
    """Who may connect to the broker, which addresses it may claim, and the child it goes with, if any."""

    name: str
    claims: tuple[str, ...]
    owner: str = ""
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)


class Principals:
    """The principals of one party.

    Args:
        broker: the broker that runs or is being started, None if there is none.
    """

    def __init__(self, broker: Callable[[], Child | None]) -> None:
        self._broker = broker
        self._known: dict[str, Principal] = {}

    async def admit(self, name: str, claims: tuple[str, ...], owner: str = "") -> Principal:
        """Make a principal known to the broker, with a fresh secret. It is forgotten with the child `owner`."""
        principal = self._known[name] = Principal(name, claims, owner)
        await self._introduce(principal)
        return principal

    async def dismiss(self, name: str) -> None:
        """Forget a principal; its connection, if any, is closed by the broker."""
        broker = self._broker()
        if self._known.pop(name, None) is not None and broker is not None:
            await broker.send({"t": "forget", "name": name})

    async def dismiss_all_of(self, owner: str) -> None:
        """Forget the principals that go with a child."""
        for principal in [each for each in self._known.values() if each.owner == owner]:
            await self.dismiss(principal.name)

    async def introduce_all(self) -> None:
        """Make all of them known to a broker that has just been started."""
        for principal in list(self._known.values()):
            await self._introduce(principal)

    async def _introduce(self, principal: Principal) -> None:
        broker = self._broker()
        if broker is not None:
            claims = list(principal.claims)
            await broker.send({"t": "principal", "name": principal.name, "secret": principal.secret, "claims": claims})
