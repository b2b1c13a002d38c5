"""What an agent is shown: what was said, as lines, and the form that its answer must have."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from partyctl_actors.participants.interface import Offer
from partyctl_actors.protocol.message import Message
from partyctl_actors.transcript import Envelope


def told(envelopes: Iterable[Envelope]) -> str:
    """Envelopes as lines of a prompt."""
    return "\n".join(
        f"{envelope.sender} to {envelope.receiver}: {envelope.label} {json.dumps(envelope.payload, ensure_ascii=False)}"
        for envelope in envelopes
    )


def form(offer: Offer, *, by_schema: bool = False) -> str:
    """How the answer has to look: one JSON object, of one of the forms on offer.

    Args:
        offer: what may be said now.
        by_schema: the provider has the role's output schema, so that only the choice is left to say.
    """
    if by_schema:
        labels = [json.dumps(kind.label) + (f" ({kind.intent})" if kind.intent else "") for kind in offer.messages]
        return f"Write your message to {offer.receiver}. What you may say now, by its label: {', '.join(labels)}."
    lines = [f"Write your message to {offer.receiver}: ONLY one JSON object, nothing before or after it."]
    for kind in offer.messages:
        schema = json.dumps(_schema(kind), ensure_ascii=False, sort_keys=True)
        meaning = f" ({kind.intent})" if kind.intent else ""
        lines.append(f'{{"label": {json.dumps(kind.label)}, "payload": PAYLOAD}}{meaning}, PAYLOAD by schema {schema}')
    return "\n".join(lines)


def answer_of(message: Message) -> str:
    """A message in the form that an answer has."""
    return json.dumps({"label": message.label, "payload": message.to_wire()}, ensure_ascii=False)


def again(why: str, offer: Offer, *, by_schema: bool = False) -> str:
    """What is said to an answer that could not be used; see `form`."""
    return f"That answer cannot be used: {why}\nAnswer again.\n\n{form(offer, by_schema=by_schema)}"


def _schema(kind: type[Message]) -> dict[str, Any]:
    schema = TypeAdapter(kind).json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    return schema
