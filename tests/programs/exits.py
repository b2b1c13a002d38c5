"""A run that ends the way its environment says, beside one that waits for a file."""

import asyncio
import os
from pathlib import Path

import partyctl as ap

A, B = ap.roles("A", "B")
GO = Path(os.environ["GO"])


class Word(ap.Message):
    text: str


protocol = ap.Protocol(ap.send(A, B, Word))


async def waits(*_: object) -> Word:
    while not GO.exists():
        await asyncio.sleep(0.05)
    return Word("went on")


def exits(*_: object) -> Word:
    raise SystemExit(5)


async def nested(*_: object) -> Word:
    async def deep() -> Word:
        raise SystemExit(5)

    return await asyncio.create_task(deep())


async def interrupts(*_: object) -> Word:
    raise KeyboardInterrupt


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Hears(ap.Script):
    """What a participant does as it is bound."""

    def bind(self, seat: ap.Seat) -> ap.Player:
        raise ValueError("two lines\nof an error")


def watch(event: object) -> None:
    raise SystemExit(3)


other = ap.Session(protocol, {A: waits, B: ap.Script([])})
sync = ap.Session(protocol, {A: exits, B: ap.Script([])})
task = ap.Session(protocol, {A: nested, B: ap.Script([])})
ctrl_c = ap.Session(protocol, {A: interrupts, B: ap.Script([])})
bind = ap.Session(protocol, {A: waits, B: Hears([])})
tracer = ap.Session(protocol, {A: ap.Script([Word("x")]), B: ap.Script([])}, tracer=ap.watching(watch))
