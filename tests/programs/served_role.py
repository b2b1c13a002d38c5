"""Serves one role of a ring of four: URL KEY ROLE LOG ROUNDS PAUSE. Every question it is asked is a line of LOG."""

import asyncio
import sys

import partyctl as ap

A, B, C, D = RING = ap.roles("A", "B", "C", "D")


class Item(ap.Message):
    """What goes round."""

    number: int


class Done(ap.Message):
    """It went round often enough."""


ring = ap.Protocol(
    ap.loop(
        ap.choose(
            A,
            B,
            {
                Item: [ap.send(B, C, Item), ap.send(C, D, Item), ap.send(D, A, Item), ap.repeat()],
                Done: [ap.send(B, C, Done), ap.send(C, D, Done)],
            },
        )
    )
)


class Passing:
    """Passes on what it got, plus one; A says when it is enough."""

    def __init__(self, rounds: int, log: str = "", pause: float = 0.0) -> None:
        self.rounds = rounds
        self.log = log
        self.pause = pause

    async def __call__(self, offer: ap.Offer, heard: ap.Transcript) -> ap.Message:
        newest = heard[-1].message if heard else None
        number = newest.number + 1 if isinstance(newest, Item) else 1
        if self.log:
            with open(self.log, "a", encoding="ascii") as log:
                log.write(f"{number}\n")
        if self.pause:
            await asyncio.sleep(self.pause)
        if isinstance(newest, Done) or (offer.role == A and len(heard) == self.rounds):
            return Done()
        return Item(number)


if __name__ == "__main__":
    url, key, role, log, rounds, pause = sys.argv[1:]
    passing = Passing(int(rounds), log, float(pause))
    ap.serve(ap.Role(role), passing, url=url, key=key, protocol=ring)
