"""The doubles remember, and fail on demand."""

import pytest

from partyctl.testing import (
    FakeCheckpointStore,
    FakeClock,
    FakeConfinement,
    RecordingEventHandler,
    SequentialIds,
)
from partyctl_plugins.contract import Checkpoint, StopSignal
from partyctl_plugins.events import AssistantText, TurnInterrupted


class TestFakeClock:
    def test_time_passes_by_waiting_and_by_advancing_only(self) -> None:
        clock = FakeClock(5.0)
        assert clock.wait(30, StopSignal()) is False
        clock.advance(2.5)
        assert (clock.monotonic(), clock.waits) == (37.5, [30])
        with pytest.raises(ValueError, match="time never goes back"):
            clock.advance(-1)

    def test_a_wait_can_be_stopped_in_its_middle(self) -> None:
        stop = StopSignal()
        clock = FakeClock(on_wait=lambda seconds: stop.set())
        assert clock.wait(30, stop) is True
        assert clock.monotonic() == 0.0


def test_ids_count_for_each_prefix() -> None:
    ids = SequentialIds()
    assert [ids.new_id(prefix) for prefix in ("turn", "turn", "conv")] == ["turn-1", "turn-2", "conv-1"]


def test_a_store_remembers_its_calls_and_fails_on_demand() -> None:
    store, checkpoint = FakeCheckpointStore(), Checkpoint("conv-1")
    store.save("k", checkpoint)
    store.failures["clear"] = OSError("full")
    with pytest.raises(OSError, match="full"):
        store.clear("k")
    assert store.load("k") == checkpoint
    assert store.calls == [("save", "k", checkpoint), ("clear", "k"), ("load", "k")]


class TestFakeConfinement:
    def test_the_longest_directory_that_fits_counts_by_whole_names(self) -> None:
        place = FakeConfinement({"/repo": "/work", "/repo/src": "/src"})
        paths = ["/repo/a", "/repo/src/b.py", "/repository", "/repo"]
        assert [place.agent_path(path) for path in paths] == ["/work/a", "/src/b.py", "/repository", "/work"]

    def test_a_map_that_would_map_a_path_twice_is_refused(self) -> None:
        with pytest.raises(ValueError, match="a path inside"):
            FakeConfinement({"/a": "/b", "/b": "/c"})

    def test_what_is_wrapped_is_remembered(self) -> None:
        place = FakeConfinement({"/repo": "/work"}, prefix=["box"])
        assert place.wrap(["tool", "-e"], "/repo/x") == ["box", "--chdir", "/work/x", "tool", "-e"]
        assert place.wrapped == [["tool", "-e"]]
        place.reap()
        assert place.reaped == 1


def test_a_recording_handler_keeps_events_and_raises_on_demand() -> None:
    handler = RecordingEventHandler(raises=ValueError("full"))
    for event in (AssistantText("a"), TurnInterrupted()):
        with pytest.raises(ValueError, match="full"):
            handler.on_event(event)
    assert handler.of(TurnInterrupted) == [TurnInterrupted()]
    assert len(handler.threads) == len(handler.events) == 2
