import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl.config_lines import KeyPath, key_lines

DOCUMENT = '''# a comment with [brackets] = and "quotes"
top = "x # no comment"
a.b."c d" = 1

[party]    # why
name = """
[not.a.table]
fake = "x\\"""
"""
list = [
  "one", # 1
  { deep = [ 1,
    2 ] },
  'three',
]
raw = \'\'\'it''s
x = 1\'\'\'
[roles.'quoted.key']
point = { x = 1, "y\\u0041" = { z = 2 } }
date = 1979-05-27 07:32:00
[[many]]
n = 1
[[many]]
n = 2
[many.sub]
m = 3
'''


def test_every_kind_of_key_is_found_on_its_line() -> None:
    lines = key_lines(DOCUMENT)
    expected: dict[KeyPath, int] = {
        ("top",): 2,
        ("a", "b", "c d"): 3,
        ("party",): 5,
        ("party", "name"): 6,
        ("party", "list"): 10,
        ("party", "list", 0): 11,
        ("party", "list", 1, "deep"): 12,
        ("party", "list", 1, "deep", 1): 13,
        ("party", "list", 2): 14,
        ("party", "raw"): 16,
        ("roles", "quoted.key"): 18,
        ("roles", "quoted.key", "point", "yA", "z"): 19,
        ("roles", "quoted.key", "date"): 20,
        ("many", 0, "n"): 22,
        ("many", 1): 23,
        ("many", 1, "sub", "m"): 26,
    }
    assert {path: lines.get(path) for path in expected} == expected
    assert ("fake",) not in lines
    assert ("not",) not in lines


def test_windows_line_ends_count_once() -> None:
    assert key_lines("a = 1\r\n\r\nb = 2\r\n")[("b",)] == 3


def paths(value: object, path: KeyPath = ()) -> set[KeyPath]:
    """Every key path of a parsed document."""
    if isinstance(value, dict):
        below = value.items()
    elif isinstance(value, list):
        below = dict(enumerate(value)).items()
    else:
        below = {}.items()
    return {(*path, key) for key, _ in below} | {found for key, item in below for found in paths(item, (*path, key))}


def test_the_keys_found_are_those_that_the_parser_finds() -> None:
    assert paths(tomllib.loads(DOCUMENT)) == set(key_lines(DOCUMENT))


KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\x7f", min_codepoint=32), max_size=6)
STRINGS = st.text(st.characters(codec="utf-8", exclude_characters="\x7f", min_codepoint=32), max_size=12)
VALUES = st.recursive(
    st.one_of(st.integers(-99, 99), st.booleans(), STRINGS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def written(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return quoted(value)
        case list():
            return "[" + ", ".join(map(written, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{quoted(key)} = {written(item)}" for key, item in value.items()) + "}"
    return str(value)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_document_of_inline_values_is_walked_whole(values: dict[str, object]) -> None:
    text = "\n".join(f"{quoted(key)} = {written(value)}" for key, value in values.items())
    lines = key_lines(text)
    assert set(lines) == paths(values)
    assert [lines[(key,)] for key in values] == list(range(1, len(values) + 1))


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment", "# no end"])
def test_a_document_without_keys_has_no_lines(text: str) -> None:
    assert key_lines(text) == {}
