"""The two books of a party, in its state directory: what its processes wrote, and what happened to it.

    logs/     a line each: time, process, stream, text, and role and run where they are known
              a mark each: time, process, mark ("restarted", "dropped"), text, and restarts or dropped, a number
    events/   time, kind, subject, cause, fields

Times are RFC 3339 in UTC. Secrets are masked before a line is kept. The host is the only writer; see `logfiles` for
what becomes of a full disk. A process that writes without end costs the others nothing: each may write 256 KiB a
second, after a burst of 1 MiB; the rest is counted, and the count takes its place.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from partyctl.logfiles import SEGMENT_MAX, SEGMENTS, Book
from partyctl.logreader import Reader
from partyctl.maps import Map
from partyctl.masking import masked, masked_value
from partyctl_base.paths import state_directory

LOGS: Final = "logs"
EVENTS: Final = "events"

TEXT_MAX: Final = 16 * 1024
"""Characters kept of one line."""

RATE: Final = 256 * 1024
"""Bytes a second that one process may write for ever."""

BURST: Final = 1024 * 1024
"""Bytes that one process may write at once."""

_LINE_COST = 200
"""Bytes that each line counts beside its text: what it takes in the file, and the time it takes of the host."""

_WRITERS_MAX = 4096
"""Processes whose rate is remembered; each worker is one, and their number in a party's life has no bound."""

_PARTY_EVENTS = ("starting", "ready", "draining", "stopped", "gave_up")
_LAST_EVENTS = 10_000
"""How far back the end of a party is looked for; after it only the ends of its runs are told."""

_FIRST, _LAST = -62135596800.0, 253402300799.0
"""The first and the last second of the years that can be told, since 1970."""

