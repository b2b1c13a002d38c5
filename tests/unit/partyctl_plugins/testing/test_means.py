"""Clocks, stores and places to run commands in keep their contracts, the real ones and the doubles alike."""

from pathlib import Path

import pytest

from partyctl.testing import (
    CheckpointStoreContract,
    ClockContract,
    ConfinementContract,
    FakeCheckpointStore,
    FakeClock,
    FakeConfinement,
)
from partyctl_plugins.contract import (
    CheckpointStore,
    Clock,
    Confinement,
    FileCheckpointStore,
    InMemoryCheckpointStore,
    SystemClock,
)


class TestSystemClock(ClockContract):
    def make_clock(self) -> Clock:
        return SystemClock()


class TestFakeClock(ClockContract):
    def make_clock(self) -> Clock:
        return FakeClock()


class TestStoreInMemory(CheckpointStoreContract):
    def make_store(self) -> CheckpointStore:
        return InMemoryCheckpointStore()


class TestStoreOfFiles(CheckpointStoreContract):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    def make_store(self) -> CheckpointStore:
        return FileCheckpointStore(self.directory / "kept")


class TestFakeStore(CheckpointStoreContract):
    def make_store(self) -> CheckpointStore:
        return FakeCheckpointStore()


class TestFakeConfinement(ConfinementContract):
    def make_confinement(self) -> Confinement:
        return FakeConfinement({"/repo": "/work", "/repo/src": "/src"}, {"TERM": "dumb"})
