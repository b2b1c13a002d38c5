"""A turn's request is checked when it is made."""

import math
import pickle
from typing import Any

import pytest

from partyctl_plugins.permissions import StdioMcpServer
from partyctl_plugins.turns import OutputSchema, SkillSummary, TurnRequest, TurnResult, TurnTicket


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
        pytest.param("timeout", 10**400, ValueError, id="a timeout that no float can hold"),
        pytest.param("timeout", [10**5000], TypeError, id="a value that cannot be shown"),
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


class TestTheRestOfARequest:
    @pytest.mark.parametrize(
        ("field", "value", "error"),
        [
            ("extra_args", [1], TypeError),
            ("env", {"A=B": "x"}, ValueError),
            ("env", {"A": 1}, TypeError),
            ("env", "A=B", TypeError),
            ("output_schema", {"type": "object"}, TypeError),
            ("reasoning_effort", "", ValueError),
            ("mcp_workspace", "here", ValueError),
            ("mcp_servers", ["files"], TypeError),
            ("mcp_servers", [StdioMcpServer("a", "x"), StdioMcpServer("a", "y")], ValueError),
            ("timeout", math.inf, ValueError),
            ("idle_timeout", 0, ValueError),
            ("idle_timeout", "60", TypeError),
        ],
    )
    def test_a_field_that_is_not_as_described_is_refused(self, field: str, value: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match=field):
            TurnRequest(**{"prompt": "hello", field: value})

    def test_lone_surrogates_are_a_prompt(self) -> None:
        assert TurnRequest("\udcff").prompt == "\udcff"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"schema": "object"}, TypeError),
        ({"schema": {"const": {1, 2}}}, ValueError),
        ({"schema": {"maximum": math.inf}}, ValueError),
        ({"schema": {}, "host_dir": "here"}, ValueError),
    ],
)
def test_a_schema_that_is_no_json_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        OutputSchema(**fields)


@pytest.mark.parametrize(
    "fields",
    [{"text": None}, {"cost_usd": math.nan}, {"cost_usd": -1.0}, {"duration_ms": -1}, {"duration_ms": 1.5},
     {"context_tokens": -1}, {"session_id": ""}, {"usage": {}}],
)  # fmt: skip
def test_a_result_that_says_the_impossible_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=next(iter(fields))):
        TurnResult(**fields)


def test_a_ticket_is_a_plain_value() -> None:
    ticket = TurnTicket("turn-1", TurnRequest("go", env={"A": "b"}), "conv-1", strict=True)
    assert pickle.loads(pickle.dumps(ticket)) == ticket
    with pytest.raises(ValueError, match="turn_id"):
        TurnTicket("", TurnRequest("go"))


def test_a_schema_that_is_nested_too_deeply_is_refused_as_no_json() -> None:
    schema: dict[str, object] = {}
    for _ in range(100_000):
        schema = {"not": schema}
    with pytest.raises(ValueError, match="schema must be JSON"):
        OutputSchema(schema)


@pytest.mark.parametrize(
    ("field", "value"), [("exit_code", "none"), ("resumed", "yes"), ("interrupted", 1), ("skills", None)]
)
def test_a_field_of_a_result_that_is_not_as_described_is_refused(field: str, value: Any) -> None:
    with pytest.raises(TypeError, match=field):
        TurnResult(**{field: value})


def test_a_wrong_value_that_is_long_is_shown_by_its_beginning() -> None:
    with pytest.raises(TypeError) as refused:
        TurnRequest("hello", cwd=["x" * 10_000])  # type: ignore[arg-type]
    assert len(str(refused.value)) < 300
