"""The directories of private hosts, and a source of workers that was never used; the rest is functional."""

import asyncio
import os
from pathlib import Path

import pytest
from fakes.quiet import quietly

from partyctl import embedded
from partyctl.embedded import PrivateHost
from partyctl.errors import HostError
from partyctl_base.process import start_time


def test_a_source_that_nobody_used_has_nothing_to_close(runtime: Path) -> None:
    quietly(PrivateHost().close())
    assert list(runtime.iterdir()) == []


def test_what_dead_programs_left_is_removed_and_nothing_else(runtime: Path) -> None:
    parent = runtime / "embedded"
    for name in ("4194305-1-gone", f"{os.getpid()}-1-reused", f"{os.getpid()}-{start_time(os.getpid())}-mine", "lock"):
        (parent / name / "spawned").mkdir(parents=True)
    made = embedded._make_directory()
    left = sorted(path.name for path in parent.iterdir())
    assert left == sorted([made.name, f"{os.getpid()}-{start_time(os.getpid())}-mine", "lock"])


def test_a_start_that_fails_is_told_to_all_who_asked_and_leaves_nothing(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(control: int, directory: Path) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(embedded, "_spawn", full)

    async def ask() -> None:
        source = PrivateHost()
        outcomes = await asyncio.gather(*(source.client() for _ in range(3)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [HostError] * 3
        assert "Cannot allocate memory" in str(outcomes[0])
        await source.close()
        await source.close()

    quietly(ask())
    assert list((runtime / "embedded").iterdir()) == []


def test_one_who_asked_and_left_ends_no_start_of_others(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def silent(control: int, directory: Path) -> None:
        started.append(os.dup(control))

    monkeypatch.setattr(embedded, "_spawn", silent)

    async def ask() -> None:
        source = PrivateHost()
        first, second = (asyncio.ensure_future(source.client()) for _ in range(2))
        await asyncio.sleep(0.1)
        first.cancel()
        with pytest.raises(HostError, match="not ready after"):
            await second
        await source.close()

    quietly(ask())
    (control,) = started
    os.close(control)
    assert list((runtime / "embedded").iterdir()) == []


def test_closing_in_the_middle_of_a_start_ends_it(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    monkeypatch.setattr(embedded, "_spawn", lambda control, directory: started.append(os.dup(control)))

    async def ask() -> None:
        source = PrivateHost()
        asking = asyncio.ensure_future(source.client())
        await asyncio.sleep(0.1)
        await source.close()
        with pytest.raises(asyncio.CancelledError):
            await asking

    quietly(ask())
    os.close(started[0])
    assert list((runtime / "embedded").iterdir()) == []
