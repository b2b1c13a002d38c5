import json
import math

from hypothesis import given
from hypothesis import strategies as st

from partyctl_base.jsontext import json_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=9,
)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list) else value


@given(VALUES, st.booleans())
def test_what_is_written_is_json_and_is_read_back_but_for_what_is_not_finite(value: object, is_ascii: bool) -> None:
    text = json_text(value, ensure_ascii=is_ascii)
    assert json.loads(text, parse_constant=refuse) == finite(value)
    assert "\n" not in text
    assert text.isascii() or not is_ascii


def test_what_json_does_not_have_stands_as_the_caller_says() -> None:
    assert json.loads(json_text({"a": b"x", "b": math.inf})) == {"a": "b'x'", "b": None}
    assert json.loads(json_text([{1}, math.nan], default=lambda _: "set")) == ["set", None]
