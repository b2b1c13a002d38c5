"""Every fault that is known of an implementation of the same rules has its tests: `known_faults.toml`."""

import ast
import functools
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.documents import REPOSITORY

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("known_faults.toml").read_text(encoding="utf-8"))
PLACES: dict[str, str] = TABLE.pop("places")
CHECKS: dict[str, Any] = TABLE.pop("checks")

# As they were measured: e24, e28, x05 and x14 were never carried out or void.
ROWS = {
    *(f"e{number:02}" for number in range(1, 31) if number not in (24, 28)),
    *(f"x{number:02}" for number in range(1, 24) if number not in (5, 14)),
    *(f"r{number}" for number in range(1, 5)),
    *(f"s{number}" for number in range(1, 10)),
    *(f"n{number}" for number in range(1, 10)),
    *(f"i{number}" for number in range(1, 8)),
    # Those there are of 20 to 47, 64 to 68 and 103 to 105.
    *(f"f{number}" for number in (*range(20, 24), 25, *range(27, 31), 32, *range(34, 42), 43, *range(45, 48))),
    *(f"f{number}" for number in (64, 65, 67, 68, 103, 104)),
}

IN_WORKERS = {
    f"tests/{path}"
    for path in (
        "functional/supervision/test_known_faults.py", "functional/supervision/test_sessions_in_workers.py",
        "functional/plugins/test_foreign_plugins.py", "functional/plugins/test_scripted_worker.py",
        "functional/plugins/test_steering.py", "functional/plugins/test_backpressure.py",
    )
}  # fmt: skip
"""Where every test has a real worker."""

BY_DOUBLES_ALONE = {"e02", "e10", "e11", "e12", "e14", "e17", "e25", "e26", "e27", "x02", "x11", "x19", "x20", "x21"}
"""Rows in which no worker and no command has a part: arguments, the policy's counting, a benchmark, a contract."""


@pytest.mark.parametrize("row", sorted(TABLE))
def test_the_tests_of_a_row_exist(row: str) -> None:
    assert set(TABLE[row]) <= {"what", "was", "tests", "note"}
    assert TABLE[row]["was"] in {"fault", "gap", "right", "reported"}
    assert TABLE[row]["tests"]
    assert [test for test in TABLE[row]["tests"] if not exists(test)] == []


def test_every_row_is_there() -> None:
    assert set(TABLE) == ROWS


@pytest.mark.parametrize("row", sorted(row for row in ROWS - BY_DOUBLES_ALONE if row[0] in "exr"))
def test_a_fault_of_a_worker_is_tried_on_a_worker(row: str) -> None:
    assert any(PLACES[test.split("::")[0]] in IN_WORKERS for test in TABLE[row]["tests"])


@pytest.mark.parametrize("contract", sorted(CHECKS))
def test_the_checks_of_a_contract_exist_and_are_run(contract: str) -> None:
    check = CHECKS[contract]
    assert [test for test in check["tests"] if not exists(f"{check['at']}::{test}")] == []
    assert [where for where in check["run_by"] if not exists(where)] == []


def test_there_are_forty_one_checks() -> None:
    assert sum(len(check["tests"]) for check in CHECKS.values()) == 41


def exists(test: str) -> bool:
    """Whether PLACE::[CLASS::]NAME is written down there."""
    place, *names = test.split("::")
    return tuple(names) in written(PLACES[place])


@functools.cache
def written(path: str) -> frozenset[tuple[str, ...]]:
    """The module, its classes, its functions and their methods, each by its names."""
    body = ast.parse((REPOSITORY / path).read_text(encoding="utf-8")).body
    named = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    methods = [
        (node.name, inner.name)
        for node in named
        if isinstance(node, ast.ClassDef)
        for inner in node.body
        if isinstance(inner, ast.FunctionDef)
    ]
    return frozenset([(), *((node.name,) for node in named), *methods])
