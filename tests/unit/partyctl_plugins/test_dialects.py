"""Which schemas the two dialects take."""

import pytest

from partyctl_plugins.contract import SchemaDialect
from partyctl_plugins.dialects import schema_problems

STRICT, OPEN = SchemaDialect.STRICT, SchemaDialect.OPEN


def closed(**properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def test_a_closed_object_with_all_its_properties_required_is_taken_by_both() -> None:
    schema = closed(a={"$ref": "#/$defs/A"}, b={"anyOf": [{"type": "string"}, closed(c={"type": "integer"})]})
    schema["$defs"] = {"A": {"type": "array", "items": {"type": "string"}}}
    assert schema_problems(schema, STRICT) == schema_problems(schema, OPEN) == ()


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = closed(next={"anyOf": [{"$ref": "#"}, {"type": "null"}]})
    assert schema_problems(schema, STRICT) == ()


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "string"}, "#: the root is no object"),
        ({**closed(), "anyOf": [closed()]}, "#: anyOf at the root"),
        ({"type": "object", "properties": {}}, "#: an object that is not closed"),
        (closed(m={"type": "object", "additionalProperties": {"type": "integer"}}), "#/properties/m: an object"),
        ({**closed(a={}), "required": []}, "#: 'a' is not required"),
        (closed(a={"oneOf": [{"type": "string"}]}), "#/properties/a: oneOf is not taken"),
        ({**closed(), "$schema": "x"}, "#: $schema is not taken"),
        ({**closed(), "$id": "x"}, "#: $id is not taken"),
    ],
)
def test_what_only_the_open_dialect_takes(schema: dict[str, object], problem: str) -> None:
    (found,) = schema_problems(schema, STRICT)
    assert found.startswith(problem)
    assert schema_problems(schema, OPEN) == ()


@pytest.mark.parametrize("dialect", [STRICT, OPEN])
@pytest.mark.parametrize(
    ("inner", "problem"),
    [
        ({"allOf": []}, "allOf is not taken"),
        ({"not": {}}, "not is not taken"),
        ({"prefixItems": []}, "prefixItems is not taken"),
        ({"unevaluatedItems": False}, "unevaluatedItems is not taken"),
        ({"$ref": "#/$defs/Nobody"}, "leads nowhere"),
        ({"$ref": "other.json"}, "leads nowhere"),
    ],
)
@pytest.mark.parametrize("where", ["properties", "items", "anyOf", "$defs"])
def test_what_neither_takes_wherever_it_is(
    inner: dict[str, object], problem: str, where: str, dialect: SchemaDialect
) -> None:
    places = {
        "properties": closed(a=inner),
        "items": closed(a={"type": "array", "items": inner}),
        "anyOf": closed(a={"anyOf": [{"type": "null"}, inner]}),
        "$defs": {**closed(), "$defs": {"A": inner}},
    }
    (found,) = schema_problems(places[where], dialect)
    assert problem in found


def test_a_property_may_have_the_name_of_a_word_that_is_not_taken() -> None:
    assert schema_problems(closed(allOf={"type": "string"}), STRICT) == ()
