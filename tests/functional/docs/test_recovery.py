"""docs/recovery.md shows the policy's own table."""

import re

from support.documents import Document

from partyctl_actors.supervision.policy import TABLE
from partyctl_actors.supervision.policy_commands import Rule
from partyctl_actors.supervision.policy_diagram import as_mermaid, as_rows
from partyctl_actors.supervision.policy_failures import RESET_MAX, SAME_ID_DELAY
from partyctl_plugins.contract import RetryPolicy

PAGE = Document("docs/recovery.md")


def test_the_transitions_are_those_of_the_table() -> None:
    assert PAGE.rows("Transitions")[2:] == as_rows()


def test_the_diagram_is_drawn_from_the_table() -> None:
    assert [block.text for block in PAGE.blocks if block.language == "mermaid"] == [as_mermaid() + "\n"]


def test_the_diagram_has_every_rule_that_leads_somewhere() -> None:
    drawn = set(re.findall(r"[\w]+", as_mermaid()))
    leading = {row.rule.value for row in TABLE if row.rule and set(row.to) - set(row.phases)}
    assert leading <= drawn


def test_every_rule_has_a_row() -> None:
    assert PAGE.first_cells("Rules") == [rule.value for rule in Rule]


def test_every_condition_is_told() -> None:
    assert [row for row in TABLE if row.when is not None and not row.when.__doc__] == []


def test_the_limits_are_those_of_the_code() -> None:
    delays, reset, same_id, _ = (row[1] for row in PAGE.rows("Counters")[2:])
    assert ", ".join(f"{delay:g}" for delay in RetryPolicy().delays) in delays
    assert reset == f"{RESET_MAX:g} s"
    assert same_id == f"{SAME_ID_DELAY:g} s"
