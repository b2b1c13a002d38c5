"""Doubles that wait for nothing, remember what was asked of them, and do what the real ones do."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from partyctl_base.clock import StopSignal
from partyctl_plugins.checkpoints import Checkpoint
from partyctl_plugins.events import AgentEvent


class FakeClock:
    """A clock that only moves when somebody waits, or moves it. Thread-safe.

    Args:
        start: its time at first, in seconds.
        on_wait: called with the seconds of each wait while it is waited, to interrupt it, say.

    Attributes:
        waits: the seconds of every wait so far, those that were stopped early included.
        on_wait: as given; may be changed at any time.
    """

    def __init__(self, start: float = 0.0, *, on_wait: Callable[[float], None] | None = None) -> None:
        self.waits: list[float] = []
        self.on_wait = on_wait
        self._now = start
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        return self._now

    def wait(self, seconds: float, stop: StopSignal) -> bool:
        self.waits.append(seconds)
        if stop.is_set():
            return True
        if self.on_wait is not None:
            self.on_wait(seconds)
            if stop.is_set():
                return True
        self.advance(max(0.0, seconds))
        return False

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass.

        Raises:
            ValueError: they are fewer than none.
        """
        if seconds < 0:
            raise ValueError(f"time never goes back, and not by {seconds!r} seconds")
        with self._lock:
            self._now += seconds


class SequentialIds:
    """prefix-1, prefix-2 and so on, each prefix counted for itself. Thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def new_id(self, prefix: str) -> str:
        with self._lock:
            self._counts[prefix] = self._counts.get(prefix, 0) + 1
            return f"{prefix}-{self._counts[prefix]}"


class FakeCheckpointStore:
    """A store in memory that remembers its calls, and fails on demand.

    Args:
        kept: what it holds at first.

    Attributes:
        calls: ("load", key), ("save", key, checkpoint) and ("clear", key), in order.
        kept: what it holds.
        failures: what "load", "save" or "clear" raises, until it is taken out again.
    """

    def __init__(self, kept: Mapping[str, Checkpoint] | None = None) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.kept = dict(kept or {})
        self.failures: dict[str, Exception] = {}

    def load(self, key: str) -> Checkpoint | None:
        self._called("load", key)
        return self.kept.get(key)

    def save(self, key: str, checkpoint: Checkpoint) -> None:
        self._called("save", key, checkpoint)
        self.kept[key] = checkpoint

    def clear(self, key: str) -> None:
        self._called("clear", key)
        self.kept.pop(key, None)

    def _called(self, method: str, *arguments: object) -> None:
        self.calls.append((method, *arguments))
        if method in self.failures:
            raise self.failures[method]


class FakeConfinement:
    """A place to run commands in that is only a prefix of words.

    Args:
        path_map: absolute directories outside, and what each is called inside; the longest that fits counts.
        env: the environment inside.
        prefix: the words before each command.

    Raises:
        ValueError: a path inside would be mapped once more, to another one.

    Attributes:
        wrapped: every argv that was wrapped.
        reaped: how often `reap` was called.
    """

    def __init__(
        self,
        path_map: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = ("confined",),
    ) -> None:
        self._map = {PurePosixPath(outside): PurePosixPath(inside) for outside, inside in (path_map or {}).items()}
        self._env = dict(env or {})
        self._prefix = list(prefix)
        self.wrapped: list[list[str]] = []
        self.reaped = 0
        for inside in self._map.values():
            if self.agent_path(str(inside)) != str(inside):
                raise ValueError(f"{inside} is a path inside, and the map would take it for one outside")

    @property
    def env(self) -> Mapping[str, str]:
        return self._env

    def wrap(self, argv: Sequence[str], cwd: str | None = None) -> list[str]:
        self.wrapped.append(list(argv))
        place = [] if cwd is None else ["--chdir", self.agent_path(cwd)]
        return [*self._prefix, *place, *argv]

    def agent_path(self, host_path: str | os.PathLike[str]) -> str:
        path = PurePosixPath(os.fspath(host_path))
        fitting = [outside for outside in self._map if path.is_relative_to(outside)]
        if not fitting:
            return str(path)
        longest = max(fitting, key=lambda outside: len(outside.parts))
        return str(self._map[longest] / path.relative_to(longest))

    def reap(self) -> None:
        self.reaped += 1


class RecordingEventHandler:
    """Keeps every event.

    Args:
        raises: raised by each call, after the event was kept.

    Attributes:
        events: those that came, in order.
        threads: the threads they came on.
    """

    def __init__(self, raises: Exception | None = None) -> None:
        self.events: list[AgentEvent] = []
        self.threads: list[int] = []
        self._raises = raises

    def on_event(self, event: AgentEvent) -> None:
        self.events.append(event)
        self.threads.append(threading.get_ident())
        if self._raises is not None:
            raise self._raises

    def of(self, *kinds: type) -> list[AgentEvent]:
        """The events of these classes, in order."""
        return [event for event in self.events if isinstance(event, kinds)]
