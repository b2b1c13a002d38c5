"""Identifiers as an argument: who names runs, turns and workers."""

import secrets
from typing import Protocol


class IdAllocator(Protocol):
    """Hands out names that are unique for as long as anyone may remember them."""

    def new_id(self, prefix: str) -> str:
        """A fresh id that starts with `prefix` and a hyphen."""
        ...


class RandomIds:
    """64 random bits, in hexadecimal."""

    def new_id(self, prefix: str) -> str:
        return f"{prefix}-{secrets.token_hex(8)}"
