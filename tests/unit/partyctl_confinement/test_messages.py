import msgpack
import pytest

from partyctl_confinement import messages
from partyctl_confinement.endings import Hit


@pytest.mark.parametrize(
    ("wait_status", "status", "signal"), [(0, 0, None), (3 << 8, 3, None), (9, None, 9), (139, None, 11)]
)
def test_an_exit_notice_tells_status_from_signal(wait_status, status, signal) -> None:
    notice = msgpack.unpackb(messages.exited("w", 5, wait_status, b"tail", "exit"))
    assert (notice["status"], notice["signal"]) == (status, signal)
    assert (notice["id"], notice["pid"], notice["stderr"], notice["cause"]) == ("w", 5, b"tail", "exit")
    assert (notice["limit"], notice["evidence"]) == (None, "")


def test_an_exit_notice_names_the_limit_and_what_says_so() -> None:
    notice = msgpack.unpackb(messages.exited("w", 5, 24, b"", "exit", Hit("cpu_seconds", "over it")))
    assert (notice["limit"], notice["evidence"]) == ("cpu_seconds", "over it")
