"""Two branches at once: each begins when the file that GO names is there."""

import asyncio
import os
from pathlib import Path

import partyctl as ap

Author, Editor, Artist, Printer = ap.roles("Author", "Editor", "Artist", "Printer")


class Text(ap.Message):
    """What was written."""

    text: str


class Picture(ap.Message):
    """What was drawn."""

    name: str


class Ready(ap.Message):
    """Print it."""


async def when_it_is_time() -> None:
    while not Path(os.environ["GO"]).exists():
        await asyncio.sleep(0.05)


async def write(offer: ap.Offer, heard: ap.Transcript) -> ap.Message:
    await when_it_is_time()
    return Text("They hoot.")


async def draw(offer: ap.Offer, heard: ap.Transcript) -> ap.Message:
    await when_it_is_time()
    return Picture("owl")


session = ap.Session(
    ap.Protocol(
        ap.par([ap.send(Author, Editor, Text)], [ap.send(Artist, Printer, Picture)]), ap.send(Editor, Printer, Ready)
    ),
    {Author: write, Editor: ap.Script([Ready()]), Artist: draw, Printer: ap.Script([])},
)
