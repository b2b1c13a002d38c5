"""What a conversation is opened with, and how a conversation is told from a steerable one."""

from typing import Any

import pytest

from partyctl_plugins import contract
from partyctl_plugins.contract import (
    ApprovalPolicy,
    ConversationSpec,
    NativePermissions,
    SteerableConversation,
    TurnRequest,
    TurnResult,
)


class Plain:
    conversation_id = "conv-1"

    def turn(self, request: TurnRequest, emit: contract.Emit) -> TurnResult:
        return TurnResult()

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


class Steerable(Plain):
    def steer(self, text: str) -> None: ...


def make(**changes: Any) -> ConversationSpec:
    fields = {"cwd": "/repo", "permissions": NativePermissions.bypass(), "approvals": ApprovalPolicy.DENY, **changes}
    return ConversationSpec(**fields)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("cwd", ".", ValueError),
        ("cwd", "/a\0", ValueError),
        ("permissions", "bypass", TypeError),
        ("approvals", "ask", ValueError),
        ("resume_id", "", ValueError),
    ],
)
def test_a_specification_that_is_not_as_described_is_refused(field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make(**{field: value})


def test_what_is_asked_about_approvals_may_be_a_word() -> None:
    assert make(approvals="fail_turn").approvals is ApprovalPolicy.FAIL_TURN


def test_a_conversation_with_steer_is_steerable() -> None:
    assert isinstance(Steerable(), SteerableConversation)
    assert not isinstance(Plain(), SteerableConversation)


def test_every_exported_name_exists() -> None:
    assert all(hasattr(contract, name) for name in contract.__all__)
    assert sorted(contract.__all__) == contract.__all__
