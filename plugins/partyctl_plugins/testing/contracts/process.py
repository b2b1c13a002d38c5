"""What a process does that an executor has started."""

from collections.abc import Iterator
from typing import ClassVar

import pytest

from partyctl_plugins.contract import Process, ProcessClosedError
from partyctl_plugins.processes import Output, ProcessExited, StderrText, StdoutText


class ProcessContract:
    """Subclass it as `Test...` and implement `make_echo` and `make_silent`.

    Attributes:
        limit: seconds that no single step takes.
    """

    limit: ClassVar[float] = 20.0

    @pytest.fixture(autouse=True)
    def _closing(self) -> Iterator[None]:
        self._started: list[Process] = []
        yield
        for process in self._started:
            process.close()

    def make_echo(self) -> Process:
        """A command that writes what it reads, and ends by 0 at the end of its input."""
        raise NotImplementedError

    def make_silent(self) -> Process:
        """A command that says nothing, never reads, and runs until it is ended."""
        raise NotImplementedError

    def echo(self) -> Process:
        """One of `make_echo`, closed after the check."""
        self._started.append(self.make_echo())
        return self._started[-1]

    def silent(self) -> Process:
        """One of `make_silent`, closed after the check."""
        self._started.append(self.make_silent())
        return self._started[-1]

    def rest(self, process: Process) -> list[Output]:
        """Everything up to the end of the process."""
        said: list[Output] = []
        while not said or not isinstance(said[-1], ProcessExited):
            output = process.next_output(self.limit)
            assert output is not None, f"nothing came within {self.limit:g} s after {said[-3:]}"
            said.append(output)
        return said

    def test_a_write_is_read_back(self) -> None:
        echo = self.echo()
        echo.write("one line\n")
        assert echo.next_output(self.limit) == StdoutText("one line\n")

    def test_lines_come_back_in_order_then_the_exit(self) -> None:
        echo = self.echo()
        echo.write("a\nb\n")
        echo.close_stdin()
        assert self.rest(echo) == [StdoutText("a\n"), StdoutText("b\n"), ProcessExited(0)]

    def test_megabytes_written_at_once_come_back_whole(self) -> None:
        echo, line = self.echo(), "x" * 999 + "\n"
        echo.write(line * 3000)
        echo.close_stdin()
        assert self.rest(echo) == [StdoutText(line)] * 3000 + [ProcessExited(0)]

    def test_what_was_left_unended_and_odd_marks_come_as_they_are(self) -> None:
        echo = self.echo()
        echo.write("one\u2028line\r\x85\x0c\nand ü")
        echo.close_stdin()
        assert self.rest(echo)[:-1] == [StdoutText("one\u2028line\r\x85\x0c\n"), StdoutText("and ü")]

    def test_closing_stdin_ends_the_process(self) -> None:
        echo = self.echo()
        echo.close_stdin()
        echo.close_stdin()
        assert echo.wait(self.limit) == 0

    def test_kill_ends_the_process_with_a_failure_code(self) -> None:
        silent = self.silent()
        silent.kill()
        silent.kill()
        code = silent.wait(self.limit)
        assert code
        assert self.rest(silent)[-1] == ProcessExited(code)

    def test_terminate_ends_the_process(self) -> None:
        silent = self.silent()
        silent.terminate()
        assert silent.wait(self.limit)
        silent.terminate()

    def test_output_after_exit_keeps_reporting_the_exit(self) -> None:
        echo = self.echo()
        echo.close_stdin()
        self.rest(echo)
        assert [echo.next_output(self.limit) for _ in range(3)] == [ProcessExited(0)] * 3

    def test_silence_times_out_with_none(self) -> None:
        silent = self.silent()
        assert silent.next_output(0.01) is None
        assert silent.wait(0.01) is None

    def test_writing_after_close_raises(self) -> None:
        echo = self.echo()
        echo.close_stdin()
        with pytest.raises(ProcessClosedError):
            echo.write("late\n")

    def test_writing_after_exit_raises(self) -> None:
        silent = self.silent()
        silent.kill()
        silent.wait(self.limit)
        with pytest.raises(ProcessClosedError):
            silent.write("late\n")

    def test_only_known_output_kinds_are_produced(self) -> None:
        echo = self.echo()
        echo.write("\x00\x1b[31m\n")
        echo.close_stdin()
        assert all(isinstance(each, StdoutText | StderrText | ProcessExited) for each in self.rest(echo))
