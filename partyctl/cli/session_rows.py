"""How agent sessions are laid out in a table, by `partyctl status` and `partyctl sessions list`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from partyctl.masking import masked

if TYPE_CHECKING:
    from partyctl.sessions import TurnView

HEADINGS = ("SESSION", "STATE", "ROLE", "PROVIDER", "TURNS", "CONVERSATION", "WHY")

TURN_HEADINGS = ("TURN", "STATE", "RULES", "TOKENS", "TIME", "PROMPT", "ANSWER")

_SHOWN = 60
"""Characters of a text in a table."""


def row(told: Mapping[str, object]) -> tuple[str, ...]:
    """One session, as its document tells it."""
    keys = ("session", "state", "role", "provider", "turns", "conversation", "why")
    return tuple("" if told.get(key) is None else short(str(told[key])) for key in keys)


def turn_row(view: "TurnView") -> tuple[str, ...]:
    """One turn: what it used and took only where that is known."""
    tokens = view.input_tokens + view.output_tokens
    took = "" if view.duration_ms is None else f"{view.duration_ms / 1000:.1f} s"
    rules = " ".join(view.rules)
    known = (view.turn_id, view.state, rules, str(tokens) if tokens else "", took)
    return (*known, short(view.prompt), short(view.text or view.why))


def short(text: str) -> str:
    """The text in one line, cut, without secrets."""
    line = masked(" ".join(text.split()))
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 4]} ..."
