"""A loop that runs code of others comes to its end, whatever that code does."""

import asyncio
import logging
import signal
import threading

import pytest

from partyctl_base.looping import may_be_pressed, run_loop


async def unstoppable(until: asyncio.Event) -> None:
    while not until.is_set():
        try:
            await until.wait()
        except asyncio.CancelledError:
            continue


def test_a_task_that_ignores_being_cancelled_is_left_behind_by_name(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> str:
        deaf = asyncio.create_task(unstoppable(asyncio.Event()), name="the deaf one")
        await asyncio.sleep(0)
        return "done" if not deaf.done() else ""

    assert run_loop(main(), limit=0.01) == "done"
    assert "the deaf one did not stop within 0.01 s and is left behind" in caplog.text


def test_tasks_that_end_when_cancelled_are_ended_and_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    ended = []

    async def other() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    async def main() -> None:
        main.task = asyncio.create_task(other())  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    run_loop(main())
    assert (ended, caplog.text) == ([1], "")


def test_a_system_exit_of_one_task_is_not_the_end_of_another(caplog: pytest.LogCaptureFixture) -> None:
    async def exits() -> None:
        raise SystemExit(5)

    async def main() -> str:
        other = asyncio.create_task(exits())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert isinstance(other.exception(), SystemExit)
        return "went on"

    with caplog.at_level(logging.WARNING):
        assert run_loop(main()) == "went on"
    assert "it alone ends" in caplog.text


def test_a_system_exit_of_the_main_coroutine_is_that_of_the_call() -> None:
    async def main() -> None:
        raise SystemExit(5)

    with pytest.raises(SystemExit):
        run_loop(main())


def test_a_system_exit_on_the_way_out_does_not_keep_the_others_from_ending() -> None:
    ended = []

    async def exits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise SystemExit(5)

    async def ends() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append(1)

    async def main() -> list[object]:
        tasks: list[object] = [asyncio.create_task(work()) for work in (exits, ends, exits)]
        await asyncio.sleep(0)
        return tasks

    run_loop(main())
    assert ended == [1]


def test_a_thread_of_the_pool_that_never_ends_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()

    async def main() -> None:
        asyncio.get_running_loop().run_in_executor(None, release.wait)
        await asyncio.sleep(0)

    try:
        run_loop(main(), limit=0.01)
    finally:
        release.set()
    assert "thread of the loop's pool" in caplog.text


def test_ctrl_c_cancels_the_main_coroutine_first() -> None:
    ended = []

    async def main() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    with pytest.raises(KeyboardInterrupt):
        run_loop(main())
    assert ended == [1]


def test_ctrl_c_is_a_persons_only_where_python_makes_it_an_exception() -> None:
    assert may_be_pressed()
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        assert not may_be_pressed()
    finally:
        signal.signal(signal.SIGINT, before)
    there: list[bool] = []
    thread = threading.Thread(target=lambda: there.append(may_be_pressed()))
    thread.start()
    thread.join()
    assert there == [False]
