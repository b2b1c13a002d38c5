"""Participants, and a tracer, that hold the event loop or do not stop."""

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path

import partyctl as ap

A, B = ap.roles("A", "B")


class Word(ap.Message):
    text: str


STUCK = Path(os.environ["STUCK"])


def stuck() -> None:
    STUCK.touch()
    while True:
        time.sleep(60)


class Player(ap.BasePlayer):
    def author(self, offer: ap.Offer) -> ap.Message:
        return Word("x")


class Listener(Player):
    def hear(self, envelope: object) -> None:
        STUCK.touch()
        time.sleep(600)  # in hear


class Closer(Player):
    async def close(self) -> None:
        STUCK.touch()
        time.sleep(600)  # in close


class Cast:
    def __init__(self, player: type[Player]) -> None:
        self.player = player

    def bind(self, seat: ap.Seat) -> ap.Player:
        return self.player()


class Tracer:
    def record(self, event: object) -> None:
        STUCK.touch()
        time.sleep(600)  # in record


async def deafly(*_: object) -> Word:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


async def pooling(*_: object) -> Word:
    await asyncio.to_thread(stuck)
    return Word("x")


protocol = ap.Protocol(ap.send(A, B, Word))
timed = ap.Protocol(ap.send(A, B, Word, within=timedelta(seconds=1)))
nobody = ap.Script([])
hear = ap.Session(protocol, {A: ap.Script([Word("x")]), B: Cast(Listener)})
close = ap.Session(protocol, {A: ap.Script([Word("x")]), B: Cast(Closer)})
record = ap.Session(protocol, {A: ap.Script([Word("x")]), B: nobody}, tracer=Tracer())
deaf = ap.Session(timed, {A: deafly, B: nobody})
pooled = ap.Session(timed, {A: pooling, B: nobody})
