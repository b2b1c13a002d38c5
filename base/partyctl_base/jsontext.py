"""JSON that every reader takes: Python writes NaN and Infinity, which JSON does not have."""

import json
from collections.abc import Callable


def json_text(
    value: object, *, ensure_ascii: bool = False, indent: int | None = None, default: Callable[[object], object] = str
) -> str:
    """A value as JSON; a number that is not finite, as an agent may answer, is null.

    Args:
        value: what.
        ensure_ascii: spell out what is not ASCII.
        indent: spaces for each level; None for one line.
        default: what stands for a value that JSON does not have.
    """
    try:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, default=default, allow_nan=False)
    except ValueError:
        # Rare, so what is not finite is found by reading it back.
        plain = json.loads(json.dumps(value, default=default), parse_constant=lambda _: None)
        return json.dumps(plain, ensure_ascii=ensure_ascii, indent=indent)
