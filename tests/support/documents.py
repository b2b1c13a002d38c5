"""Documents as what they hold: headings, tables and blocks of code."""

import re
from dataclasses import dataclass
from pathlib import Path

from support.party import REPOSITORY

_BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.(?:py|toml))\n")
_ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and the line of the document on which its text begins."""

    language: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The file the block stands for, named by a comment in its first line."""
        named = _FILE.match(self.text)
        return named[1] if named else None


class Document:
    """A Markdown file of this repository."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.text = (REPOSITORY / path).read_text(encoding="utf-8")

    @property
    def blocks(self) -> list[Block]:
        """The fenced blocks, in order."""
        found = _BLOCK.finditer(self.text)
        return [Block(each[1], each[2], self.text.count("\n", 0, each.start()) + 2) for each in found]

    @property
    def prose(self) -> str:
        """The text without its blocks."""
        return _BLOCK.sub("", self.text)

    @property
    def headings(self) -> list[str]:
        """The headings of all levels, without what marks them as code."""
        return [heading.replace("`", "") for heading in _HEADING.findall(self.prose)]

    def rows(self, section: str | None = None) -> list[list[str]]:
        """The cells of every table row; of one section, if it is named by its heading."""
        text = self.prose if section is None else self.section(section)
        return [[cell.strip() for cell in row.split("|")] for row in _ROW.findall(text)]

    def section(self, heading: str) -> str:
        """The text under a heading, up to the next one of its level or above."""
        found = re.search(rf"^(#+) {re.escape(heading)}$(.*)", self.prose, re.MULTILINE | re.DOTALL)
        assert found is not None, f"{self.path} has no heading {heading!r}"
        return re.split(rf"^#{{1,{len(found[1])}}} ", found[2], maxsplit=1, flags=re.MULTILINE)[0]

    def first_cells(self, section: str | None = None) -> list[str]:
        """What stands as code in the first column of the tables, without its quotes."""
        cells = [row[0] for row in self.rows(section)]
        return [cell.strip("`") for cell in cells if cell.startswith("`")]


DOCUMENTS = sorted(
    str(path.relative_to(REPOSITORY))
    for path in [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", *Path(REPOSITORY, "docs").rglob("*.md")]
)
