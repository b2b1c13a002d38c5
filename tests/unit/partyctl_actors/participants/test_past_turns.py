"""What the log of an agent session says to a run that goes on."""

from __future__ import annotations

import pytest

from partyctl_actors.participants.past_turns import Past, TurnNames, message_of, past_of
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
