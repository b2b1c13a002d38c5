"""Every error result has a kind."""

import pytest

from partyctl_plugins.claude.classify import kind_of, refuses_resume, said, symptoms
from partyctl_plugins.contract import FailureKind


def result(text: str = "", **fields: object) -> dict[str, object]:
    return {"type": "result", "subtype": "success", "is_error": True, "result": text, **fields}


@pytest.mark.parametrize(
    ("frame", "error", "kind"),
    [
        (result("API Error: 529 Overloaded.", api_error_status=529), "server_error", FailureKind.TRANSIENT),
        (result("API Error: 529 Overloaded."), "", FailureKind.TRANSIENT),
        (result("API Error: Request rejected (429) · …", api_error_status=429), "rate_limit", FailureKind.TRANSIENT),
        (result("API Error: Request rejected (429) · …"), "", FailureKind.TRANSIENT),
        (result("API Error: 500 Internal", api_error_status=500), "server_error", FailureKind.TRANSIENT),
        (result("API Error: Connection refused (ECONNREFUSED)"), "", FailureKind.TRANSIENT),
        (result("API Error: Connection refused (ECONNREFUSED)"), "server_error", FailureKind.TRANSIENT),
        (result("You've hit your limit · resets 3pm", api_error_status=429), "rate_limit", FailureKind.USAGE_LIMIT),
        (result("Claude AI usage limit reached|1800000000"), "", FailureKind.USAGE_LIMIT),
        (result("Credit balance is too low"), "billing_error", FailureKind.USAGE_LIMIT),
        (result("Invalid API key · Fix it", api_error_status=401), "authentication_failed", FailureKind.AUTH),
        (result("Not logged in · Please run /login"), "authentication_failed", FailureKind.AUTH),
        (result("API Error: 403 forbidden"), "", FailureKind.AUTH),
        (result(api_error_status=401, api_error_type="authentication_error"), "", FailureKind.AUTH),
        (result("Prompt is too long", api_error_status=400), "unknown", FailureKind.CONTEXT_OVERFLOW),
        (result("", terminal_reason="blocking_limit"), "", FailureKind.CONTEXT_OVERFLOW),
        (result(subtype="error_max_structured_output_retries"), "", FailureKind.SCHEMA),
        (result("API Error: 400 fake error 400", api_error_status=400), "unknown", FailureKind.OTHER),
        (result("API Error: 400 mentions overloaded_error", api_error_status=400), "", FailureKind.OTHER),
        (result("the model wrote 503 lines"), "", FailureKind.OTHER),
        (result(subtype="error_max_turns"), "", FailureKind.OTHER),
        ({}, "", FailureKind.OTHER),
    ],
)
def test_an_error_result_has_the_kind_of_its_cause(frame: dict[str, object], error: str, kind: FailureKind) -> None:
    assert kind_of(symptoms(frame, error)) is kind


def test_stderr_is_read_only_if_the_stream_says_nothing() -> None:
    assert kind_of(symptoms({}, stderr="API Error: 529 Overloaded")) is FailureKind.TRANSIENT
    assert kind_of(symptoms(result("odd"), stderr="API Error: 529 Overloaded")) is FailureKind.OTHER


@pytest.mark.parametrize(
    "text",
    ["SqliteError: database is locked", "Error: Lock file is already being held", "EBUSY: resource busy, open 'x'"],
)
def test_a_home_that_another_start_has_locked_is_free_again_soon(text: str) -> None:
    assert kind_of(symptoms({}, stderr=text)) is FailureKind.TRANSIENT
    assert kind_of(symptoms(result(text, api_error_status=400))) is FailureKind.OTHER


def test_what_was_said_is_in_the_result_or_in_its_errors() -> None:
    assert said({"errors": ["a", {"message": "b"}, 7]}) == "a\nb"
    assert said({"result": "r", "errors": ["a"]}) == "r"


@pytest.mark.parametrize(
    "text", ["No conversation found with session ID: 7", "Error: --resume requires a valid session ID or session title"]
)
def test_a_refused_resume_is_recognised_in_both_its_texts(text: str) -> None:
    assert refuses_resume({"is_error": True, "num_turns": 0, "errors": [text]})
    assert refuses_resume({}, stderr=text)
    assert not refuses_resume({"is_error": True, "num_turns": 2, "errors": [text]})
