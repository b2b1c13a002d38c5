"""A turn's request is checked when it is made."""

import math
from typing import Any

import pytest

from partyctl_plugins.permissions import StdioMcpServer
from partyctl_plugins.turns import SkillSummary, TurnRequest, TurnResult


@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_an_empty_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(ValueError, match="prompt must not be empty"):
        TurnRequest(prompt)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("prompt", b"hello", TypeError),
        ("cwd", "relative", ValueError),
        ("timeout", 0, ValueError),
        ("timeout", -1.0, ValueError),
        ("timeout", math.nan, ValueError),
        ("timeout", "5", TypeError),
        ("timeout", True, TypeError),
        ("extra_args", "--verbose", TypeError),
    ],
)
def test_a_field_that_is_not_as_described_is_refused(field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=field):
        TurnRequest(**{"prompt": "hello", field: value})


def test_sequences_become_tuples() -> None:
    server = StdioMcpServer("files", "mcp-files")
    request = TurnRequest("hello", extra_args=["-v"], mcp_servers=[server])  # type: ignore[arg-type]
    assert (request.extra_args, request.mcp_servers) == (("-v",), (server,))


def test_a_result_starts_with_nothing_known() -> None:
    result = TurnResult()
    assert (result.text, result.session_id, result.cost_usd, result.interrupted) == ("", None, None, False)
    assert result.skills == SkillSummary(None, None)
