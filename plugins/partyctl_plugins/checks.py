"""What the fields of the contract's values are held to. Each raises TypeError or ValueError that names the field."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def check_absolute(name: str, path: object) -> None:
    """Raise unless `path` is an absolute path in text."""
    if not isinstance(path, str):
        raise TypeError(f"{name} must be text, not {path!r}")
    if not os.path.isabs(path) or "\0" in path:
        raise ValueError(f"{name} must be an absolute path without NUL, not {path!r}")


def check_seconds(name: str, seconds: object) -> None:
    """Raise unless `seconds` is None or a positive, finite number."""
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {seconds!r}")
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"{name} must be a positive, finite number of seconds, not {seconds!r}")


def check_money(name: str, amount: object) -> None:
    """Raise unless `amount` is None or a finite number of at least 0."""
    if amount is None:
        return
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise TypeError(f"{name} must be a number, not {amount!r}")
    if not (math.isfinite(amount) and amount >= 0):
        raise ValueError(f"{name} must be finite and not negative, not {amount!r}")


def check_count(name: str, count: object, least: int = 0) -> None:
    """Raise unless `count` is None or a whole number of at least `least`."""
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"{name} must be a whole number, not {count!r}")
    if count < least:
        raise ValueError(f"{name} must be at least {least}, not {count!r}")


def check_filled(name: str, text: object) -> None:
    """Raise unless `text` is text that is not empty."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} must be text that is not empty, not {text!r}")


def check_optional(name: str, text: object) -> None:
    """Raise unless `text` is None or text that is not empty."""
    if text is not None:
        check_filled(name, text)


def check_instance(name: str, value: object, kind: type | tuple[type, ...]) -> None:
    """Raise unless `value` is of `kind`."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise TypeError(f"{name} must be {' or '.join(each.__name__ for each in kinds)}, not {value!r}")


def check_env(name: str, env: object) -> None:
    """Raise unless `env` maps names of environment variables to texts."""
    if not isinstance(env, Mapping):
        raise TypeError(f"{name} must be a mapping of names to texts, not {env!r}")
    for key, value in env.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"{name} must be a mapping of names to texts, not of {key!r} to {value!r}")
        if not key or "=" in key or "\0" in key or "\0" in value:
            raise ValueError(f"{name} holds {key!r}, which no environment can carry")


def tuple_of(name: str, values: Iterable[T], kind: type | tuple[type, ...]) -> tuple[T, ...]:
    """`values` as a tuple, each of them of `kind`; one string is no sequence of strings."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise TypeError(f"{name} must be a sequence, not {values!r}")
    for value in values:
        check_instance(name, value, kind)
    return tuple(values)
