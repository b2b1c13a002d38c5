"""Peers beyond this machine: what the broker is told of them, and where it listens for them.

The host has one of these if party.toml has [listen]; otherwise the broker is told nothing and listens nowhere.

    closed   no broker has the endpoint: it is being started, or the endpoint could not be taken
    open     the broker listens; `url` is where

The first time an endpoint cannot be taken the party does not start. When a broker that is started again cannot take it,
somebody else was faster: the party goes on, says so in `status`, and tries again until it has it. If any port would do
(port 0), the broker first asks for the one it had, which peers know, and takes another one only if that is gone.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from partyctl.errors import HostError
from partyctl.host.children import Child
from partyctl.host.chronicle import NOBODY, Witness
from partyctl.keys import Keys, principal
from partyctl.maps import Map
from partyctl_broker.keys import KnownKey

LISTEN_LIMIT: Final = 10.0
"""Seconds the broker may take to listen, and to say that it has heard of a key."""

RETRY_FIRST: Final = 0.5
RETRY_LAST: Final = 5.0
"""Seconds between two attempts to take an endpoint that was lost, at first and at most."""


class Listening:
    """The keys that the broker knows, and its endpoint for those who have one.

    Args:
        url: where to listen, as party.toml has it; port 0 for any.
        keys: whom to let in.
        report: says a line to the person at the terminal.
        witness: takes note of what happens.

    Attributes:
        url: where the broker listens, or did last; as party.toml has it before that.
        trouble: why it does not; empty if it does, or is being started.

    Raises:
        KeyRefused, PathError: the keys cannot be read.
    """

    def __init__(self, url: str, keys: Keys, report: Callable[[str], None], witness: Witness = NOBODY) -> None:
        self._wanted = self.url = url
        self.trouble = ""
        self._keys = keys
        self._pair = keys.broker()
        self._known = keys.known()
        self._report, self._witness = report, witness
        self._refreshing = asyncio.Lock()
        self._broker: Child | None = None
        self._open: Child | None = None
        self._was_open = False

    @property
    def is_open(self) -> bool:
        """Whether a living broker listens."""
        return self._open is not None and not self._open.exited.done()

    @property
    def names(self) -> list[str]:
        """The peers that the broker lets in."""
        return sorted(self._known)

    @property
    def directory(self) -> str:
        """Where the keys are."""
        return str(self._keys.directory)

    async def begin(self, broker: Child) -> None:
        """Tell a new broker whom to let in, and to listen.

        Raises:
            HostError: it cannot, and no broker before it could.
        """
        # From here on a key that is revoked is forgotten by this broker. So what follows looks again before each send.
        self._broker = broker
        for name in list(self._known):
            if (key := self._known.get(name)) is not None:
                await broker.send(_order(key))
        if await self._listen(broker, self.url) or broker.exited.done():
            return
        if not self._was_open:
            fix = "Name an address of this machine and a free port in [listen], or port 0 for any"
            raise HostError("the party cannot listen", where=self.url, why=self.trouble, fix=fix)
        if self._wanted.endswith(":0") and await self._listen(broker, self._wanted):
            return
        self._report(f"the party does not listen any more: {self.trouble}")
        self._witness.happened("not_listening", "party", self.trouble, url=self.url)

    async def insist(self, broker: Child) -> None:
        """Try again until this broker listens or ends."""
        wait = RETRY_FIRST
        while not self.is_open:
            await asyncio.wait((broker.exited,), timeout=wait)
            if broker.exited.done():
                return
            wait = min(2 * wait, RETRY_LAST)
            # It may have listened after all, and only said so too late.
            await broker.send({"t": "unlisten", "url": self.url})
            await self._listen(broker, self.url)

    async def refresh(self, revoked: str = "") -> None:
        """Have the broker let in those whose keys there are now, and nobody else; returns when it does.

        Args:
            revoked: a name to forget in any case, even if the keys cannot be read.

        Raises:
            KeyRefused, PathError: the keys cannot be read; what was known is still known, but for `revoked`.
            HostError: the broker does not answer.
        """
        try:
            async with asyncio.timeout(LISTEN_LIMIT), self._refreshing:
                await self._apply(revoked)
                broker = self._broker
                confirmed = broker is None or await broker.caught_up(limit=LISTEN_LIMIT) or broker.exited.done()
        except TimeoutError:
            confirmed = False
        if not confirmed:
            why = f"the broker did not answer within {LISTEN_LIMIT:.0f} s"
            fix = "It may still know the former keys. Look at partyctl status, or start the party again"
            raise HostError("the running party has not confirmed its keys", why=why, fix=fix)

    async def _apply(self, revoked: str) -> None:
        if revoked in self._known:
            await self._forget(revoked)
        known = self._keys.known()
        for name in [name for name, key in self._known.items() if known.get(name) != key]:
            await self._forget(name)
        for name, key in known.items():
            if name not in self._known:
                self._known[name] = key
                self._witness.happened("key_added", name, claims=list(key.claims))
                if self._broker is not None:
                    await self._broker.send(_order(key))

    async def _forget(self, name: str) -> None:
        del self._known[name]
        self._witness.happened("key_revoked", name)
        if self._broker is not None:
            await self._broker.send({"t": "forget", "name": principal(name)})

    async def _listen(self, broker: Child, url: str) -> bool:
        order = {"t": "listen", "url": url, "public": self._pair.public, "secret": self._pair.secret}
        answer = await broker.call(order, ("listening", "refused"), limit=LISTEN_LIMIT)
        if answer is None or answer["t"] == "refused":
            why = f"the broker did not answer within {LISTEN_LIMIT:.0f} s" if answer is None else str(answer.get("why"))
            # Who reads this is told the url anyway.
            self.trouble = why.partition(f"({url}): ")[2] or why
            return False
        moved = self.url != str(answer["url"])
        self.url, self.trouble = str(answer["url"]), ""
        self._open = broker
        if moved or not self._was_open:
            self._report(f"listening for peers beyond this machine at {self.url}")
        self._was_open = True
        self._witness.happened("listening", "party", url=self.url)
        return True


def document(listening: Listening | None) -> Map | None:
    """What `status` shows of it; None if the party is not to listen."""
    if listening is None:
        return None
    state = "listening" if listening.is_open else "not listening"
    return {
        "url": listening.url,
        "state": state,
        "keys": len(listening.names),
        "last_cause": listening.trouble or None,
    }


def _order(key: KnownKey) -> Map:
    return {"t": "key", "name": principal(key.name), "public": key.public, "claims": list(key.claims)}
