import os
from pathlib import Path

import pytest

from partyctl_confinement.title import TitleArea


@pytest.fixture
def titled():
    """Writes a title in a forked child; what the kernel shows of it."""

    def run(title: str) -> tuple[str, str]:
        area = TitleArea.of_this_process()
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            area.write(title)
            os.write(writing, Path("/proc/self/comm").read_bytes() + Path("/proc/self/cmdline").read_bytes())
            os._exit(0)
        os.waitpid(pid, 0)
        os.close(writing)
        comm, _, line = os.read(reading, 100_000).decode(errors="replace").partition("\n")
        os.close(reading)
        return comm, line.rstrip("\0")

    return run


def test_a_process_is_shown_under_its_title(titled) -> None:
    assert titled("party: me") == ("party: me", "party: me")


def test_a_title_that_is_too_long_is_cut(titled) -> None:
    size = TitleArea.of_this_process().size
    comm, line = titled("x" * 10_000)
    assert comm == "x" * 15
    assert line == "x" * (size - 1)
