"""Which JSON schemas a provider takes: the rules of the two dialects, as one function.

Both refuse what no provider follows: `allOf`, `not`, `if`, patterns of names, tuples, and references that lead nowhere.
STRICT takes only objects that are closed and name all their properties as required, with an object at the root; OPEN
takes maps, optional properties and `oneOf` as well.
"""

from collections.abc import Iterator, Mapping

from partyctl_plugins.profile import SchemaDialect

_NEVER = frozenset({
    "allOf", "not", "if", "then", "else", "patternProperties", "prefixItems", "contains", "minContains", "maxContains",
    "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedItems", "unevaluatedProperties",
    "propertyNames", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor",
})  # fmt: skip
_NOT_STRICT = frozenset({"oneOf", "$schema", "$id"})
_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "oneOf")
_SINGLE = ("items", "additionalProperties")


def schema_problems(schema: Mapping[str, object], dialect: SchemaDialect) -> tuple[str, ...]:
    """Why a provider of this dialect does not take a schema, each reason with its place; empty if it does.

    Args:
        schema: a JSON schema.
        dialect: that of the provider's profile.
    """
    problems = list(_root(schema)) if dialect is SchemaDialect.STRICT else []
    todo: list[tuple[str, object]] = [("#", schema)]
    while todo:
        place, each = todo.pop()
        if isinstance(each, Mapping):
            problems += [f"{place}: {problem}" for problem in _own(each, schema, dialect)]
            todo += _inner(place, each)
    return tuple(problems)


def _root(schema: Mapping[str, object]) -> Iterator[str]:
    if schema.get("type") != "object":
        yield "#: the root is no object"
    if "anyOf" in schema:
        yield "#: anyOf at the root"


def _own(each: Mapping[str, object], root: Mapping[str, object], dialect: SchemaDialect) -> Iterator[str]:
    """What is wrong with one schema, leaving out those within it."""
    is_strict = dialect is SchemaDialect.STRICT
    refused = _NEVER | _NOT_STRICT if is_strict else _NEVER
    yield from (f"{word} is not taken" for word in sorted(refused.intersection(each)))
    ref = each.get("$ref")
    if ref is not None and not _resolves(ref, root):
        yield f"the reference {ref!r} leads nowhere in this schema"
    if is_strict and (each.get("type") == "object" or "properties" in each):
        if each.get("additionalProperties") is not False:
            yield "an object that is not closed"
        properties, required = each.get("properties", {}), each.get("required", ())
        if isinstance(properties, Mapping) and isinstance(required, list | tuple):
            yield from (f"{name!r} is not required" for name in properties if name not in required)


def _inner(place: str, each: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for word in _MAPS:
        named = each.get(word)
        if isinstance(named, Mapping):
            yield from ((f"{place}/{word}/{name}", inner) for name, inner in named.items())
    for word in _LISTS:
        listed = each.get(word)
        if isinstance(listed, list | tuple):
            yield from ((f"{place}/{word}/{number}", inner) for number, inner in enumerate(listed))
    yield from ((f"{place}/{word}", each[word]) for word in _SINGLE if word in each)


def _resolves(ref: object, root: Mapping[str, object]) -> bool:
    """Whether a reference is local and there is something at its end."""
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return False
    found: object = root
    for step in ref.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return False
        found = found[name]
    return isinstance(found, Mapping)
