from __future__ import annotations

from collections.abc import Callable

import pytest
from fakes.runs import A, request_reply

from partyctl_actors.participants import Agent, Seat, replies
from partyctl_actors.participants.model_player import ModelPlayer
from partyctl_actors.participants.provider import ProviderPlayer
from partyctl_plugins.contract import ApprovalPolicy, NativePermissions

GIVEN = {"permissions": NativePermissions.bypass(), "approvals": ApprovalPolicy.DENY}
SEAT = Seat("r", A, request_reply)


class SomeTransport:
    profile = None

    def open(self, spec: object) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Agent("claude"), "permissions"),  # type: ignore[call-overload]
        (lambda: Agent("claude", permissions=GIVEN["permissions"]), "approvals"),  # type: ignore[call-overload]
        (lambda: Agent(replies([]), permissions=GIVEN["permissions"]), "permissions"),  # type: ignore[call-overload]
        (lambda: Agent(replies([]), options={"a": 1}), "options"),  # type: ignore[call-overload]
        (lambda: Agent("claude", **{**GIVEN, "permissions": "bypass"}), "permissions"),  # type: ignore[call-overload]
        (lambda: Agent("claude", **{**GIVEN, "approvals": "denyy"}), "approvals"),  # type: ignore[call-overload]
        (lambda: Agent("claude", memory=[], **GIVEN), "memory"),  # type: ignore[call-overload]
        (lambda: Agent(None, **GIVEN), "source"),  # type: ignore[call-overload]
        (lambda: Agent(SomeTransport, **GIVEN), "source"),  # type: ignore[call-overload]
        (lambda: Agent(replies([]), 5), "instructions"),  # type: ignore[call-overload]
        (lambda: Agent(replies([]), repair="1"), "repair"),  # type: ignore[call-overload]
    ],
)
def test_an_argument_that_does_not_belong_is_a_type_error_that_names_it(make: Callable[[], Agent], named: str) -> None:
    with pytest.raises(TypeError, match=rf"Agent\({named}"):
        make()


def test_an_empty_name_and_a_negative_repair_are_value_errors() -> None:
    with pytest.raises(ValueError, match="empty"):
        Agent("", **GIVEN)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="negative"):
        Agent(replies([]), repair=-1)


def test_a_name_is_a_provider_and_a_model_or_transport_is_none() -> None:
    assert Agent("claude", **GIVEN).provider == "claude"  # type: ignore[call-overload]
    assert Agent(SomeTransport(), **GIVEN).provider is None  # type: ignore[call-overload]
    assert Agent(replies([])).provider is None


def test_a_model_is_played_here_and_a_provider_by_a_worker() -> None:
    assert isinstance(Agent(replies([])).bind(SEAT), ModelPlayer)
    assert isinstance(Agent("scripted", **GIVEN).bind(SEAT), ProviderPlayer)  # type: ignore[call-overload]


def test_what_the_caller_gives_is_copied() -> None:
    options = {"script": "a"}
    agent = Agent("scripted", options=options, **GIVEN)  # type: ignore[call-overload]
    options["script"] = "b"
    assert agent.options == {"script": "a"}
