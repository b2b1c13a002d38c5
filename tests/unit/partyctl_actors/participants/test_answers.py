from __future__ import annotations

import pytest
from fakes.runs import A, B, Ping, Pong, Stop

from partyctl_actors.errors import ContentError, SelectionError
from partyctl_actors.participants import Offer
from partyctl_actors.participants.answers import given_up, read

OFFER = Offer(B, A, (Pong, Stop))


@pytest.mark.parametrize(
    "text",
    [
        '{"label": "Pong", "payload": {"text": "yo"}}',
        ' \n{"payload": {"text": "yo"}, "label": "Pong"}\n',
        'Here it is:\n```json\n{"label": "Pong", "payload": {"text": "yo"}}\n```\nDone.',
        '```\n{"label": "Pong", "payload": {"text": "yo"}}\n```',
    ],
)
def test_an_object_alone_or_in_a_fence_is_read(text: str) -> None:
    assert read(text, OFFER) == Pong("yo")


def test_a_message_without_fields_needs_no_payload() -> None:
    assert read('{"label": "Stop"}', OFFER) == Stop()


@pytest.mark.parametrize("text", ["", "yes", "[]", "5", "[" * 100_000, '{"label": "Pong", "payload": []}'])
def test_what_is_no_answer_is_a_content_error(text: str) -> None:
    with pytest.raises(ContentError):
        read(text, OFFER)


@pytest.mark.parametrize("label", ['"Ping"', "null", "[1]", '"' + "x" * 5000 + '"'])
def test_a_label_that_is_not_on_offer_is_told_what_is(label: str) -> None:
    with pytest.raises(SelectionError, match="On offer: Pong, Stop") as caught:
        read(f'{{"label": {label}, "payload": {{}}}}', OFFER)
    assert len(str(caught.value)) < 300
    assert Ping not in OFFER.messages


@pytest.mark.parametrize("text", ["I cannot do that.", "x" * 100_000])
def test_what_is_no_object_is_quoted(text: str) -> None:
    with pytest.raises(ContentError) as caught:
        read(text, OFFER)
    assert text[:100] in caught.value.why
    assert len(str(caught.value)) < 500


def test_the_last_of_several_answers_says_how_often_was_asked() -> None:
    error = ContentError("no", why="it is empty")
    given_up(error, 1)
    assert error.why == "it is empty"
    given_up(error, 2)
    assert error.why == "it is empty; it was asked 2 times, and no answer could be used"