Now = Callable[[], float]


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC, always with milliseconds, so that texts sort as times do.

    A time beyond the years 1 to 9999, as of a provider that counts milliseconds, is told as the last one within.
    """
    return (
        datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def logs_reader(party: str) -> Reader:
    """Reads the logs of `party`. Raises PathError as `state_directory` does."""
    return Reader(state_directory(party) / LOGS)


def events_reader(party: str) -> Reader:
    """Reads the events of `party`. Raises PathError as `state_directory` does."""
    return Reader(state_directory(party) / EVENTS)


def last_give_up(party: str) -> Map | None:
    """The event with which the party gave up, if it was the last thing that happened to it. Raises as above."""
    for event in events_reader(party).newest(_LAST_EVENTS):
        if event.get("subject") == "party" and event.get("kind") in _PARTY_EVENTS:
            return event if event["kind"] == "gave_up" else None
    return None


class Logs:
    """Keeps what processes write. Nothing here raises; `trouble` tells why lines are being dropped, "" if none are.

    Args:
        party: the party's name.
        now: seconds since the epoch.
        segment_max, keep: the limits of the files, in bytes and in segments.
    """

    def __init__(
        self, party: str, *, now: Now = time.time, segment_max: int = SEGMENT_MAX, keep: int = SEGMENTS
    ) -> None:
        self._now = now
        self._book = Book(lambda: state_directory(party) / LOGS, self._missing, segment_max=segment_max, keep=keep)
        self._rates: dict[str, _Rate] = {}

    @property
    def trouble(self) -> str:
        """Why the last line could not be kept; "" if it was."""
        return self._book.trouble

    def line(self, process: str, text: str | bytes, *, stream: str = "stderr", role: str = "", run: str = "") -> None:
        """Keep one line of a process.

        Args:
            process: its name: host, broker, launcher, node/0, or a worker's.
            text: the line, with or without its end; a text of several lines is kept as several.
            stream: stdout, stderr, or another word for where it came from.
            role, run: what the process works for, if it is a worker.
        """
        whole = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        for each in whole.removesuffix("\n").split("\n"):
            self._keep(process, each.rstrip("\r"), 0, stream, role, run)

    def stream(self, process: str, *, stream: str = "stderr", role: str = "", run: str = "") -> "Stream":
        """Something to feed the bytes of a pipe to, as they come."""
        return Stream(lambda text, cut: self._keep(process, text, cut, stream, role, run), lambda: self.ended(process))

    def ended(self, process: str) -> None:
        """A process has ended: whatever of its lines was not kept is told now. `Stream.end` calls this."""
        if rate := self._rates.pop(process, None):
            self._told(process, rate)

    def restarted(self, process: str, cause: str, restarts: int, *, role: str = "", run: str = "") -> None:
        """Mark the place where a process ended and another took its name; `restarts` counts them."""
        self._mark(process, "restarted", cause, {"restarts": restarts}, role, run)

    def dropped(self, process: str, count: int, why: str, *, role: str = "", run: str = "") -> None:
        """Mark that `count` lines of a process were lost before they came here."""
        self._mark(process, "dropped", why, {"dropped": count}, role, run)

    def close(self) -> None:
        """Say what is missing, and close the file."""
        for process in list(self._rates):
            self.ended(process)
        self._book.close()

    def _keep(self, process: str, text: str, cut: int, stream: str, role: str, run: str) -> None:
        now = self._now()
        rate = self._rates.pop(process, None) or _Rate(now)
        self._rates[process] = rate  # the newest last
        if len(self._rates) > _WRITERS_MAX:
            self.ended(next(iter(self._rates)))
        # What is beyond the rate is not even masked: it must cost next to nothing.
        if not rate.admits(min(len(text), TEXT_MAX), now):
            return
        self._told(process, rate)
        text, cut = shortened(text, cut)
        record: Map = {"time": timestamp(now), "process": process, "stream": stream, "text": text}
        self._book.write(record | _known(role=role, run=run, cut=cut))

    def _told(self, process: str, rate: "_Rate") -> None:
        if rate.refused:
            self.dropped(process, rate.refused, f"more than {RATE // 1024} KiB a second")
            rate.refused = 0

    def _mark(self, process: str, mark: str, text: str, fields: Map, role: str, run: str) -> None:
        record: Map = {"time": timestamp(self._now()), "process": process, "mark": mark, "text": shortened(text)[0]}
        self._book.write(record | fields | _known(role=role, run=run))

    def _missing(self, count: int, why: str) -> Map:
        return {"time": timestamp(self._now()), "process": "host", "mark": "dropped", "text": why, "dropped": count}


class Stream:
    """Makes lines of the bytes of one pipe; what is kept of an unfinished line is bounded.

    Args:
        keep: called with each line and the number of bytes left out of it.
        ended: called at the end.
    """

    _MAX = 4 * TEXT_MAX

    def __init__(self, keep: Callable[[str, int], None], ended: Callable[[], None]) -> None:
        self._keep = keep
        self._ended = ended
        self._rest = b""
        self._cut = 0

    def feed(self, data: bytes) -> None:
        """More bytes."""
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._add(part)
            self._finish()
        self._add(rest)

    def end(self) -> None:
        """The pipe has ended; an unfinished line is a line too."""
        if self._rest or self._cut:
            self._finish()
        self._ended()

    def _add(self, part: bytes) -> None:
        room = self._MAX - len(self._rest)
        self._rest += part[:room]
        self._cut += max(0, len(part) - room)

    def _finish(self) -> None:
        text, cut = self._rest.rstrip(b"\r").decode("utf-8", "replace"), self._cut
        self._rest, self._cut = b"", 0
        self._keep(text, cut)


class Events:
    """Keeps what happened to a party, one line each. Nothing here raises. Arguments as for `Logs`."""

    def __init__(
        self, party: str, *, now: Now = time.time, segment_max: int = SEGMENT_MAX, keep: int = SEGMENTS
    ) -> None:
        self._now = now
        self._book = Book(lambda: state_directory(party) / EVENTS, self._missing, segment_max=segment_max, keep=keep)

    @property
    def trouble(self) -> str:
        """Why the last event could not be kept; "" if it was."""
        return self._book.trouble

    def record(self, kind: str, subject: str, *, cause: str = "", fields: Mapping[str, object] | None = None) -> None:
        """Keep one event.

        Args:
            kind: what happened, as one word of a fixed set: started, restarted, gave_up, ...
            subject: to whom: broker, node/0, a role, a run.
            cause: why, for people.
            fields: further values, such as counters.
        """
        self._book.write(self._event(kind, subject, cause, _bounded(fields or {})))

    def close(self) -> None:
        """Say what is missing, and close the file."""
        self._book.close()

    def _missing(self, count: int, why: str) -> Map:
        return self._event("dropped", EVENTS, why, {"dropped": count})

    def _event(self, kind: str, subject: str, cause: str, fields: object) -> Map:
        told: Map = {"time": timestamp(self._now()), "kind": kind, "subject": subject}
        return told | {"cause": shortened(cause)[0], "fields": fields}


class _Rate:
    """What one process may still write: a bucket of `BURST` bytes that fills by `RATE` a second."""

    __slots__ = ("left", "refused", "then")

    def __init__(self, now: float) -> None:
        self.left = float(BURST)
        self.then = now
        self.refused = 0

    def admits(self, size: int, now: float) -> bool:
        """Take `size` bytes at `now`, or count a refusal. After one, the bucket must be a quarter full again: one line
        about what is missing stands for thousands, not one between any two."""
        # A clock that was set back gives nothing, and takes nothing.
        self.left = min(float(BURST), self.left + max(0.0, now - self.then) * RATE)
        self.then = now
        if self.left < (BURST / 4 if self.refused else size):
            self.refused += 1
            return False
        self.left -= size + _LINE_COST
        return True


def shortened(text: str, cut: int = 0) -> tuple[str, int]:
    """A text without its secrets and no longer than `TEXT_MAX`, and how many characters are left out.

    Args:
        text: a line; what is far beyond the limit is not even looked at.
        cut: how much was left out of it before.
    """
    far = text[4 * TEXT_MAX :]
    shown = masked(text[: 4 * TEXT_MAX]) if far else masked(text)
    cut += len(far) + max(0, len(shown) - TEXT_MAX)
    return (f"{shown[:TEXT_MAX]} [... {cut} more]", cut) if cut else (shown, 0)


def _bounded(fields: Mapping[str, object]) -> object:
    shown = masked_value(fields)
    size = len(str(shown))
    return shown if size <= TEXT_MAX else {"cut": size}


def _known(**fields: object) -> Map:
    return {name: value for name, value in fields.items() if value}
