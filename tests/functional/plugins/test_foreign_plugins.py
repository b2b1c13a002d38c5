"""Plugins of strangers, good and bad, as real modules in a worker of their own."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from partyctl_plugins.contract import FailureKind, PluginLoadError, ProviderCapabilityError, TurnFailedError
from partyctl_plugins.events import AssistantText
from partyctl_plugins.manager import ProviderEntry
from partyctl_plugins.records import Close, Closed, Failed, Interrupt, Loaded, Opened, Phase, Result

GOOD = """
import os, sys, threading, time
from partyctl_plugins import hookimpl
from partyctl_plugins.contract import *
from partyctl_plugins.events import *

class Conversation:
    conversation_id = "conv-1"
    def turn(self, request, emit):
        return TurnResult(text="hello", session_id="conv-1")
    def interrupt(self):
        pass
    def close(self):
        pass

class Transport:
    profile = ProviderProfile("foreign")
    def open(self, spec):
        return Conversation()

@hookimpl
def partyctl_transport(kind, options):
    return Transport()
"""

Write = Callable[[str], ProviderEntry]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_module(source: str) -> ProviderEntry:
        (tmp_path / "foreign_plugin.py").write_text(source)
        return ProviderEntry("foreign", "foreign_plugin", "foreign-dist", "0.1")

    return write_module


def turn_body(body: str) -> str:
    """The good plugin with another turn."""
    return GOOD.replace('        return TurnResult(text="hello", session_id="conv-1")', textwrap.indent(body, " " * 8))


def ready(forked: Any, plugin: ProviderEntry) -> None:
    forked.load(plugin)
    forked.receive(Loaded)
    forked.open()
    forked.receive(Opened)


def failure(forked: Any) -> TurnFailedError:
    error = forked.receive(Failed).exception()
    assert isinstance(error, TurnFailedError)
    return error


class TestLoading:
    def test_a_good_plugin_works(self, forked: Any, write: Write) -> None:
        ready(forked, write(GOOD))
        forked.turn()
        assert forked.receive(Result).result.text == "hello"

    @pytest.mark.parametrize(
        ("source", "said"),
        [
            ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
            ("def (:", "SyntaxError"),
            ("raise SystemExit(3)", "SystemExit: 3"),
            ("raise KeyboardInterrupt", "KeyboardInterrupt"),
            ("x = 1", "implements no hook partyctl_transport"),
            (GOOD.replace("@hookimpl", ""), "is not marked"),
            (GOOD.replace("return Transport()", "raise SystemExit"), "SystemExit"),
            (GOOD.replace("return Transport()", "return 1 / 0"), "ZeroDivisionError"),
            (GOOD.replace('ProviderProfile("foreign")', '"none"'), "has a str for a profile"),
            (
                GOOD.replace('ProviderProfile("foreign")', "ProviderProfile(3)"),
                "name must be text that is not empty, not 3",
            ),
        ],
    )
    def test_a_broken_one_is_reported_with_its_cause(self, forked: Any, write: Write, source: str, said: str) -> None:
        forked.load(write(source))
        failed = forked.receive(Failed)
        assert failed.phase is Phase.LOAD
        error = failed.exception()
        assert isinstance(error, PluginLoadError)
        assert said in str(error)
        assert "foreign-dist 0.1" in str(error)
        forked.send(Close())
        forked.receive(Closed)
        assert forked.ending().status == 0

    def test_a_missing_module_is_reported(self, forked: Any) -> None:
        forked.load(ProviderEntry("gone", "gone_plugin", "gone-dist", "1"))
        assert "Reinstall gone-dist 1" in str(forked.receive(Failed).exception())

    def test_a_kind_it_does_not_offer_is_refused(self, forked: Any, write: Write) -> None:
        forked.load(write(GOOD.replace("return Transport()", "return None")))
        error = forked.receive(Failed).exception()
        assert isinstance(error, ProviderCapabilityError)
        assert "cannot be reached by stream" in str(error)

    def test_one_that_exits_behind_our_back_is_seen_by_its_status(self, forked: Any, write: Write) -> None:
        forked.load(write("import os; os._exit(7)"))
        assert forked.next() is None
        assert forked.ending().status == 7

    def test_one_that_never_comes_back_ends_with_its_channel(self, forked: Any, write: Write) -> None:
        forked.load(write("import time; print('asleep'); time.sleep(600)"))
        forked.channel.close()
        assert forked.ending().status == 0

    def test_what_it_prints_never_reaches_the_channel(self, forked: Any, write: Write) -> None:
        noisy = 'import os\nprint("import time")\nos.write(1, b"raw\\n")\n' + turn_body(
            'print("turn time", flush=True)\nos.system("echo child")\nreturn TurnResult(text="quiet")'
        )
        ready(forked, write(noisy))
        forked.turn()
        assert forked.receive(Result).result.text == "quiet"
        assert sorted(forked.log().split("\n")) == ["", "child", "import time", "raw", "turn time"]

    def test_it_gets_the_environment_and_directory_it_was_given_and_no_other(self, forked: Any, write: Write) -> None:
        seen = "import os\nSEEN = dict(os.environ), os.getcwd()\n" + turn_body(
            "return TurnResult(structured_output=SEEN)"
        )
        ready(forked, write(seen))
        forked.turn()
        environment, cwd = forked.receive(Result).result.structured_output  # type: ignore[misc]
        assert set(environment) == {"PATH", "PARTY"}
        assert cwd == str(forked.cwd)

    def test_a_directory_that_is_not_there_is_reported(self, forked: Any, write: Write, tmp_path: Path) -> None:
        forked.cwd = tmp_path / "gone"
        forked.load(write(GOOD))
        assert "cannot be entered" in str(forked.receive(Failed).exception())


class TestTurns:
    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ("raise ValueError('odd')", "ValueError: odd"),
            ("raise SystemExit(3)", "SystemExit: 3"),
            ("raise KeyboardInterrupt", "KeyboardInterrupt"),
            ("return 'hello'", "returned a str"),
            ("return TurnResult(text=3)", "text must be str, not 3"),
            ("return TurnResult(structured_output=object())", "JSON-like data expected, not a object"),
            ("emit('hello')", "one of RunStarted"),
            ("emit(AssistantText(None))", "event.text: text expected"),
            ("return TurnResult(text='x' * (70 * 1024 * 1024))", "over the channel's ceiling"),
        ],
    )
    def test_whatever_it_does_wrong_is_a_failed_turn(self, forked: Any, write: Write, body: str, said: str) -> None:
        ready(forked, write(turn_body(f"if request.prompt != 'go':\n    return TurnResult(text='fine')\n{body}")))
        forked.turn("turn-1")
        error = failure(forked)
        assert error.kind is FailureKind.OTHER
        assert said in str(error)
        forked.turn("turn-2", prompt="again")
        assert forked.receive(Result).result.text == "fine"

    def test_an_event_after_the_end_of_its_turn_stays_in_the_worker(self, forked: Any, write: Write) -> None:
        body = """
        def late():
            gate.wait(10)
            try:
                emit(AssistantText("late"))
            except Exception as error:
                outcome.append(str(error))
        if request.prompt == "go":
            thread = threading.Thread(target=late)
            thread.start()
            threads.append(thread)
            return TurnResult()
        gate.set()
        threads[0].join()
        return TurnResult(text=outcome[0])
        """
        globals_ = "import threading\ngate, threads, outcome = threading.Event(), [], []\n"
        ready(forked, write(globals_ + turn_body(textwrap.dedent(body))))
        forked.turn("turn-1")
        forked.receive(Result)
        forked.turn("turn-2", prompt="again")
        assert "after the end of its turn" in forked.receive(Result).result.text
        assert forked.events == []

    def test_an_interrupt_that_blocks_keeps_neither_the_reader_nor_the_end(self, forked: Any, write: Write) -> None:
        blocking = turn_body("emit(AssistantText('on'))\ntime.sleep(600)").replace(
            "    def interrupt(self):\n        pass", "    def interrupt(self):\n        time.sleep(600)"
        )
        ready(forked, write(blocking))
        forked.turn("turn-1")
        forked.receive_event(AssistantText)
        forked.send(Interrupt("turn-1"))
        forked.send(Interrupt("turn-1"))
        forked.channel.close()
        assert forked.ending().status == 0

    def test_an_interrupt_that_raises_leaves_the_turn_alone(self, forked: Any, write: Write) -> None:
        raising = "import threading\ncalled = threading.Event()\n" + turn_body(
            "emit(AssistantText('on'))\nreturn TurnResult(text='done', interrupted=not called.wait(10))"
        ).replace(
            "    def interrupt(self):\n        pass", "    def interrupt(self):\n        called.set()\n        1 / 0"
        )
        ready(forked, write(raising))
        forked.turn("turn-1")
        forked.receive_event(AssistantText)
        forked.send(Interrupt("turn-1"))
        result = forked.receive(Result).result
        assert (result.text, result.interrupted) == ("done", False)
        forked.turn("turn-2")  # which begins when that interrupt has returned
        forked.receive(Result)
        assert "ZeroDivisionError" in forked.log()

    def test_a_turn_that_had_not_come_to_listen_gets_its_interrupt_again(self, forked: Any, write: Write) -> None:
        slow = turn_body(
            "self.stop = None\nemit(AssistantText('on'))\ntime.sleep(0.1)\nself.stop = threading.Event()\n"
            "return TurnResult(interrupted=self.stop.wait(10))"
        ).replace(
            "    def interrupt(self):\n        pass", "    def interrupt(self):\n        self.stop and self.stop.set()"
        )
        ready(forked, write(slow))
        forked.turn("turn-1")
        forked.receive_event(AssistantText)
        forked.send(Interrupt("turn-1"))
        assert forked.receive(Result).result.interrupted


class TestItsLog:
    """The error says what broke; where in the plugin it broke is in the log."""

    @staticmethod
    def turning(statement: str) -> str:
        return GOOD.replace("emit):\n", f"emit):\n        {statement}\n")

    def test_the_line_that_broke_is_in_it_once(self, forked: Any, write: Write) -> None:
        ready(forked, write(self.turning("1 / 0")))
        forked.turn("turn-1")
        assert "ZeroDivisionError" in str(forked.receive(Failed).exception())
        assert "    1 / 0" in forked.log()
        assert forked.log().count("Traceback") == 1

    @pytest.mark.parametrize("source", ["1 / 0", GOOD.replace("return Transport()", "return 1 / 0")])
    def test_so_is_one_that_broke_while_it_was_loaded(self, forked: Any, write: Write, source: str) -> None:
        forked.load(write(source))
        assert isinstance(forked.receive(Failed).exception(), PluginLoadError)
        assert "    1 / 0" in forked.log() or "    return 1 / 0" in forked.log()
        assert forked.log().count("Traceback") == 1

    def test_an_error_of_the_contract_is_not(self, forked: Any, write: Write) -> None:
        ready(forked, write(self.turning('raise TurnFailedError("no")')))
        forked.turn("turn-1")
        assert str(forked.receive(Failed).exception()) == "no"
        assert forked.log() == ""

    def test_one_that_the_plugin_closed_takes_nothing_from_the_report(self, forked: Any, write: Write) -> None:
        ready(forked, write(self.turning("sys.stderr.close(); 1 / 0")))
        forked.turn("turn-1")
        assert "ZeroDivisionError" in str(forked.receive(Failed).exception())


class TestOpeningAndClosing:
    @pytest.mark.parametrize(
        ("source", "said"),
        [
            (GOOD.replace("return Conversation()", "raise SystemExit"), "SystemExit"),
            (GOOD.replace("return Conversation()", "return None"), "AttributeError"),
            (
                GOOD.replace('conversation_id = "conv-1"', "conversation_id = 3"),
                "conversation_id must be text or None, not 3",
            ),
        ],
    )
    def test_a_broken_open_is_reported(self, forked: Any, write: Write, source: str, said: str) -> None:
        forked.load(write(source))
        forked.receive(Loaded)
        forked.open()
        failed = forked.receive(Failed)
        assert failed.phase is Phase.OPEN
        assert said in str(failed.exception())

    def test_a_broken_close_is_reported_and_the_worker_ends_all_the_same(self, forked: Any, write: Write) -> None:
        ready(forked, write(GOOD.replace("    def close(self):\n        pass", "    def close(self):\n        1 / 0")))
        forked.send(Close())
        failed = forked.receive(Failed)
        assert failed.phase is Phase.CLOSE
        assert "ZeroDivisionError" in str(failed.exception())
        forked.receive(Closed)
        assert forked.ending().status == 0
