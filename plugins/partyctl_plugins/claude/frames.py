"""The frames of Claude Code's stream-json: JSON objects, one a line, read from bytes and written to bytes.

Rules: framing is done on bytes, before any decoding. A line that is no JSON object is noise: counted, a bounded sample
kept, never an error, for the CLI and what it starts share one stdout. A line beyond the ceiling is an error: it may
have been the result that the turn waits for.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

Frame = Mapping[str, object]

MAX_LINE = 32 * 1024 * 1024
"""Ceiling of one line in bytes; a tool result with images comes near 10 MiB."""

NOISE_SAMPLES = 20
NOISE_SAMPLE_BYTES = 400


class LineTooLong(Exception):
    """A line passed the ceiling; the stream cannot be followed any more."""


@dataclass(frozen=True, slots=True)
class Noise:
    """A line that is no frame.

    Attributes:
        text: its beginning, at most NOISE_SAMPLE_BYTES.
    """

    text: str


class FrameReader:
    """Bytes in, frames out. Holds at most one unfinished line.

    Attributes:
        noise: how many lines were no frames.
    """

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._parts: list[bytes] = []
        self._size = 0
        self.noise = 0

    def feed(self, data: bytes) -> list[Frame | Noise]:
        """Take what was read, return the frames that are whole now, and the first NOISE_SAMPLES noise lines.

        Raises:
            LineTooLong: a line is longer than the ceiling.
        """
        *ended, rest = data.split(b"\n")
        found: list[Frame | Noise] = []
        for line in ended:
            self._keep(line)
            found.extend(self._decode(b"".join(self._parts)))
            self._parts.clear()
            self._size = 0
        self._keep(rest)
        return found

    def finish(self) -> list[Frame | Noise]:
        """At end of file: the last line counts even without its line end."""
        return self.feed(b"\n") if self._size else []

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_line:
            raise LineTooLong(f"a line of more than {self._max_line} bytes")
        if part:
            self._parts.append(part)

    def _decode(self, line: bytes) -> list[Frame | Noise]:
        if not line.strip():
            return []
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested beyond reason
            value = None
        if isinstance(value, dict):
            return [value]
        self.noise += 1
        if self.noise > NOISE_SAMPLES:
            return []
        return [Noise(line[:NOISE_SAMPLE_BYTES].decode("utf-8", "replace"))]


def _line(value: dict[str, object]) -> bytes:
    # ASCII with escapes: no byte of the prompt can be taken for a line end, and a lone surrogate survives.
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def initialize(request_id: str) -> bytes:
    """The handshake's request; the reply to it says that the process is ready."""
    request = {"subtype": "initialize", "hooks": None}
    return _line({"type": "control_request", "request_id": request_id, "request": request})


def interrupt(request_id: str) -> bytes:
    """The request to end the running turn."""
    return _line({"type": "control_request", "request_id": request_id, "request": {"subtype": "interrupt"}})


def user_message(text: str, message_uuid: str) -> bytes:
    """A prompt. With a uuid the CLI reports when it takes the message up (`command_lifecycle`)."""
    message = {"role": "user", "content": text}
    return _line(
        {"type": "user", "session_id": "", "parent_tool_use_id": None, "uuid": message_uuid, "message": message}
    )


def denial(request_id: str, *, ends_turn: bool) -> bytes:
    """The answer to `can_use_tool`: no."""
    response: dict[str, object] = {"behavior": "deny", "message": "Denied: this session approves no tool use."}
    if ends_turn:
        response["interrupt"] = True
    inner = {"subtype": "success", "request_id": request_id, "response": response}
    return _line({"type": "control_response", "response": inner})


def refusal(request_id: str, why: str) -> bytes:
    """The answer to a control request that this client does not know."""
    inner = {"subtype": "error", "request_id": request_id, "error": why}
    return _line({"type": "control_response", "response": inner})


# Reading untrusted frames: a key of the wrong type reads as absent.


def text_of(frame: Frame, key: str) -> str:
    """The string at `key`, or ""."""
    value = frame.get(key)
    return value if isinstance(value, str) else ""


def object_of(frame: Frame, key: str) -> Frame:
    """The object at `key`, or an empty one."""
    value = frame.get(key)
    return value if isinstance(value, dict) else {}


def objects_of(frame: Frame, key: str) -> list[Frame]:
    """The objects in the list at `key`."""
    value = frame.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def count_of(frame: Frame, key: str) -> int:
    """The non-negative integer at `key`, or 0."""
    value = frame.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def number_of(frame: Frame, key: str) -> float | None:
    """The number at `key`, or None."""
    value = frame.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
