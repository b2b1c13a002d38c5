"""docs/architecture.md and the decisions agree with the code."""

import importlib
import re
import tomllib

import pytest
from support.documents import DOCUMENTS, Document
from support.party import REPOSITORY

from partyctl.host.budget import RestartPolicy

PAGE = Document("docs/architecture.md")
DECISIONS = [path for path in DOCUMENTS if re.match(r"docs/decisions/\d", path)]


def value(name: str) -> float:
    """What a dotted name stands for; a class's attribute by the default of a fresh object."""
    module, _, attribute = name.rpartition(".")
    owner, _, cls = module.rpartition(".")
    if cls[:1].isupper():
        return float(getattr(getattr(importlib.import_module(owner), cls)(), attribute))
    return float(getattr(importlib.import_module(module), attribute))


@pytest.mark.parametrize(("name", "seconds"), [(row[0].strip("`"), row[1]) for row in PAGE.rows("Waits")[2:]])
def test_a_wait_is_as_long_as_it_says(name: str, seconds: str) -> None:
    assert value(name) == float(seconds)


def test_the_budget_of_restarts_is_that_of_the_code() -> None:
    policy = RestartPolicy()
    assert f"at most {policy.intensity} times within {policy.period:g} s" in PAGE.text.replace("\n", " ")


def test_the_floors_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    drawn = [
        block.text for block in PAGE.blocks if block.text.startswith("partyctl ") and "partyctl_base" in block.text
    ]
    assert [re.split(r" {2,}", line)[0] for line in drawn[0].splitlines()] == layers


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(path.removeprefix("docs/decisions/")[:4]) for path in DECISIONS]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("path", DECISIONS)
def test_a_decision_says_what_why_and_at_what_price(path: str) -> None:
    title, *sections = Document(path).headings
    assert title.startswith(f"{path.removeprefix('docs/decisions/')[:4]}: ")
    assert sections == ["Decided", "Why", "Price"]


def test_every_decision_is_in_the_list() -> None:
    index = Document("docs/decisions/README.md").text
    for path in DECISIONS:
        assert f"[{Document(path).headings[0]}]({path.removeprefix('docs/decisions/')})" in index
