"""What the log of an agent session says to a run that goes on."""

from __future__ import annotations

import pytest

from partyctl_actors.participants.past_turns import Past, TurnNames, message_of, past_of
from partyctl_actors.supervision.policy_events import Phase
from partyctl_actors.supervision.policy_state import SessionState, TurnState, to_plain
from partyctl_actors.supervision.spending import NOTHING, Used
from partyctl_actors.supervision.spending import to_plain as used_to_plain
from partyctl_actors.supervision.turn_log import Recovered
from partyctl_plugins.codec import codec
from partyctl_plugins.contract import Continuity, Turn, TurnResult
from partyctl_plugins.testing import SequentialIds

TURN = codec(Turn)


def finished(text: str, *, interrupted: bool = False) -> dict[str, object]:
    result = TurnResult(text, interrupted=interrupted)
    return {"finished": TURN.encode(Turn(result, Continuity.CONTINUED, "turn", "c-1"))}


def log(intents: tuple[str, ...] = (), **outcomes: dict[str, object]) -> Recovered:
    return Recovered(
        None, {name: {} for name in intents}, {name.replace("_", "-"): each for name, each in outcomes.items()}
    )


def test_a_turn_is_named_after_its_message() -> None:
    names = TurnNames(SequentialIds())
    first = names.new_id("turn")
    names.said = 12
    assert [message_of(first), message_of(names.new_id("turn"))] == [0, 12]
    assert message_of("turn-abc") is None


@pytest.mark.parametrize(
    ("found", "said", "past"),
    [
        (log(), 0, Past(True)),
        (log(), 1, Past(False)),
        (log(turn_0_a=finished("x")), 1, Past(True)),
        (log(turn_0_a=finished("x")), 2, Past(False)),
        (log(turn_1_a=finished("x")), 0, Past(False)),
        (log(("turn-1-a",), turn_0_a=finished("x")), 1, Past(True)),
        (log(turn_0_a={"failed": {"type": "E", "message": ""}}), 0, Past(True)),
        (log(turn_0_a=finished("x", interrupted=True)), 0, Past(True)),
        (log(turn_0_a={"finished": {"of another": "version"}}), 0, Past(True)),
    ],
)
def test_a_log_is_of_this_run_if_it_is_at_most_one_message_ahead(found: Recovered, said: int, past: Past) -> None:
    assert past_of(found, said) == past


def test_the_newest_answer_to_the_message_that_is_due_is_the_answer() -> None:
    found = log(turn_0_a=finished("old"), turn_1_a=finished("no"), turn_1_b=finished("yes"))
    answer = past_of(found, 1).answer
    assert answer is not None
    assert answer.text == "yes"


def test_the_message_that_is_due_has_cost_what_its_turns_used_answered_or_not() -> None:
    def used(tokens: int) -> dict[str, object]:
        return {"used": used_to_plain(Used(tokens))}

    found = log(
        turn_0_a=finished("old") | used(100),
        turn_1_a=finished("no") | used(1),
        turn_1_b={"failed": {"type": "E", "message": ""}} | used(2),
        turn_1_c=finished("of before this was counted"),
    )
    assert past_of(found, 1).used == Used(3)
    for turn_id, total in (("turn-1-d", Used(7)), ("turn-0-b", Used(3))):
        state = to_plain(SessionState(turn=TurnState(turn_id, Phase.WAITING, used=Used(4))))
        assert past_of(found._replace(state=state), 1).used == total
    assert past_of(found, 3).used == NOTHING
