"""B ends its process, the way its environment says, after A has spoken."""

import asyncio
import ctypes
import os
import signal

import partyctl as ap

A, B = ap.roles("A", "B")


class Word(ap.Message):
    text: str


async def end(*_: object) -> Word:
    way = os.environ["WAY"]
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif way == "segfault":
        ctypes.string_at(0)
    elif way == "exit":
        os._exit(3)
    await asyncio.sleep(3600)
    return Word("y")


session = ap.Session(ap.Protocol(ap.send(A, B, Word), ap.send(B, A, Word)), {A: ap.Script([Word("x")]), B: end})
