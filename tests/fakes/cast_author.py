"""Plays an agent in a cast: reads the prompt of its turn, answers with one offered message.

The prompt of a cast names the task, what was said so far and the labels on offer with the JSON schema of each, and asks
for only `{"label": ..., "payload": {...}}`. The answer is a function of the prompt alone, so a run repeats exactly:
the first label on offer (or the one a `[[label:NAME]]` directive names), every string field quoting the task.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

DIRECTIVE = re.compile(r"\[\[(\w+)(?::(.*?))?\]\](?!\})", re.S)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")
_TASK = re.compile(r"(?im)^\W*(?:the\s+)?(?:task|topic|brief)\W*[:=]\W*(.+)$")
_NOT_A_LABEL = {"JSON", "Schema", "Message", "Payload", "Label", "Fields", "One", "Answer", "Your", "PAYLOAD"}

Offer = tuple[str, dict[str, Any]]


def directives(text: str) -> dict[str, str]:
    """The directives of the newest line that has any.

    A prompt whose turn failed stays in the history and is sent again joined with the next one: an older line is over.
    """
    for line in reversed(text.split("\n")):
        found = DIRECTIVE.findall(line)
        if found:
            return dict(found)
    return {}


def plain(text: str) -> str:
    """`text` without directives: a quotation must not make the reader of the quotation obey it."""
    return " ".join(DIRECTIVE.sub("", text).split())


def author(prompt: str, earlier: Sequence[str] = ()) -> str | None:
    """The answer to a cast's prompt as JSON text; None if the prompt does not ask for a labelled message.

    Args:
        prompt: the newest prompt.
        earlier: those before it, oldest first: the task is looked for there if the newest prompt has none.
    """
    if "label" not in prompt or "payload" not in prompt:
        return None
    offers = [offer for value, before in _json_values(prompt) for offer in _offers(value, value, before)]
    if not offers:
        return None
    wanted = directives(prompt).get("label")
    label, schema = next((offer for offer in offers if offer[0] == wanted), offers[0])
    task = next(filter(None, map(_task, (prompt, *earlier))), "nothing")
    quote = f'{label} on "{task}"'
    return json.dumps({"label": label, "payload": _fill(schema, schema, quote)})


def _json_values(text: str) -> Iterator[tuple[Any, str]]:
    """Every JSON object or array in `text` with the text before it."""
    decoder, at = json.JSONDecoder(), 0
    while found := re.compile(r"[{\[]").search(text, at):
        try:
            value, end = decoder.raw_decode(text, found.start())
        except ValueError:
            at = found.start() + 1
            continue
        yield value, text[max(0, found.start() - 2000) : found.start()]
        at = end


def _offers(value: Any, root: Any, before: str) -> list[Offer]:
    """The labels that a JSON value in a prompt puts on offer, in any of the shapes a prompt may use."""
    if isinstance(value, list):
        return [offer for item in value for offer in _offers(item, root, "")]
    if not isinstance(value, dict):
        return []
    for key in ("anyOf", "oneOf"):
        if key in value:
            return [offer for item in value[key] for offer in _offers(_resolved(item, root), root, "")]
    properties = value.get("properties")
    if isinstance(properties, dict) and {"label", "payload"} <= set(properties):
        label, payload = properties["label"], _resolved(properties["payload"], root)
        names = [label["const"]] if "const" in label else label.get("enum", [])
        if isinstance(payload, dict) and "anyOf" in payload:
            return list(zip(names, [_resolved(item, root) for item in payload["anyOf"]], strict=False))
        return [(name, payload) for name in names]
    for key in ("schema", "payload", "fields"):
        if isinstance(value.get("label"), str) and isinstance(value.get(key), dict):
            return [(value["label"], value[key])] if _is_schema(value[key]) else []
    if _is_schema(value):
        named = [value["title"]] if "title" in value else _words(before)[-1:]
        return [(named[0], value)] if named else []
    if value and all(_is_schema(item) and _IDENTIFIER.match(key) for key, item in value.items()):
        return list(value.items())
    return []


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict) and (isinstance(value.get("properties"), dict) or value.get("type") == "object")


def _words(before: str) -> list[str]:
    """Names that the text before a schema may mean, the likeliest last."""
    quoted = re.findall(r'"label":\s*"(\w+)"', before.rsplit("\n", 1)[-1])
    return quoted or [word for word in re.findall(r"\b[A-Z]\w*", before) if word not in _NOT_A_LABEL]


def _resolved(schema: Any, root: Any) -> Any:
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    for step in reference[2:].split("/"):
        root = root.get(step, {}) if isinstance(root, dict) else {}
    return root


def _task(prompt: str) -> str:
    """What a prompt is about: its task line, else the newest message in it that says something, else ""."""
    if lines := _TASK.findall(prompt):
        return plain(lines[-1])[:200]
    for value, _ in reversed(list(_json_values(prompt))):
        if isinstance(value, dict) and not _offers(value, value, "") and not _is_schema(value):
            texts = [item for item in _leaves(value) if isinstance(item, str) and plain(item)]
            if texts:
                return plain(max(texts, key=lambda text: " " in text))[:200]
    return ""


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield value


def _fill(schema: Any, root: Any, quote: str) -> Any:
    """A value that `schema` accepts, its strings being `quote`."""
    schema = _resolved(schema, root)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            choices = [item for item in schema[key] if item.get("type") != "null"]
            return _fill(choices[0], root, quote) if choices else None
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if kind == "object":
        required = schema.get("required", list(schema.get("properties", {})))
        return {name: _fill(schema["properties"][name], root, quote) for name in required}
    if kind == "array":
        return [_fill(schema.get("items", {}), root, quote)] * schema.get("minItems", 1)
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return {"boolean": True, "null": None}.get(kind, quote[: schema.get("maxLength", len(quote))])
