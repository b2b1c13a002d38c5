"""Reads values of known types out of a parsed TOML document; every complaint names file, line, key and a remedy.

A complaint is noted and reading goes on, so that one look at a file finds all that is wrong with it.
"""

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from partyctl.config_lines import KeyPath, key_lines
from partyctl.errors import ConfigError

T = TypeVar("T")

COUNT_MAX = 2**63 - 1
"""The largest integer of TOML."""

_KINDS: dict[type, str] = {
    dict: "a table",
    list: "an array",
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a float",
}


class Document:
    """A parsed document with the places of its keys.

    Args:
        text: the document.
        values: what `tomllib` read from it.
        source: the file it came from.
    """

    def __init__(self, text: str, values: Mapping[str, object], source: Path) -> None:
        self.source = source
        self.complaints: list[ConfigError] = []
        self.root = Table(self, (), values)
        try:
            self._lines = key_lines(text)
        except (ValueError, IndexError, RecursionError):
            # The parser accepted it, so it is usable; its complaints go without a line.
            self._lines = {}

    def line(self, path: KeyPath) -> int | None:
        """The line of the key, else of the nearest table around it."""
        return next((self._lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self._lines), None)


class Table:
    """One table of a document. Each reader gives None for a missing key, and for a value that it complains about."""

    def __init__(self, document: Document, path: KeyPath, values: Mapping[str, object]) -> None:
        self.document = document
        self.path = path
        self.values = values

    def __contains__(self, key: str) -> bool:
        return key in self.values

    @property
    def name(self) -> str:
        """The last part of the table's own key."""
        return str(self.path[-1])

    @property
    def line(self) -> int | None:
        """The line of the table, if it is known."""
        return self.document.line(self.path)

    @property
    def where(self) -> str:
        """File and line of the table."""
        return f"{self.document.source}:{self.line}" if self.line else str(self.document.source)

    def complain(self, key: str, what: str, *, why: str = "", fix: str = "") -> None:
        """Note what is wrong with `key` of this table; "" for the table itself."""
        path = (*self.path, key) if key else self.path
        spelled = ".".join(str(part) for part in path)
        source, line = self.document.source, self.document.line(path)
        self.document.complaints.append(ConfigError(what, file=source, line=line, key=spelled, why=why, fix=fix))

    def only(self, *known: str) -> None:
        """Complain about every key that is not known, naming the nearest that is."""
        for key in self.values:
            if key not in known:
                self.complain(key, f"unknown key {key!r}", fix=_suggest(key, known))

    def text(self, key: str) -> str | None:
        """A string."""
        value = self._typed(key, str)
        if value is not None and "\0" in value:
            self.complain(key, "a NUL character cannot be passed on", fix="Remove it")
            return None
        return value

    def flag(self, key: str) -> bool | None:
        """True or false."""
        return self._typed(key, bool)

    def count(self, key: str, *, least: int = 1, most: int = COUNT_MAX) -> int | None:
        """A whole number from `least` to `most`."""
        value = self._typed(key, int)
        if value is not None and value < least:
            self.complain(key, f"must be {least} or more, not {value}")
            return None
        if value is not None and value > most:
            self.complain(key, f"must be {most} or less")
            return None
        return value

    def seconds(self, key: str) -> float | None:
        """A number of seconds, whole or not, more than 0."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.complain(key, f"must be a number, not {_kind(value)}")
        elif not 0 < value < math.inf:
            self.complain(key, f"must be a number of seconds, more than 0, not {value}")
        else:
            return float(value)
        return None

    def texts(self, key: str) -> tuple[str, ...] | None:
        """An array of strings."""
        values = self._typed(key, list)
        if values is None:
            return None
        other = next((value for value in values if not isinstance(value, str)), None)
        if other is not None:
            self.complain(key, f"must hold strings only, not {_kind(other)}")
            return None
        return tuple(str(value) for value in values)

    def numbers(self, key: str) -> tuple[float, ...] | None:
        """An array of numbers of seconds, whole or not, 0 or more."""
        values = self._typed(key, list)
        if values is None:
            return None
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int | float):
                self.complain(key, f"must hold numbers only, not {_kind(value)}")
                return None
            if not 0 <= value < math.inf:
                self.complain(key, f"must hold numbers of seconds, 0 or more, not {value}")
                return None
        return tuple(float(value) for value in values)

    def word(self, key: str, known: Sequence[str]) -> str | None:
        """One of a few words."""
        value = self.text(key)
        if value is not None and value not in known:
            self.complain(key, f"unknown value {value!r}", fix=_suggest(value, known))
            return None
        return value

    def table(self, key: str) -> "Table | None":
        """A table."""
        value = self._typed(key, dict)
        return None if value is None else Table(self.document, (*self.path, key), value)

    def tables(self) -> "Iterator[Table]":
        """All entries, each of which must be a table."""
        return (table for key in self.values if (table := self.table(key)) is not None)

    def required_table(self, key: str, example: str = "{ ... }") -> "Table | None":
        """A table that must be there; `example` shows one to who forgot it."""
        if key not in self.values:
            self.complain(key, f"{key} is missing", fix=f"Add {key} = {example}")
        return self.table(key)

    def required_word(self, key: str, known: Sequence[str]) -> str | None:
        """One of a few words that must be there."""
        if key not in self.values:
            self.complain(key, f"{key} is missing", fix=f"Add {key} = one of {', '.join(known)}")
        return self.word(key, known)

    def is_table(self, key: str) -> bool:
        """Whether the key holds a table."""
        return isinstance(self.values.get(key), dict)

    def is_integer(self, key: str) -> bool:
        """Whether the key holds a whole number."""
        return type(self.values.get(key)) is int

    def _typed(self, key: str, kind: type[T]) -> T | None:
        value = self.values.get(key)
        if value is None:
            return None
        # TOML's booleans are no numbers, Python's are.
        if type(value) is not kind:
            self.complain(key, f"must be {_KINDS[kind]}, not {_kind(value)}")
            return None
        return value


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a date or time")


def _suggest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(known)}"
