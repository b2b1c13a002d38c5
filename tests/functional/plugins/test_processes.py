"""Commands on this machine: the contract, and what commands do wrong."""

import os
import resource
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from partyctl.testing import FakeConfinement, ProcessContract
from partyctl_base.process import is_alive
from partyctl_plugins import processes
from partyctl_plugins.contract import HostExecutor, Process, ProcessClosedError, ProcessExited, TurnFailedError, confine
from partyctl_plugins.processes import HostProcess

DEAF = "import time; time.sleep(600)"


class TestHostProcess(ProcessContract):
    def make_echo(self) -> Process:
        return HostExecutor().spawn(["cat"])

    def make_silent(self) -> Process:
        return HostExecutor().spawn(["sleep", "600"])


class TestConfinedProcess(ProcessContract):
    """Behind a place to run commands in, which here is only `env`."""

    def make_echo(self) -> Process:
        return self.spawn("cat")

    def make_silent(self) -> Process:
        return self.spawn("sleep", "600")

    def spawn(self, *argv: str) -> Process:
        place = FakeConfinement(env={"PATH": os.environ["PATH"]}, prefix=["env"])
        return confine(HostExecutor(), place).spawn(argv)


@pytest.fixture
def python() -> Iterator[list[HostProcess]]:
    started: list[HostProcess] = []
    yield started
    for process in started:
        process.close()


def run(started: list[HostProcess], program: str, write_timeout: float = 10.0) -> HostProcess:
    started.append(HostExecutor(write_timeout=write_timeout).spawn([sys.executable, "-c", program]))
    return started[-1]


def test_one_that_never_reads_holds_up_a_write_for_its_limit_only(python: list[HostProcess]) -> None:
    deaf = run(python, DEAF, write_timeout=0.3)
    with pytest.raises(ProcessClosedError, match="leaves its input unread"):
        deaf.write("x" * 2_000_000)


def test_closing_the_input_and_killing_wait_for_no_write(python: list[HostProcess]) -> None:
    deaf = run(python, DEAF)
    refused: list[ProcessClosedError] = []

    def write() -> None:
        with pytest.raises(ProcessClosedError) as caught:
            deaf.write("x" * 2_000_000)
        refused.append(caught.value)

    writer = threading.Thread(target=write)
    writer.start()
    before = time.monotonic()
    deaf.close_stdin()
    deaf.kill()
    assert time.monotonic() - before < 5
    writer.join(20)
    assert refused


def test_the_end_is_seen_though_a_grandchild_holds_the_output_open(python: list[HostProcess]) -> None:
    program = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)"
    parent = run(python, program)
    line = parent.next_output(20)
    try:
        assert parent.next_output(20) == ProcessExited(0)
    finally:
        os.kill(int(getattr(line, "text", "0")), 9)


def test_a_time_longer_than_the_kernel_takes_is_waited_for_all_the_same() -> None:
    process = HostExecutor().spawn(["true"])
    try:
        assert process.next_output(1e9) == ProcessExited(0)
    finally:
        process.close()


def test_kill_takes_what_left_its_session_along(python: list[HostProcess]) -> None:
    grandchild = "print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid, flush=True)"
    parent = run(python, f"import subprocess; {grandchild}; {DEAF}")
    pid = int(getattr(parent.next_output(20), "text", "0"))
    parent.kill()
    assert parent.wait(20) == -9
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(pid)


def test_output_that_nobody_reads_stays_with_its_writer(python: list[HostProcess]) -> None:
    flood = run(python, "import os\nwhile True: os.write(1, b'x' * 65535 + b'\\n')")
    flood.next_output(20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert flood.wait(0.3) is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


def test_a_line_without_end_comes_in_pieces(python: list[HostProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LINE_MAX", 1000)
    long = run(python, "print('x' * 100_000, end='')")
    pieces = []
    while not isinstance(said := long.next_output(20), ProcessExited):
        assert said is not None
        pieces.append(said.text)
    assert len(pieces) > 1
    assert "".join(pieces) == "x" * 100_000


@pytest.mark.parametrize(
    ("argv", "cwd", "where"),
    [(["no-such-command"], None, "no-such-command"), (["cat"], "/no/such/directory", "/no/such/directory"),
     (["cat\0"], None, "cat\0")],
)  # fmt: skip
def test_one_that_cannot_be_started_is_an_error_of_ours_that_says_why(
    argv: list[str], cwd: str | None, where: str
) -> None:
    with pytest.raises(TurnFailedError, match="could not be started") as failed:
        HostExecutor().spawn(argv, cwd=cwd)
    assert failed.value.where == where
    assert failed.value.why


def test_what_runs_inside_gets_the_words_and_the_environment_of_the_place() -> None:
    place = FakeConfinement({"/repo": "/"}, {"PATH": os.environ["PATH"], "INSIDE": "yes"}, prefix=["env"])
    executor = confine(HostExecutor(), place)
    assert executor.find_binary("tool") == "tool"
    process = executor.spawn(["sh", "-c", "echo $INSIDE $OUTSIDE; pwd"], cwd="/repo", env={"OUTSIDE": "too"})
    try:
        said = [process.next_output(20), process.next_output(20)]
    finally:
        process.close()
    assert [getattr(each, "text", "") for each in said] == ["yes too\n", "/\n"]
