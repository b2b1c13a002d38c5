"""What the fields of the contract's values are held to. Each raises TypeError or ValueError that names the field."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

SHOWN_MAX = 200
"""How much of a wrong value an error shows, in characters."""

CONVERSATION_ID_MAX = 1024
"""How long a provider's name for a conversation may be, in characters. It is kept, and told, with each turn."""


def is_finite(number: float) -> bool:
    """Whether a float can hold `number`; a whole number may be larger than any."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def shown(value: object) -> str:
    """A wrong value for an error message, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # its own `__repr__`, or a whole number of more digits than Python prints
        return f"a {type(value).__name__}"
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 3]}..."


def check_absolute(name: str, path: object) -> None:
    """Raise unless `path` is an absolute path in text."""
    if not isinstance(path, str):
        raise TypeError(f"{name} must be text, not {shown(path)}")
    if not os.path.isabs(path) or "\0" in path:
        raise ValueError(f"{name} must be an absolute path without NUL, not {shown(path)}")


def check_seconds(name: str, seconds: object) -> None:
    """Raise unless `seconds` is None or a positive, finite number."""
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {shown(seconds)}")
    if not (is_finite(seconds) and seconds > 0):
        raise ValueError(f"{name} must be a positive, finite number of seconds, not {shown(seconds)}")


def check_money(name: str, amount: object) -> None:
    """Raise unless `amount` is None or a finite number of at least 0."""
    if amount is None:
        return
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise TypeError(f"{name} must be a number, not {shown(amount)}")
    if not (is_finite(amount) and amount >= 0):
        raise ValueError(f"{name} must be finite and not negative, not {shown(amount)}")


def check_count(name: str, count: object, least: int = 0) -> None:
    """Raise unless `count` is None or a whole number of at least `least`."""
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"{name} must be a whole number, not {shown(count)}")
    if count < least:
        raise ValueError(f"{name} must be at least {least}, not {shown(count)}")


def check_filled(name: str, text: object) -> None:
    """Raise unless `text` is text that is not empty."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} must be text that is not empty, not {shown(text)}")


def check_optional(name: str, text: object) -> None:
    """Raise unless `text` is None or text that is not empty."""
    if text is not None:
        check_filled(name, text)


def check_instance(name: str, value: object, kind: type | tuple[type, ...]) -> None:
    """Raise unless `value` is of `kind`."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise TypeError(f"{name} must be {' or '.join(each.__name__ for each in kinds)}, not {shown(value)}")


def check_conversation(name: str, value: object) -> None:
    """Raise unless `value` is None or can name a conversation: it is kept, told, and given to commands as a word."""
    check_optional(name, value)
    if isinstance(value, str) and not (len(value) <= CONVERSATION_ID_MAX and value.isprintable()):
        raise ValueError(
            f"{name} must be at most {CONVERSATION_ID_MAX} printable characters, not the {len(value)} of {shown(value)}"
        )


def name_of(conversation: object) -> str | None:
    """The `conversation_id` of a conversation; raises what it raises, and unless it is None or can be one."""
    name = getattr(conversation, "conversation_id")  # noqa: B009  (any plugin's object)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"conversation_id must be text or None, not {shown(name)}")
    check_conversation("conversation_id", name)
    return name


def check_env(name: str, env: object) -> None:
    """Raise unless `env` maps names of environment variables to texts."""
    if not isinstance(env, Mapping):
        raise TypeError(f"{name} must be a mapping of names to texts, not {shown(env)}")
    for key, value in env.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"{name} must be a mapping of names to texts, not of {shown(key)} to {shown(value)}")
        if not key or "=" in key or "\0" in key or "\0" in value:
            raise ValueError(f"{name} holds {shown(key)}, which no environment can carry")


def tuple_of(name: str, values: Iterable[T], kind: type | tuple[type, ...]) -> tuple[T, ...]:
    """`values` as a tuple, each of them of `kind`; one string is no sequence of strings."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise TypeError(f"{name} must be a sequence, not {shown(values)}")
    for value in values:
        check_instance(name, value, kind)
    return tuple(values)
