"""The loop and the private host of a program's agent sessions end with the last of them, however that is let go."""

import asyncio
import concurrent.futures
import threading

import pytest

from partyctl.grounds import SharedGrounds


def test_a_ctrl_c_while_the_last_session_is_let_go_leaves_no_thread_and_no_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grounds = SharedGrounds()
    loop = grounds.hold()
    (thread,) = (each for each in threading.enumerate() if each.name == "agent-sessions")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(concurrent.futures.Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            grounds.release()
        thread.join(10)
    assert not thread.is_alive()
    assert loop.is_closed()
    again = grounds.hold()
    assert asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "runs"), again).result(10) == "runs"
    grounds.release()
    assert again.is_closed()
