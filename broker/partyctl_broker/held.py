"""Letters to addresses that nobody has yet, kept for a moment after the broker's start; pure.

After a restart the peers come back one by one. A letter to one that is still on its way is not undeliverable, so it
waits here until its address is claimed or the moment is over. What is kept is bounded; what does not fit is refused.
"""

from typing import Final, NamedTuple

LETTERS_MAX: Final = 10_000
BYTES_MAX: Final = 16 * 1024 * 1024
"""What all senders together may have waiting, in letters and in bytes of envelopes."""


class Waiting(NamedTuple):
    """A pair as it came."""

    connection: bytes
    frame: bytes
    envelope: bytes


class Held:
    """The waiting letters, by destination, in the order they came."""

    def __init__(self) -> None:
        self._letters: dict[str, list[Waiting]] = {}
        self._count = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, destination: str) -> bool:
        return destination in self._letters

    def keep(self, destination: str, letter: Waiting) -> bool:
        """Keep a letter; whether there was room."""
        if self._count >= LETTERS_MAX or self._bytes + len(letter.envelope) > BYTES_MAX:
            return False
        self._letters.setdefault(destination, []).append(letter)
        self._count += 1
        self._bytes += len(letter.envelope)
        return True

    def take(self, destination: str) -> list[Waiting]:
        """The letters for a destination, which are no longer kept."""
        letters = self._letters.pop(destination, [])
        self._less(letters)
        return letters

    def take_some(self, most: int) -> list[Waiting]:
        """At most so many letters, the first of those to one destination first."""
        found: list[Waiting] = []
        while self._letters and len(found) < most:
            destination, letters = next(iter(self._letters.items()))
            taken = letters[: most - len(found)]
            del letters[: len(taken)]
            self._less(taken)
            found += taken
            if not letters:
                del self._letters[destination]
        return found

    def _less(self, letters: list[Waiting]) -> None:
        self._count -= len(letters)
        self._bytes -= sum(len(letter.envelope) for letter in letters)

    def drop_from(self, source: str) -> None:
        """Throw away what an address wrote: it is given up, and its letters with it."""
        end = b"\0" + source.encode()
        for destination in list(self._letters):
            stay = [letter for letter in self.take(destination) if not letter.frame.endswith(end)]
            for letter in stay:
                self.keep(destination, letter)
