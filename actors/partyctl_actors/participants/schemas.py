"""The output schema of a role: one for a whole run, the union of all that its projection may ever send.

One, since a provider may take a schema only when it starts (Claude Code: 0.8 s for another one). What is on offer at a
step is less than the union; that is checked when the answer is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.projection import SendState, View
from partyctl_actors.protocol.protocol import Protocol
from partyctl_plugins.contract import OutputSchema, ProviderProfile, SchemaDialect, SchemaMechanism
from partyctl_plugins.dialects import schema_problems

WRAPPED = "message"
"""Where the message is in an answer by an output schema: a strict provider takes no alternatives at the root."""


def sendable(protocol: Protocol, view: View) -> tuple[type[Message], ...]:
    """What a role may ever send, each once, in the order of its view."""
    labels = dict.fromkeys(label for state in view.states if isinstance(state, SendState) for label in state.arms)
    return tuple(protocol.messages[label] for label in labels)


def output_schema(kinds: Iterable[type[Message]], profile: ProviderProfile) -> OutputSchema | None:
    """The schema that a provider is given for its answers.

    Args:
        kinds: what the role may ever send.
        profile: the provider's. One that names no dialect is taken to be strict.

    Returns:
        None if the provider takes no schemas, or not this one: then the prompts say what an answer must look like.
    """
    if profile.output_schema is SchemaMechanism.NONE:
        return None
    dialect = profile.schema_dialect or SchemaDialect.STRICT
    schema = union(kinds, is_strict=dialect is SchemaDialect.STRICT)
    return None if schema_problems(schema, dialect) else OutputSchema(schema)


def union(kinds: Iterable[type[Message]], *, is_strict: bool) -> dict[str, Any]:
    """A schema of `{"message": {"label": ..., "payload": {...}}}`, with the payload that belongs to each label.

    Args:
        kinds: which messages.
        is_strict: require fields that have defaults, too.
    """
    kinds = tuple(kinds)
    payloads, shared = TypeAdapter.json_schemas([(kind.label, "validation", TypeAdapter(kind)) for kind in kinds])
    forms = [_closed(label=_label(kind), payload=payloads[kind.label, "validation"]) for kind in kinds]
    schema = _closed(**{WRAPPED: {"anyOf": forms}})
    if "$defs" in shared:
        schema["$defs"] = shared["$defs"]
    return _all_required(schema) if is_strict else schema


def _label(kind: type[Message]) -> dict[str, Any]:
    label: dict[str, Any] = {"type": "string", "enum": [kind.label]}
    return label | {"description": kind.intent} if kind.intent else label


def _closed(**properties: object) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _all_required(schema: Any) -> Any:
    """The schema with every property of every object required, and so without defaults."""
    if isinstance(schema, list):
        return [_all_required(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {word: each if word in ("enum", "const") else _all_required(each) for word, each in schema.items()}
    properties = inner.get("properties")
    if isinstance(properties, dict) and inner.get("type") == "object":
        named = {
            name: {word: each for word, each in one.items() if word != "default"} for name, one in properties.items()
        }
        inner |= {"properties": named, "required": list(named)}
    return inner
