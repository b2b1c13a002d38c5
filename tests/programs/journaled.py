"""python journaled.py DIRECTORY ID: one recorded run of twelve decisions, whose models note each time they are asked.

The models answer from a recording: what a role says follows from what it was told. ID names the run in DIRECTORY/runs;
DIRECTORY/asked gets a line for every question, written before the answer. `said N` is printed for each delivery.
"""

import asyncio
import os
import sys
from collections.abc import Sequence

import partyctl as ap
from partyctl_actors.journals import SqliteJournal

Writer, Reviewer = ap.roles("Writer", "Reviewer")
ROUNDS = 6

HELD, HELD_AT = 3, "Reviewer 2"
"""How many decisions come before the one that waits while there is a file `asked.hold`, and which that is."""


class Draft(ap.Message):
    """A draft."""

    text: str


class Revise(ap.Message):
    """Not yet."""

    text: str


class Approve(ap.Message):
    """Good."""


protocol = ap.Protocol(
    ap.loop(ap.send(Writer, Reviewer, Draft), ap.choose(Reviewer, Writer, {Revise: [ap.repeat()], Approve: []}))
)


def cast(asked: str) -> dict[ap.Role, object]:
    """Both roles, over a recorded model; `asked` is the file of questions."""

    async def model(role: str, number: int) -> None:
        fd = os.open(asked, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, f"{role} {number}\n".encode())
        os.close(fd)
        await asyncio.sleep(0.001)
        while f"{role} {number}" == HELD_AT and os.path.exists(f"{asked}.hold"):
            await asyncio.sleep(0.005)

    async def write(offer: ap.Offer, heard: Sequence[ap.Envelope]) -> ap.Message:
        await model("Writer", len(heard))
        return Draft(f"draft {len(heard)}\u2028")

    async def review(offer: ap.Offer, heard: Sequence[ap.Envelope]) -> ap.Message:
        await model("Reviewer", len(heard))
        return Approve() if len(heard) == ROUNDS else Revise(f"more than {len(heard)}")

    return {Writer: write, Reviewer: review}


def main(directory: str, run: str) -> None:
    """Run it, from wherever its record ends."""
    said = 0

    def watch(event: object) -> None:
        nonlocal said
        if type(event).__name__ == "Delivered":
            said += 1
            print(f"said {said}", flush=True)

    journal = SqliteJournal(f"{directory}/runs")
    session = ap.Session(
        protocol,
        cast(f"{directory}/asked"),
        journal=journal,
        id=run,
        tracer=ap.watching(watch),  # type: ignore[arg-type]
    )
    try:
        print(session.run(), flush=True)
    except ap.JournalError as error:
        print(f"refused: {error}", flush=True)


if "ASKED" in os.environ:
    # For `partyctl run`, and for nodes.
    session = ap.Session(protocol, cast(os.environ["ASKED"]))  # type: ignore[arg-type]

if __name__ == "__main__":
    main(*sys.argv[1:])
