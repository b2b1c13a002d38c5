"""Who may claim what: principals, what proves them, and their claim rules; pure."""

import hmac
from dataclasses import dataclass, field

from partyctl_broker.errors import Malformed
from partyctl_broker.keys import decode_public

_PREFIX_MARK = "/*"


def covers(pattern: str, address: str) -> bool:
    """Whether a claim pattern covers an address: the same text, or anything below a prefix that ends in `/*`."""
    if pattern.endswith(_PREFIX_MARK):
        prefix = pattern[:-1]
        return len(address) > len(prefix) and address.startswith(prefix)
    return pattern == address


@dataclass(frozen=True, slots=True)
class Principal:
    """Someone the host vouches for: on this machine by a secret, from beyond it by a key.

    Args:
        name: how it calls itself in HELLO.
        secret: what proves it, 32 bytes; empty if a key does.
        claims: patterns of the addresses it may claim.
        key: its public CURVE key, 32 bytes; empty if a secret proves it.
    """

    name: str
    secret: bytes = field(repr=False)
    claims: tuple[str, ...]
    key: bytes = b""

    def is_proven_by(self, secret: bytes) -> bool:
        """Compare in a time that tells nothing about the secret. No secret proves a principal that has a key."""
        return bool(self.secret) and hmac.compare_digest(self.secret, secret)

    def may_claim(self, address: str) -> bool:
        """Whether one of the rules covers the address."""
        return any(covers(pattern, address) for pattern in self.claims)

    @staticmethod
    def decode(message: dict[str, object]) -> "Principal":
        """The principal in a message of the host: name, secret (32 bytes) or public (a key in Z85), claims (patterns).

        Raises:
            Malformed: a field is missing or of another type.
        """
        name, secret, claims = message.get("name"), message.get("secret"), message.get("claims")
        if not isinstance(name, str) or not name:
            raise Malformed("a principal has no name")
        if not isinstance(claims, list | tuple) or not all(isinstance(pattern, str) for pattern in claims):
            raise Malformed("a principal's claims are not a list of patterns", where=name)
        rules = tuple(str(pattern) for pattern in claims)
        if "public" in message:
            return Principal(name, b"", rules, decode_public(message["public"], name))
        if not isinstance(secret, bytes) or len(secret) != 32:
            raise Malformed("a principal's secret is not 32 bytes", where=name)
        return Principal(name, secret, rules)


class Roll:
    """The principals by name and by key."""

    def __init__(self) -> None:
        self._names: dict[str, Principal] = {}
        self._keys: dict[bytes, str] = {}

    def get(self, name: str) -> Principal | None:
        """The principal of that name."""
        return self._names.get(name)

    def add(self, principal: Principal) -> None:
        """Vouch for a principal; one of the same name is replaced.

        Raises:
            Malformed: another one has its key, and whoever comes with it could be either.
        """
        holder = self._keys.get(principal.key, principal.name)
        if holder != principal.name:
            raise Malformed("two principals cannot have one key", where=principal.name, why=f"{holder} has it")
        self.remove(principal.name)
        self._names[principal.name] = principal
        if principal.key:
            self._keys[principal.key] = principal.name

    def remove(self, name: str) -> None:
        """Vouch for it no more."""
        former = self._names.pop(name, None)
        if former is not None and self._keys.get(former.key) == name:
            del self._keys[former.key]

    def by_password(self, name: bytes, password: bytes) -> str | None:
        """Who says the name and, in hexadecimal, its secret."""
        try:
            principal = self._names.get(name.decode())
            secret = bytes.fromhex(password.decode("ascii"))
        except ValueError:
            return None
        return principal.name if principal is not None and principal.is_proven_by(secret) else None

    def by_key(self, key: bytes) -> str | None:
        """Who has the public key."""
        return self._keys.get(key)
