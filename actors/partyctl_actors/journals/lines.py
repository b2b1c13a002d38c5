"""The lines of a JSON-lines record, as pure functions.

    {"partyctl":"journal/1","run":"run-1","protocol":"0123456789abcdef","about":{},"crc":"..."}
    {"turn":1,"sender":"A","receiver":"B","label":"Ping","fields":{"text":"hi"},"tokens":0,"crc":"..."}
    {"ending":"complete","crc":"..."}

A line is ASCII: whatever a text holds is escaped, so only our own line feeds end a line. `crc` is the CRC-32 of all
that stands before it in its line, begun with the `crc` of the line before: so a line that is missing, or stands
elsewhere, is damage too. `fields` are the fields of the message; if JSON cannot give back the very bytes that
were recorded, they stand under `packed` in base64.

A line that was not written whole lacks its end, or holds NULs where a disk lost a block. The last line of a record may
be so: whoever wrote it was never told that it is kept. Anywhere else it is damage.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from zlib import crc32

from partyctl_actors.errors import ContentError
from partyctl_actors.journals.archive import NOTHING
from partyctl_actors.journals.interface import Decision
from partyctl_actors.payloads import pack, unpack

VERSION = "journal/1"
_START = b'{"partyctl":"' + VERSION.encode() + b'",'
_SEAL = re.compile(rb',"crc":"([0-9a-f]{8})"}\Z')


class Damage(Exception):
    """A line is not what was written. `line` counts from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")


class Foreign(Exception):
    """The file was never a record."""


class Contents(NamedTuple):
    """What a file holds.

    Attributes:
        run, protocol, about: the head's; empty if the file has none yet.
        decisions: all that were written whole.
        ending: how the run ended.
        sound: the number of bytes up to the end of the last whole line.
        last: that line; empty if there is none.
    """

    run: str
    protocol: str
    about: Mapping[str, str]
    decisions: list[Decision]
    ending: str
    sound: int
    last: bytes


def whole(
    run: str, protocol: str, decisions: Iterable[Decision] = (), about: Mapping[str, str] = NOTHING, ending: str = ""
) -> list[bytes]:
    """The lines of a record."""
    made = [head_line(run, protocol, about)]
    for decision in decisions:
        made.append(decision_line(decision, made[-1]))
    return [*made, ending_line(ending, made[-1])] if ending else made


def head_line(run: str, protocol: str, about: Mapping[str, str] = NOTHING) -> bytes:
    """The first line."""
    return _sealed({"partyctl": VERSION, "run": run, "protocol": protocol, "about": dict(about)})


def decision_line(decision: Decision, after: bytes) -> bytes:
    """The line of one decision, to stand after the line `after`."""
    turn, sender, receiver, label, payload, tokens = decision
    body: dict[str, object] = {"turn": turn, "sender": sender, "receiver": receiver, "label": label}
    fields = _readable(payload)
    body |= {"packed": base64.b64encode(payload).decode()} if fields is None else {"fields": fields}
    return _sealed(body | {"tokens": tokens}, after)


def ending_line(ending: str, after: bytes) -> bytes:
    """The line that says how the run ended, to stand after the line `after`."""
    return _sealed({"ending": ending}, after)


def read(data: bytes) -> Contents:
    """What the bytes of a file say.

    Raises:
        Foreign: it does not begin like a record.
        Damage: a line is wrong, and it is not one that was never finished.
    """
    if not data.startswith(_START):
        begun = data[: len(_START)].partition(b"\0")[0]
        if not _START.startswith(begun) or data[len(begun) :].strip(b"\0\n"):
            raise Foreign("it does not begin like one")
    lines = data.split(b"\n")
    torn = lines.pop()
    if not torn and lines and b"\0" in lines[-1]:
        torn = lines.pop() + b"\n"
    if not lines:
        return Contents("", "", NOTHING, [], "", 0, b"")
    head = _opened(lines[0], 1, b"")
    decisions, ending = [], ""
    for number, line in enumerate(lines[1:], 2):
        body = _opened(line, number, lines[number - 2])
        ending = ""
        if "ending" in body:
            ending = str(body["ending"])
        else:
            decisions.append(_decision(body, number))
    try:
        about = {str(key): str(value) for key, value in head["about"].items()}  # type: ignore[attr-defined]
        run, protocol = str(head["run"]), str(head["protocol"])
        return Contents(run, protocol, about, decisions, ending, len(data) - len(torn), lines[-1])
    except (KeyError, AttributeError) as error:
        raise Damage(1, f"it is no head: {error!r}") from None


def _sealed(body: Mapping[str, object], after: bytes = b"") -> bytes:
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=True)[:-1].encode("ascii")
    return b'%s,"crc":"%08x"}\n' % (text, crc32(text, _crc(after)))


def _crc(line: bytes) -> int:
    """The checksum at the end of a line; 0 before the first."""
    seal = _SEAL.search(line.rstrip(b"\n"))
    return 0 if seal is None else int(seal[1], 16)


def _opened(line: bytes, number: int, after: bytes) -> dict[str, object]:
    seal = _SEAL.search(line)
    if seal is None:
        raise Damage(number, "it has no checksum")
    text = line[: seal.start()]
    if crc32(text, _crc(after)) != int(seal[1], 16):
        raise Damage(number, "it does not have the checksum it was written with, or a line before it is gone")
    try:
        body = json.loads(text + b"}")
    except ValueError as error:
        raise Damage(number, str(error)) from None
    if not isinstance(body, dict):
        raise Damage(number, "it is no object")
    return body


def _decision(body: dict[str, object], number: int) -> Decision:
    try:
        if "packed" in body:
            payload = base64.b64decode(str(body["packed"]), validate=True)
        else:
            fields = body["fields"]
            assert isinstance(fields, dict)
            payload = pack(fields)
        turn, tokens = body["turn"], body["tokens"]
        assert isinstance(turn, int)
        assert isinstance(tokens, int)
        return Decision(turn, str(body["sender"]), str(body["receiver"]), str(body["label"]), payload, tokens)
    except (KeyError, AssertionError, binascii.Error, ContentError) as error:
        raise Damage(number, f"it is no decision: {error!r}") from None


def _readable(payload: bytes) -> dict[str, object] | None:
    """The fields, if their JSON gives back these very bytes."""
    try:
        fields = unpack(payload)
        again = json.loads(json.dumps(fields, allow_nan=False))
        return fields if pack(again) == payload else None
    except (ContentError, ValueError, TypeError):
        return None
