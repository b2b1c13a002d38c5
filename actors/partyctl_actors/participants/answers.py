"""Reading the message out of a model's answer."""

from __future__ import annotations

import json
import re

from partyctl_actors.errors import ContentError, SelectionError
from partyctl_actors.participants.interface import Offer
from partyctl_actors.participants.schemas import WRAPPED
from partyctl_actors.protocol.message import Message

_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n\s*```", re.DOTALL)

_FIX = 'Answer {"label": ..., "payload": {...}}'
_SHOWN = 200
"""Characters of an answer that an error quotes."""


def read(text: str, offer: Offer, structured: object = None) -> Message:
    """The message that an answer holds.

    Args:
        text: the answer.
        offer: what may be said now.
        structured: what the provider made of the answer by an output schema; None if it made nothing.

    Raises:
        ContentError: it holds no such object, or fields that do not fit.
        SelectionError: its label is not on offer.
    """
    answer = structured if isinstance(structured, dict) else _object(text)
    wrapped = answer.get(WRAPPED)
    if isinstance(wrapped, dict) and len(answer) == 1:
        answer = wrapped
    label = answer.get("label")
    kind = next((kind for kind in offer.messages if kind.label == label), None)
    if kind is None:
        offered = ", ".join(kind.label for kind in offer.messages)
        raise SelectionError(f"{label!r:.100} is not on offer", where=str(offer.role), fix=f"On offer: {offered}")
    payload = answer.get("payload", {})
    if not isinstance(payload, dict):
        raise ContentError("The payload is not an object", where=f"{offer.role}, {label}", why=f"got {payload!r:.100}")
    return kind.from_wire(payload)


def given_up(error: ContentError | SelectionError, asked: int) -> None:
    """Say in `error`, about the last of several answers, how often was asked.

    Args:
        error: what `read` raised.
        asked: how many answers there were.
    """
    if asked > 1:
        error.why += f"{'; ' if error.why else ''}it was asked {asked} times, and no answer could be used"


def _object(text: str) -> dict[str, object]:
    """The JSON object in `text`: all of it, or what a code fence or a sentence around it holds (models add both)."""
    problem = "it is empty"
    fenced = (match.group(1) for match in _FENCED.finditer(text))
    for candidate in (text, *fenced, text[text.find("{") : text.rfind("}") + 1]):
        try:
            found = json.loads(candidate)
        except (ValueError, RecursionError) as error:
            problem = str(error)
            continue
        if isinstance(found, dict):
            return found
        problem = f"it is a {type(found).__name__}"
    said = f"; it says {text.strip()[:_SHOWN]!r}" if text.strip() else ""
    raise ContentError("The answer is not a JSON object", why=problem + said, fix=_FIX)
