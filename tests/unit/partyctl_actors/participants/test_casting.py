from __future__ import annotations

import pytest
from fakes.runs import A, B, C, Pong, request_reply, triangle

from partyctl_actors.errors import ConformanceError
from partyctl_actors.participants import Function, Script
from partyctl_actors.participants.casting import checked_cast, missing_roles, participant
from partyctl_actors.protocol import Role

SCRIPT = Script([])


def test_a_participant_is_taken_as_it_is_and_a_function_is_wrapped() -> None:
    assert participant(A, SCRIPT) is SCRIPT
    assert isinstance(participant(A, lambda offer, heard: Pong()), Function)


@pytest.mark.parametrize(
    ("given", "text"), [(Script, "make one, Script"), (5, "played by 5"), (None, "played by None")]
)
def test_anything_else_is_refused_with_the_role_named(given: object, text: str) -> None:
    with pytest.raises(TypeError, match=f"A is .*{text}"):
        participant(A, given)


def test_a_cast_is_kept_in_the_order_of_the_protocol_and_cannot_be_changed() -> None:
    given = {B: SCRIPT, A: SCRIPT}
    cast = checked_cast(request_reply, given)
    assert list(cast) == [A, B]
    given.clear()
    assert len(cast) == 2
    with pytest.raises(TypeError):
        cast[C] = SCRIPT  # type: ignore[index]


def test_roles_that_the_cast_leaves_out_are_known() -> None:
    assert missing_roles(triangle, {B: SCRIPT}) == (A, C)


def test_a_misspelt_role_is_told_the_nearest() -> None:
    with pytest.raises(ConformanceError, match="no role Writr") as caught:
        checked_cast(request_reply, {Role("Writr"): SCRIPT})
    assert caught.value.fix == ""
    with pytest.raises(ConformanceError, match="Did you mean A"):
        checked_cast(request_reply, {Role("AA"): SCRIPT})
