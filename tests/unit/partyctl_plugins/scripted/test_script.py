"""Scripts are read whole before the first turn, and what is wrong is said with its place."""

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from partyctl_plugins import scripted
from partyctl_plugins.errors import FailureKind, ProviderOptionsError
from partyctl_plugins.scripted.script import (
    Crash,
    ExitAfterResult,
    Fail,
    FloodStderr,
    IgnoreInterrupts,
    RefuseResume,
    Say,
    Tool,
    Wait,
    read,
)


def one(step: object) -> object:
    [[only]] = read([[step]], "/").turns
    return only


def documented_example() -> str:
    block = re.search(r"order::\n\n(.*?)\n\n(?=The same)", scripted.__doc__ or "", re.DOTALL)
    assert block
    return block[1]


class TestSteps:
    @pytest.mark.parametrize(
        ("step", "read_as"),
        [
            ({"say": "hello"}, Say(("hello",))),
            ({"stream": ["a", "b"]}, Say(("a", "b"))),
            ({"think": 2}, Wait(2.0)),
            ({"hang": True}, Wait(None)),
            ({"tool": "bash"}, Tool("bash")),
            ({"tool": {"name": "bash", "args": {"c": 1}, "exit_code": 2}}, Tool("bash", {"c": 1}, "", "", 2)),
            ({"fail": "auth"}, Fail(FailureKind.AUTH)),
            ({"fail": {"kind": "usage_limit", "message": "m", "resets_at": 9}}, Fail(FailureKind.USAGE_LIMIT, "m", 9)),
            ({"refuse_resume": True}, RefuseResume()),
            ({"crash": 3}, Crash(3)),
            ({"crash": "SIGKILL"}, Crash(signal.SIGKILL)),
            ({"flood_stderr": 100}, FloodStderr(100)),
            ({"ignore_interrupts": True}, IgnoreInterrupts()),
            ({"exit_after_result": 4}, ExitAfterResult(4)),
        ],
    )
    def test_each_step_is_read(self, step: object, read_as: object) -> None:
        assert one(step) == read_as

    def test_a_say_with_a_label_is_said_as_json(self) -> None:
        say = one({"say": {"label": "Draft", "payload": {"text": "é"}}})
        assert say == Say(
            ('{"label": "Draft", "payload": {"text": "é"}}',), {"label": "Draft", "payload": {"text": "é"}}
        )

    def test_a_payload_may_be_left_out(self) -> None:
        assert one({"say": {"label": "Accept"}}) == Say(
            ('{"label": "Accept", "payload": {}}',), {"label": "Accept", "payload": {}}
        )

    @pytest.mark.parametrize(
        "step",
        [
            {"say": 3},
            {"say": {"payload": {}}},
            {"say": {"label": 3}},
            {"say": {"label": "A", "colour": 1}},
            {"say": {"label": "A", "payload": {"when": object()}}},
            {"stream": "ab"},
            {"stream": [1]},
            {"think": -1},
            {"think": "1"},
            {"think": True},
            {"think": float("nan")},
            {"hang": False},
            {"tool": {}},
            {"tool": {"name": "x", "exit_code": True}},
            {"fail": "sadly"},
            {"fail": 3},
            {"crash": 256},
            {"crash": "SIGNONE"},
            {"crash": True},
            {"flood_stderr": -1},
            {"flood_stderr": 2**40},
            {"exit_after_result": 1.5},
        ],
    )
    def test_a_step_that_is_not_right_is_refused_with_its_place(self, step: dict[str, Any]) -> None:
        with pytest.raises(ProviderOptionsError) as caught:
            read([[{"say": "fine"}], [{"say": "fine"}, step]], "/")
        assert caught.value.where == "options.script, turn 2, step 2"
        assert f"step '{next(iter(step))}' is not right" in str(caught.value)

    @pytest.mark.parametrize("step", ["say", {}, {"say": "a", "think": 1}, 3])
    def test_a_step_has_one_entry(self, step: object) -> None:
        with pytest.raises(ProviderOptionsError, match="a step has one entry"):
            one(step)

    def test_an_unknown_step_is_answered_with_the_nearest(self) -> None:
        with pytest.raises(ProviderOptionsError, match=r"there is no step 'thnik'.*Did you mean 'think'"):
            one({"thnik": 1})

    def test_an_unknown_step_near_nothing_is_answered_with_the_list(self) -> None:
        with pytest.raises(ProviderOptionsError, match="The steps are say, stream"):
            one({"zzz": 1})


class TestFiles:
    def test_a_relative_path_starts_from_the_working_directory(self, tmp_path: Path) -> None:
        (tmp_path / "play.toml").write_text('refuse_resume = true\n[[turn]]\nsteps = [{ say = "hi" }]\n')
        script = read("play.toml", str(tmp_path))
        assert script.source == str(tmp_path / "play.toml")
        assert script.turns == ((Say(("hi",)),),)
        assert script.refuse_resume

    def test_the_documented_example_is_a_script(self, tmp_path: Path) -> None:
        (tmp_path / "play.toml").write_text(documented_example())
        assert len(read("play.toml", str(tmp_path)).turns) == 3

    def test_a_wrong_step_is_refused_with_file_turn_and_step(self, tmp_path: Path) -> None:
        (tmp_path / "play.toml").write_text('[[turn]]\nsteps = [{ say = "hi" }, { sya = "ho" }]\n')
        with pytest.raises(ProviderOptionsError) as caught:
            read("play.toml", str(tmp_path))
        assert str(caught.value) == (
            f"there is no step 'sya' ({tmp_path}/play.toml, turn 1, step 2). Did you mean 'say'?"
        )

    @pytest.mark.parametrize("content", [b"[[turn]", b"\xff\xfe"])
    def test_a_file_that_is_not_toml_is_refused(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "play.toml").write_bytes(content)
        with pytest.raises(ProviderOptionsError, match="not TOML"):
            read("play.toml", str(tmp_path))

    def test_a_missing_file_is_refused_by_name(self, tmp_path: Path) -> None:
        with pytest.raises(ProviderOptionsError, match=r"cannot be read .*gone\.toml\): No such file"):
            read("gone.toml", str(tmp_path))


class TestShapes:
    def test_a_turn_may_be_a_list_or_a_table(self) -> None:
        assert read([[{"say": "a"}]], "/").turns == read({"turn": [{"steps": [{"say": "a"}]}]}, "/").turns

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            (3, "a file or a list of turns"),
            ({"trun": []}, "Did you mean 'turn'"),
            ({"refuse_resume": 1}, "must be true or false"),
            ({"turn": "x"}, "the turns must be a list"),
            (["x"], "the steps must be a list"),
            ([{"steps": [], "name": "x"}], "a turn has one entry, as in steps ="),
            ([{"steps": "x"}], "the steps must be a list"),
        ],
    )
    def test_another_shape_is_refused(self, value: object, said: str) -> None:
        with pytest.raises(ProviderOptionsError, match=said):
            read(value, "/")
