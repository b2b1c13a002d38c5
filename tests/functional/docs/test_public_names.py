"""Every public name explains itself."""

import dataclasses
import inspect

import pytest
from support.documents import Document

import partyctl


@pytest.mark.parametrize("name", partyctl.__all__)
def test_a_public_name_has_a_docstring_of_its_own(name: str) -> None:
    value = getattr(partyctl, name)
    told = inspect.getdoc(value) if callable(value) else type(value).__doc__
    assert told
    # A dataclass without one gets its signature for a docstring.
    assert not (dataclasses.is_dataclass(value) and told.startswith(f"{name}("))


def test_every_public_name_has_a_row() -> None:
    assert sorted(Document("docs/python.md").first_cells()) == sorted(partyctl.__all__)
