"""docs/errors.md has every error, with what it is, whose doing it was and its exit code, and no other."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import get_args

from support.documents import Document

from partyctl.errors import EXIT_CODES
from partyctl_base.errors import PartyError, Whose

PAGE = Document("docs/errors.md")
PACKAGES = (
    "partyctl",
    "partyctl_actors",
    "partyctl_base",
    "partyctl_broker",
    "partyctl_confinement",
    "partyctl_plugins",
)


def every_error() -> Iterator[type[PartyError]]:
    """The root and all its subclasses in our packages, after importing every module of them."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    found: list[type[PartyError]] = [PartyError]
    for error in found:
        found += error.__subclasses__()
    return (error for error in found if error.__module__.partition(".")[0] in PACKAGES)


def code(error: type[PartyError]) -> int:
    """Its exit code, by the table of the face."""
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in error.__mro__)
    return next(EXIT_CODES[name] for name in names if name in EXIT_CODES)


def test_every_error_has_a_row_that_is_true() -> None:
    told = {tuple(cell.strip("`") for cell in row[:5]) for row in PAGE.rows() if len(row) == 6 and row[0] != "error"}
    told = {row for row in told if not row[0].startswith("---")}
    real = {(e.__name__, e.__module__, e.__bases__[0].__name__, e.whose, str(code(e))) for e in every_error()}
    assert told == real


def test_everybody_whose_doing_it_can_be_has_a_row() -> None:
    first = PAGE.text.partition("## ")[0]
    for whose in get_args(Whose):
        assert f"| `{whose}` |" in first


def test_every_error_says_in_its_docstring_what_it_means() -> None:
    assert not [error.__qualname__ for error in every_error() if not error.__doc__]
