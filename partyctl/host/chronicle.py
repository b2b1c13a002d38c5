"""What the host writes into the party's two books: what happened, and what workers and the host's children printed.

Kinds of events: host_lost (the one before ended without a farewell; what of it was swept); starting, ready, draining,
stopped, gave_up (of the party or a part); restarted (of a part); run_started, run_ended, run_failed; session_begun,
session_taken_up, session_not_taken_up, session_released, session_deleted, recovery (what the recovery rules decided in
a session, with the rule and its counters), turn_not_recorded (its answer was given, and would be lost with its node);
worker_died (it ended badly, and nobody wanted it); suspended (the host stood still, for how many seconds); listening,
not_listening; key_added, key_revoked; noticed (by the broker: somebody was cut off, descriptors run short).
"""

from typing import Protocol

from partyctl.logbook import EVENTS, LOGS, Events, Logs, Stream
from partyctl.maps import Map
from partyctl_confinement.client import ExitNotice


class Witness(Protocol):
    """Takes note of what happens in a party."""

    def happened(self, kind: str, subject: str, cause: str = "", **fields: object) -> None:
        """One event."""
        ...

    def printed(self, message: Map) -> None:
        """A piece of what a worker printed, or of how much of it was dropped, in the launcher's words."""
        ...


class Nobody:
    """A witness that takes no note; a private host has no books."""

    def happened(self, kind: str, subject: str, cause: str = "", **fields: object) -> None:
        """See `Witness`."""

    def printed(self, message: Map) -> None:
        """See `Witness`."""


NOBODY = Nobody()


def worker_death(message: Map) -> tuple[str, str, Map]:
    """A worker's death in the launcher's words: the run or session it befell, how the worker ended, and who it was."""
    known = message["labels"]
    labels = known if isinstance(known, dict) else {}
    status, signal = (None if message[name] is None else int(str(message[name])) for name in ("status", "signal"))
    pid, limit = int(str(message["pid"])), message["limit"]
    notice = ExitNotice(
        pid, status, signal, b"", "exit", None if limit is None else str(limit), str(message["evidence"])
    )
    about: Map = {"worker": str(message["name"]), "pid": pid}
    about |= {name: str(labels[name]) for name in ("role", "provider") if labels.get(name)}
    subject = labels.get("run") or labels.get("session") or message["name"]
    return str(subject), notice.describe(), about


_STREAMS_MAX = 1024
"""Workers whose unfinished lines are kept; the launcher runs at most as many at once."""


class Chronicle:
    """A witness that keeps the books of `party`. Nothing here raises: a full disk costs lines, not the party."""

    def __init__(self, party: str) -> None:
        self._events = Events(party)
        self._logs = Logs(party)
        self._streams: dict[str, tuple[str, Stream]] = {}
        self._children: dict[str, Stream] = {}

    def happened(self, kind: str, subject: str, cause: str = "", **fields: object) -> None:
        """Keep one event; the restart of a part is marked in the logs too."""
        self._events.record(kind, subject, cause=cause, fields=fields)
        if kind == "restarted":
            self._logs.restarted(subject, cause, int(str(fields.get("restarts", 0))))

    def printed(self, message: Map) -> None:
        """Keep what a worker printed, line by line, or how much of it was dropped before it came here."""
        worker = str(message["id"])
        if message["t"] == "dropped":
            name, _ = self._streams.get(worker, ("several workers", None))
            self._logs.dropped(name, int(str(message["bytes"])), "bytes that came faster than the host took them")
            return
        if worker not in self._streams:
            self._streams[worker] = self._opened(message)
            if len(self._streams) > _STREAMS_MAX:
                self._streams.pop(next(iter(self._streams)))[1].end()
        data = message["data"]
        if isinstance(data, bytes):
            self._streams[worker][1].feed(data)

    @property
    def troubles(self) -> dict[str, str]:
        """Of each book why its last line could not be kept; "" if it was."""
        return {LOGS: self._logs.trouble, EVENTS: self._events.trouble}

    def wrote(self, name: str, data: bytes) -> None:
        """Keep what a child of the host wrote, line by line; b"" is the end of it."""
        if not data:
            if (stream := self._children.pop(name, None)) is not None:
                stream.end()
            return
        if name not in self._children:
            self._children[name] = self._logs.stream(name)
        self._children[name].feed(data)

    def close(self) -> None:
        """Finish the lines that are not finished, and close the files."""
        for _, stream in self._streams.values():
            stream.end()
        for stream in self._children.values():
            stream.end()
        self._streams.clear()
        self._children.clear()
        self._events.close()
        self._logs.close()

    def _opened(self, message: Map) -> tuple[str, Stream]:
        labels, name = message.get("labels"), str(message["name"])
        known = labels if isinstance(labels, dict) else {}
        return name, self._logs.stream(name, role=str(known.get("role", "")), run=str(known.get("run", "")))
