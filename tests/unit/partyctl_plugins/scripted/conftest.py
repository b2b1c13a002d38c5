"""Doubles for the scripted provider: a clock that jumps, and a process that only notes its end."""

import signal
from collections.abc import Callable

import pytest

from partyctl_base.clock import StopSignal


class JumpingClock:
    """Time passes only by waiting; `during` is called in each wait, to interrupt it, say."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []
        self.during: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float, stop: StopSignal) -> bool:
        self.waits.append(seconds)
        self.during()
        if stop.is_set():
            return True
        self.now += seconds
        return False


class NotedWorld:
    """Notes what a script would do to its process."""

    def __init__(self) -> None:
        self.ended: list[int | signal.Signals] = []
        self.complaints = b""

    def end(self, how: int | signal.Signals) -> None:
        self.ended.append(how)

    def complain(self, data: bytes) -> None:
        self.complaints += data


class CountingIds:
    """prefix-1, prefix-2, and so on."""

    def __init__(self) -> None:
        self.count = 0

    def new_id(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}-{self.count}"


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def world() -> NotedWorld:
    return NotedWorld()


@pytest.fixture
def ids() -> CountingIds:
    return CountingIds()
