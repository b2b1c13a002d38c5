"""A person at a terminal.

Lines are read from the descriptor by the event loop and not in a thread: a thread that waits for a line cannot be made
to stop, and one that still waits when the process ends takes it down with an error.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from typing import TextIO
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter, ValidationError

from partyctl_actors.errors import ContentError, SessionError
from partyctl_actors.participants.interface import Offer
from partyctl_actors.protocol.fields import FieldType
from partyctl_actors.protocol.message import Message
from partyctl_actors.transcript import Envelope

_CHUNK = 65_536


class Terminal:
    """Asks a person on a terminal: a menu of what may be said, then each field. For `Human(Terminal())`.

    One terminal may serve any number of roles and runs; one is asked at a time. A message is chosen by its number or
    its label. A field is typed as it is if it is text, else as JSON; an empty line takes the default of a field that
    has one. What does not fit is told and asked for again.

    Args:
        read: where lines come from, with a descriptor; omitted, standard input.
        write: where questions go; omitted, standard output.
    """

    def __init__(self, read: TextIO | None = None, write: TextIO | None = None) -> None:
        self._read = read
        self._write = write
        self._questions = write
        self._unread = b""
        self._ended = False
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    @property
    def is_standard(self) -> bool:
        """Whether it writes to standard output."""
        return self._write in (None, sys.stdout)

    def ask_on(self, write: TextIO) -> None:
        """Ask there from now on: standard output may be for what is said alone, and may be no terminal."""
        self._questions = write

    async def choose(self, run_id: str, offer: Offer) -> Message:
        """See `HumanIo.choose`.

        Raises:
            SessionError: the input came to its end.
        """
        # A lock belongs to one loop, and a terminal may outlive several.
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            kind = await self._kind(offer)
            while True:
                fields = {}
                for name, type_ in kind.field_types.items():
                    value = await self._field(offer, kind, name, type_)
                    if value is not _DEFAULT:
                        fields[name] = value
                try:
                    return kind.from_wire(fields)
                except ContentError as error:
                    self._ask(f"  {error}")

    def told(self, run_id: str, envelope: Envelope) -> None:
        """See `HumanIo`."""
        self._say(str(envelope), self._write)

    async def _kind(self, offer: Offer) -> type[Message]:
        self._ask(f"{offer.role}, what do you say to {offer.receiver}?")
        for number, kind in enumerate(offer.messages, 1):
            self._ask(f"  {number} {kind.label}" + (f": {kind.intent.splitlines()[0]}" if kind.intent else ""))
        while True:
            line = await self._line(offer, "> ")
            for number, kind in enumerate(offer.messages, 1):
                if line.strip() in (str(number), kind.label):
                    return kind
            self._ask(f"  a number from 1 to {len(offer.messages)}, or a name")

    async def _field(self, offer: Offer, kind: type[Message], name: str, type_: FieldType) -> object:
        optional = _has_default(kind, name)
        checked: TypeAdapter[object] = TypeAdapter(type_.checked())  # type: ignore[arg-type]
        while True:
            line = await self._line(offer, f"  {name}: ")
            if optional and not line:
                return _DEFAULT
            why = ""
            for value in _meanings(line):
                try:
                    checked.validate_python(type_.decode(value), strict=True)
                except ValidationError as error:
                    why = error.errors()[0]["msg"]
                except ContentError as error:
                    why = str(error)
                else:
                    return value
            self._ask(f"    {why.removeprefix('Value error, ')}")

    async def _line(self, offer: Offer, prompt: str) -> str:
        self._put(prompt, self._questions)
        while b"\n" not in self._unread and not self._ended:
            chunk = await _some((self._read or sys.stdin).fileno())
            self._ended = not chunk
            self._unread += chunk
        if not self._unread:
            raise SessionError(
                "The terminal was closed",
                where=f"{offer.role}",
                why="its input came to an end before it had answered",
                fix="Run it where a person can type; a node of a party that is up has no terminal",
            )
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    def _ask(self, line: str) -> None:
        self._say(line, self._questions)

    def _say(self, line: str, write: TextIO | None) -> None:
        # What others say must not steer the terminal.
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)
        self._put(text + "\n", write)

    @staticmethod
    def _put(text: str, write: TextIO | None) -> None:
        out = write or sys.stdout
        out.write(text)
        out.flush()


_DEFAULT = object()


def _has_default(kind: type[Message], name: str) -> bool:
    (field,) = [field for field in dataclasses.fields(kind) if field.name == name]  # type: ignore[arg-type]
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _meanings(line: str) -> Iterator[object]:
    """What a line may mean: itself, and what it is as JSON."""
    yield line
    try:
        yield json.loads(line)
    except (ValueError, RecursionError):
        return


def _tell(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def _some(descriptor: int) -> bytes:
    """What can be read, when there is something; nothing at the end."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, _tell, ready)
    except PermissionError:
        # A file on a disk, which never makes anybody wait.
        return os.read(descriptor, _CHUNK)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, _CHUNK)
