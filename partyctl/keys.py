"""The keys of a party: who may come in from beyond this machine, and which addresses they may claim there.

They are in `keys/` of the party's state directory (0700, files 0600): the public key and the claims of each peer, and
the broker's own pair. A peer's secret key is told once, by whoever makes it, and kept nowhere here.
"""

import difflib
from typing import Final

from partyctl_base.paths import state_directory
from partyctl_broker.errors import KeyRefused, LetterRefused
from partyctl_broker.keys import KeyPair, KeyStore, KnownKey
from partyctl_broker.wire import check_address

PLACES: Final = ("desk", "session", "run")
"""The first parts of addresses that a key may claim. A node obeys whoever has an address below client/, and runs that
are under way rely on node/: those two are the party's own, and so is whatever gets a name later."""


def default_claims(name: str) -> tuple[str, ...]:
    """What a key may claim unless it is said otherwise: one desk and one session, of the key's own name."""
    return (f"desk/{name}", f"session/{name}")


def principal(name: str) -> str:
    """How the peer with the key `name` calls itself at the broker. No process of the party is called so."""
    return f"key/{name}"


def check_claim(pattern: str) -> None:
    """Refuse what is no claim pattern for a key.

    Args:
        pattern: an address, as `desk/anna`, or a prefix that ends in `/*`, as `run/*`.

    Raises:
        KeyRefused: it is neither, or below an address that is the party's own.
    """
    address = pattern.removesuffix("/*")
    place, _, rest = address.partition("/")
    why = ""
    try:
        check_address(address)
    except LetterRefused as error:
        why = error.why
    if "*" in address or not address.isprintable() or not all(address.split("/")):
        why = "it is neither an address nor a prefix that ends in /*"
    elif place not in PLACES:
        near = difflib.get_close_matches(place, PLACES, n=1)
        places = ", ".join(f"{each}/" for each in PLACES)
        why = f"it begins with none of {places}" + (f"; did you mean {near[0]}/?" if near else "")
    elif not rest and address == pattern:
        why = f"{place} alone is no address"
    if why:
        raise KeyRefused("a key cannot claim this", where=ascii(pattern[:80]), why=why, fix="Use one like desk/anna")


class Keys:
    """The keys of `party`.

    Raises:
        PathError: its state directory cannot be used.
    """

    def __init__(self, party: str) -> None:
        self.directory = state_directory(party) / "keys"
        self._store = KeyStore(self.directory)

    def add(self, name: str, claims: tuple[str, ...], public: str = "") -> KeyPair:
        """Let a peer in; its pair, without a secret if the peer made it itself and gave its `public` key.

        Raises:
            KeyRefused: the name, a claim or the public key cannot be used or has been already, or it cannot be written.
        """
        for claim in set(claims) - set(default_claims(name)):  # of a name that is none, the store says so
            check_claim(claim)
        return self._store.add(name, claims, public)

    def known(self) -> dict[str, KnownKey]:
        """All peers that are let in, by name.

        Raises:
            KeyRefused: a file of the directory is no key file, or cannot be read.
        """
        # A copy of its file under another name must not outlive the revocation of a key.
        return {key.name: key for key in self._store.known() if (self.directory / f"{key.name}.key").exists()}

    def revoke(self, name: str) -> None:
        """Let a peer in no more.

        Raises:
            KeyRefused: nobody of that name is known, or it cannot be removed.
        """
        self._store.revoke(name)

    def broker(self) -> KeyPair:
        """The broker's own pair; made when it is first asked for.

        Raises:
            KeyRefused: its file holds something else, or cannot be read or written.
        """
        return self._store.broker()
