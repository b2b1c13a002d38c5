"""The scripted transport: options, positions, and the rules every conversation follows."""

from pathlib import Path
from typing import Any

import pytest

from partyctl_plugins import scripted
from partyctl_plugins.contract import (
    ApprovalPolicy,
    ConversationSpec,
    NativeMode,
    NativePermissions,
    StdioMcpServer,
    TransportKind,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.errors import (
    ProviderCapabilityError,
    ProviderOptionsError,
    SessionResumeError,
    SessionStateError,
    TurnFailedError,
)
from partyctl_plugins.scripted.transport import PROFILE, Cursor, ScriptedTransport

HELLO = [{"say": "hello"}]


def spec(cwd: str = "/", **changes: Any) -> ConversationSpec:
    return ConversationSpec(cwd, NativePermissions.bypass(), ApprovalPolicy.DENY, **changes)


def text(conversation: Any) -> str:
    result: TurnResult = conversation.turn(TurnRequest("go"), lambda event: None)
    return result.text


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({}, "needs a script"),
            ({"scrpt": []}, "no option 'scrpt'.*Did you mean 'script'"),
            ({"script": [], "zzz": 1}, "Its options are script and state"),
            ({"script": [], "state": 3}, "'state' must be the path"),
        ],
    )
    def test_a_wrong_option_is_refused(self, options: dict[str, object], said: str) -> None:
        with pytest.raises(ProviderOptionsError, match=said):
            ScriptedTransport(options)

    def test_the_script_is_checked_at_open(self) -> None:
        transport = ScriptedTransport({"script": [[{"sya": "x"}]]})
        with pytest.raises(ProviderOptionsError, match="Did you mean 'say'"):
            transport.open(spec())

    @pytest.mark.parametrize(
        "changes", [{"mcp_servers": (StdioMcpServer("files", "x"),)}, {"reasoning_effort": "high"}]
    )
    def test_what_it_cannot_do_is_refused(self, changes: dict[str, Any]) -> None:
        with pytest.raises(ProviderCapabilityError, match="cannot take"):
            ScriptedTransport({"script": []}).open(spec(**changes))


class TestHooks:
    def test_every_kind_gives_the_same_transport(self) -> None:
        for kind in TransportKind:
            transport = scripted.partyctl_transport(kind, {"script": [HELLO]})
            assert text(transport.open(spec())) == "hello"

    def test_every_permission_mode_is_taken(self) -> None:
        assert PROFILE.native_permission_modes == set(NativeMode)


class TestPosition:
    def test_turns_follow_one_another_and_the_end_is_said(self) -> None:
        conversation = ScriptedTransport({"script": [HELLO, [{"say": "again"}]]}).open(spec())
        assert [text(conversation), text(conversation)] == ["hello", "again"]
        with pytest.raises(TurnFailedError, match=r"has no turn 3 \(options.script\): it ends after turn 2"):
            text(conversation)

    def test_conversations_of_one_transport_share_the_position(self) -> None:
        transport = ScriptedTransport({"script": [HELLO, [{"say": "again"}]]})
        assert [text(transport.open(spec())), text(transport.open(spec()))] == ["hello", "again"]

    def test_a_failed_attempt_takes_its_turn(self) -> None:
        conversation = ScriptedTransport({"script": [[{"fail": "transient"}], HELLO]}).open(spec())
        with pytest.raises(TurnFailedError):
            text(conversation)
        assert text(conversation) == "hello"

    def test_a_state_file_carries_the_position_to_the_next_process(self, tmp_path: Path) -> None:
        options = {"script": [HELLO, [{"say": "again"}]], "state": "position"}
        texts = [text(ScriptedTransport(options).open(spec(str(tmp_path)))) for _ in range(2)]
        assert texts == ["hello", "again"]
        assert (tmp_path / "position").stat().st_size == 2

    def test_takers_of_one_file_get_different_turns(self, tmp_path: Path) -> None:
        left, right = Cursor(tmp_path / "position"), Cursor(tmp_path / "position")
        assert [left.take(), right.take(), left.take()] == [1, 2, 3]


class TestResume:
    def test_a_fresh_conversation_gets_a_fresh_id(self, ids: Any) -> None:
        transport = ScriptedTransport({"script": []}, ids=ids)
        assert [transport.open(spec()).conversation_id for _ in range(2)] == ["scripted-1", "scripted-2"]

    def test_a_resumed_one_keeps_its_id(self) -> None:
        conversation = ScriptedTransport({"script": [HELLO]}).open(spec(resume_id="conv-9"))
        result = conversation.turn(TurnRequest("go"), lambda event: None)
        assert (result.session_id, result.resumed) == ("conv-9", True)

    def test_a_script_may_refuse_at_open(self) -> None:
        transport = ScriptedTransport({"script": {"refuse_resume": True, "turn": [HELLO]}})
        with pytest.raises(SessionResumeError) as caught:
            transport.open(spec(resume_id="conv-9"))
        assert caught.value.session_id == "conv-9"
        assert text(transport.open(spec())) == "hello"


class TestRules:
    def test_interrupting_an_idle_conversation_does_nothing(self) -> None:
        conversation = ScriptedTransport({"script": [HELLO]}).open(spec())
        conversation.interrupt()
        assert not conversation.turn(TurnRequest("go"), lambda event: None).interrupted

    def test_close_is_idempotent_and_a_later_turn_is_refused(self) -> None:
        conversation = ScriptedTransport({"script": [HELLO]}).open(spec())
        conversation.close()
        conversation.close()
        conversation.interrupt()
        with pytest.raises(SessionStateError, match="closed"):
            text(conversation)

    def test_closing_one_conversation_leaves_the_other(self) -> None:
        transport = ScriptedTransport({"script": [HELLO]})
        first, second = transport.open(spec()), transport.open(spec())
        first.close()
        assert text(second) == "hello"

    def test_a_turn_inside_a_turn_is_refused(self) -> None:
        conversation = ScriptedTransport({"script": [HELLO, HELLO]}).open(spec())
        with pytest.raises(SessionStateError, match="running already"):
            conversation.turn(TurnRequest("go"), lambda event: text(conversation) and None)
        assert text(conversation) == "hello"

    def test_a_handler_that_raises_ends_the_turn_and_not_the_conversation(self) -> None:
        conversation = ScriptedTransport({"script": [HELLO, HELLO]}).open(spec())

        def broken(event: object) -> None:
            raise RuntimeError("handler")

        with pytest.raises(RuntimeError, match="handler"):
            conversation.turn(TurnRequest("go"), broken)
        assert text(conversation) == "hello"
