"""docs/embedding.md has every member of a desk and of a handle; docs/journals.md shows a record of its own story."""

import json
import sys
import types

import pytest
from support.documents import Document

import partyctl

PAGE = Document("docs/embedding.md")


def members(cls: type) -> set[str]:
    """The public members that a class declares."""
    return {name for name in vars(cls) if not name.startswith("_")}


def told(section: str) -> set[str]:
    """The names in the first column of the tables of a section."""
    return {cell.removeprefix("await ").partition("(")[0] for cell in PAGE.first_cells(section)}


def test_every_member_of_a_desk_has_a_row() -> None:
    assert told("People at a desk") == members(partyctl.Desk)


def test_every_member_of_a_handle_has_a_row() -> None:
    assert told("A run's handle") == members(partyctl.Run) | {"id"}


def test_the_record_that_is_shown_is_of_the_protocol_that_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Document("docs/journals.md")
    (story,) = [block.text for block in page.blocks if block.file == "story.py"]
    (lines,) = [block.text for block in page.blocks if '"partyctl":"journal/1"' in block.text]
    monkeypatch.setattr(partyctl, "SqliteJournal", lambda path: None)
    module = types.ModuleType("story")
    monkeypatch.setitem(sys.modules, "story", module)
    exec(story, vars(module))
    assert json.loads(lines.splitlines()[0])["protocol"] == module.protocol.id
