"""How agent sessions are laid out in a table, by `partyctl status` and `partyctl sessions list`."""

from collections.abc import Mapping

from partyctl.masking import masked

HEADINGS = ("SESSION", "STATE", "ROLE", "PROVIDER", "TURNS", "CONVERSATION", "WHY")

_SHOWN = 60
"""Characters of a text in a table."""


def row(told: Mapping[str, object]) -> tuple[str, ...]:
    """One session, as its document tells it."""
    keys = ("session", "state", "role", "provider", "turns", "conversation", "why")
    return tuple("" if told.get(key) is None else short(str(told[key])) for key in keys)


def short(text: str) -> str:
    """The text in one line, cut, without secrets."""
    line = masked(" ".join(text.split()))
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 4]} ..."
