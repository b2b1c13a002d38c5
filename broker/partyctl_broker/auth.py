"""Who may claim what: principals, their secrets and their claim rules; pure."""

import hmac
from dataclasses import dataclass, field

from partyctl_broker.errors import Malformed

_PREFIX_MARK = "/*"


def covers(pattern: str, address: str) -> bool:
    """Whether a claim pattern covers an address: the same text, or anything below a prefix that ends in `/*`."""
    if pattern.endswith(_PREFIX_MARK):
        prefix = pattern[:-1]
        return len(address) > len(prefix) and address.startswith(prefix)
    return pattern == address


@dataclass(frozen=True, slots=True)
class Principal:
    """Someone the host vouches for.

    Args:
        name: how it calls itself in HELLO.
        secret: what proves it, 32 bytes.
        claims: patterns of the addresses it may claim.
    """

    name: str
    secret: bytes = field(repr=False)
    claims: tuple[str, ...]

    def is_proven_by(self, secret: bytes) -> bool:
        """Compare in a time that tells nothing about the secret."""
        return hmac.compare_digest(self.secret, secret)

    def may_claim(self, address: str) -> bool:
        """Whether one of the rules covers the address."""
        return any(covers(pattern, address) for pattern in self.claims)

    @staticmethod
    def decode(message: dict[str, object]) -> "Principal":
        """The principal in a message of the host: name, secret (32 bytes), claims (list of patterns).

        Raises:
            Malformed: a field is missing or of another type.
        """
        name, secret, claims = message.get("name"), message.get("secret"), message.get("claims")
        if not isinstance(name, str) or not name:
            raise Malformed("a principal has no name")
        if not isinstance(secret, bytes) or len(secret) != 32:
            raise Malformed("a principal's secret is not 32 bytes", where=name)
        if not isinstance(claims, list | tuple) or not all(isinstance(pattern, str) for pattern in claims):
            raise Malformed("a principal's claims are not a list of patterns", where=name)
        return Principal(name, secret, tuple(str(pattern) for pattern in claims))
