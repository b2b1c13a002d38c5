"""docs/testing.md has every name of the testing kit, and no other."""

import inspect

import pytest
from support.documents import Document

import partyctl.testing

PAGE = Document("docs/testing.md")


def test_every_name_of_the_kit_has_a_row() -> None:
    assert sorted(PAGE.first_cells()) == sorted(partyctl.testing.__all__)


@pytest.mark.parametrize("name", [name for name in partyctl.testing.__all__ if name != "Act"])
def test_a_name_of_the_kit_has_a_docstring_of_its_own(name: str) -> None:
    assert inspect.getdoc(getattr(partyctl.testing, name))


def test_every_contract_names_its_factories() -> None:
    for row in PAGE.rows("Contracts"):
        name = row[0].strip("`")
        if name.endswith("Contract"):
            contract = getattr(partyctl.testing, name)
            own = {each for cls in contract.__mro__ for each in vars(cls) if each.startswith("make_")}
            assert {word.strip("`,;") for word in row[2].split() if "make_" in word} <= own
