"""Which kind of failure an error result is.

Rules: a result is judged by `is_error`, never by `subtype` (an API failure has subtype `success`). The first row of the
table that matches decides; the rows are ordered from the particular to the general, so that a usage limit that comes as
a 429 is a limit and not an overload.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from partyctl_plugins.claude.frames import Frame, count_of, objects_of, text_of
from partyctl_plugins.contract import FailureKind

_AUTH_ERRORS = {
    "authentication_failed",
    "oauth_org_not_allowed",
    "account_on_hold",
    "verification_required",
    "cloud_credential_error",
}
_OVERFLOW_REASONS = {"prompt_too_long", "blocking_limit", "rapid_refill_breaker"}
_BUSY_ERRORS = {"overloaded", "rate_limit", "server_error"}
_BUSY_TEXT = re.compile(
    r"overloaded_error|rate_limit_error|\bapi_error\b|connection (?:refused|error|reset|closed)"
    r"|fetch failed|socket hang up|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|ENETUNREACH"
    # Commands that start at once share files in one home.
    r"|database is locked|lock(?: file)? is already being held|\bEBUSY\b|\bELOCKED\b",
    re.I,
)
_LIMIT_TEXT = re.compile(r"hit your limit|usage limit|credit balance|spend limit|out of (?:extra )?usage", re.I)
_AUTH_TEXT = re.compile(r"authentication_error|permission_error|invalid api key|please run /login", re.I)
_OVERFLOW_TEXT = re.compile(r"prompt is too long|context (?:window|length) exceeded", re.I)
_STATUS_TEXT = re.compile(r"API Error: (?:[^\d\n]*\()?(\d{3})\b")
_GONE_TEXT = re.compile(r"no conversation found with session id|--resume requires a valid session", re.I)


@dataclass(frozen=True, slots=True)
class Symptoms:
    """What an error result and the frames before it say.

    Attributes:
        subtype, reason: the result's `subtype` and `terminal_reason`.
        error: the `error` of the synthetic assistant frame, or the result's `api_error_type`.
        status: the HTTP status, 0 if unknown.
        text: everything said, for people.
    """

    subtype: str
    reason: str
    error: str
    status: int
    text: str


_TABLE: tuple[tuple[FailureKind, Callable[[Symptoms], object]], ...] = (
    (FailureKind.SCHEMA, lambda s: s.subtype == "error_max_structured_output_retries"),
    (FailureKind.CONTEXT_OVERFLOW, lambda s: s.reason in _OVERFLOW_REASONS or _OVERFLOW_TEXT.search(s.text)),
    (FailureKind.AUTH, lambda s: s.error in _AUTH_ERRORS),
    (FailureKind.USAGE_LIMIT, lambda s: s.error == "billing_error" or _LIMIT_TEXT.search(s.text)),
    (FailureKind.TRANSIENT, lambda s: s.error in _BUSY_ERRORS or s.status in (408, 429) or s.status >= 500),
    (FailureKind.AUTH, lambda s: s.status in (401, 403) or _AUTH_TEXT.search(s.text)),
    (FailureKind.TRANSIENT, lambda s: s.status == 0 and _BUSY_TEXT.search(s.text)),
)


def symptoms(result: Frame, error: str = "", stderr: str = "") -> Symptoms:
    """Gather what there is.

    Args:
        result: the error result; empty for a process that ended without one.
        error: the `error` of the turn's last synthetic assistant frame.
        stderr: read only if the stream reported no error.
    """
    text = said(result) or stderr
    stated = count_of(result, "api_error_status")
    matched = _STATUS_TEXT.search(text)
    return Symptoms(
        subtype=text_of(result, "subtype"),
        reason=text_of(result, "terminal_reason"),
        error=error or text_of(result, "api_error_type"),
        status=stated or (int(matched[1]) if matched else 0),
        text=text,
    )


def kind_of(what: Symptoms) -> FailureKind:
    """The kind of failure."""
    return next((kind for kind, matches in _TABLE if matches(what)), FailureKind.OTHER)


def said(result: Frame) -> str:
    """The provider's own words in a result."""
    errors = result.get("errors")
    lines = [line for line in errors if isinstance(line, str)] if isinstance(errors, list) else []
    lines += [text_of(entry, "message") for entry in objects_of(result, "errors")]
    return text_of(result, "result") or "\n".join(line for line in lines if line)


def refuses_resume(result: Frame, stderr: str = "") -> bool:
    """Whether a process that was to resume a conversation says that there is none."""
    return count_of(result, "num_turns") == 0 and bool(_GONE_TEXT.search(said(result) or stderr))
