"""On which line of a TOML document each key stands.

The standard library's parser gives values without places, and a message without a line sends people searching.
This reader walks a document that `tomllib` has already accepted, so it checks nothing and only keeps count.
"""

import re

KeyPath = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")|' + r"'''.*?'{3,5}(?!')|" + r'"(?:\\.|[^"\\\n])*"|' + r"'[^'\n]*'", re.DOTALL
)
_SCALAR = re.compile(r"[^,\]}#\n]+")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_NAMED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line of every key and table, counted from 1; array items go by their number."""
    return _Walk(text.replace("\r\n", "\n")).document()


class _Walk:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[KeyPath, int] = {}
        self._items: dict[KeyPath, int] = {}
        self._counted = 0
        self._newlines = 0

    def document(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self._skip(_GAP)
        while self._at < len(self._text):
            if self._peek("["):
                table = self._header()
            else:
                self._pair(table)
            self._skip(_GAP)
        return self._lines

    def _header(self) -> KeyPath:
        line = self._line()
        array = self._peek("[[")
        self._at += 2 if array else 1
        path = self._inside_arrays(self._key())
        self._at += 2 if array else 1
        if array:
            number = self._items[path] = self._items.get(path, -1) + 1
            self._lines.setdefault(path, line)
            path = (*path, number)
        self._note(path, line)
        return path

    def _inside_arrays(self, path: KeyPath) -> KeyPath:
        """`[a.b]` below `[[a]]` means the newest item of `a`."""
        found: KeyPath = ()
        for part in path[:-1]:
            found = (*found, part)
            if found in self._items:
                found = (*found, self._items[found])
        return (*found, *path[-1:])

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        path = (*table, *self._key())
        self._note(path, line)
        self._skip(_BLANK)
        self._at += 1  # the equals sign
        self._skip(_BLANK)
        self._value(path)

    def _key(self) -> KeyPath:
        parts: list[str] = []
        while True:
            self._skip(_BLANK)
            quoted = self._text[self._at] in "\"'"
            part = self._take(_STRING if quoted else _BARE)
            parts.append(_unquote(part) if quoted else part)
            self._skip(_BLANK)
            if not self._peek("."):
                return tuple(parts)
            self._at += 1

    def _value(self, path: KeyPath) -> None:
        if self._peek("{"):
            self._inline_table(path)
        elif self._peek("["):
            self._array(path)
        else:
            self._take(_STRING if self._text[self._at] in "\"'" else _SCALAR)

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        self._skip(_GAP)
        while not self._peek("}"):
            self._pair(path)
            self._skip(_GAP)
            if self._peek(","):
                self._at += 1
                self._skip(_GAP)
        self._at += 1

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        self._skip(_GAP)
        number = 0
        while not self._peek("]"):
            self._note((*path, number), self._line())
            self._value((*path, number))
            number += 1
            self._skip(_GAP)
            if self._peek(","):
                self._at += 1
                self._skip(_GAP)
        self._at += 1

    def _note(self, path: KeyPath, line: int) -> None:
        for length in range(1, len(path)):
            self._lines.setdefault(path[:length], line)
        self._lines[path] = line

    def _line(self) -> int:
        self._newlines += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._newlines + 1

    def _peek(self, mark: str) -> bool:
        return self._text.startswith(mark, self._at)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        self._take(pattern)

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise ValueError(f"not the TOML this reader knows, at offset {self._at}")
        self._at = found.end()
        return found[0]


def _unquote(quoted: str) -> str:
    if quoted[0] == "'":
        return quoted[1:-1]
    return _ESCAPE.sub(_unescape, quoted[1:-1])


def _unescape(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else _NAMED.get(found[3], found[3])
