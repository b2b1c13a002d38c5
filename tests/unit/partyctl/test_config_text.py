import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl.config_schema import PartyConfig, parse
from partyctl.config_text import fingerprint, resolved, runs_as, toml

SCALARS = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.datetimes() | st.dates()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner, min_size=1), max_leaves=8
)
FILES = st.dictionaries(st.text(), st.integers() | st.dictionaries(st.text(), VALUES.filter(lambda v: v != [])))

ROLE = """
[roles.Writer]
provider = "p"
permissions = { mode = "bypass" }
approvals = "deny"
[roles."Rev iéw"]
human = "desk"
"""


@given(FILES)
def test_what_is_shown_reads_as_what_it_was(values: dict[str, object]) -> None:
    values.pop("roles", None)
    shown = tomllib.loads(toml(values))
    assert shown == {key: value for key, value in values.items() if value != {}}


def test_the_tables_of_roles_get_headers_of_their_own() -> None:
    shown = toml(tomllib.loads(ROLE))
    assert '[roles.Writer]\nprovider = "p"\n' in shown
    assert '\n\n[roles."Rev iéw"]\nhuman = "desk"' in shown
    assert tomllib.loads(shown) == tomllib.loads(ROLE)


def test_every_default_is_filled_in() -> None:
    values = resolved(parse(ROLE, Path("/x/party.toml"), lambda name: None))
    assert values["limits"] == {"runs": 200, "workers": 64}
    assert values["defaults"] == {"confinement": "none"}
    roles = values["roles"]
    assert isinstance(roles, dict)
    assert roles["Rev iéw"] == {"human": "desk"}
    writer = roles["Writer"]
    assert (writer["transport"], writer["cwd"], writer["confinement"]) == ("stream", "/x", "none")
    assert writer["permissions"] == {"mode": "bypass", "writable_roots": [], "network": False}


@pytest.mark.parametrize("nodes", [None, 3])
def test_a_number_of_nodes_is_always_told(nodes: int | None) -> None:
    text = f"[party]\nnodes = {nodes}" if nodes else ""
    party = resolved(parse(text, Path("/x/party.toml"), lambda name: None))["party"]
    assert isinstance(party, dict)
    assert party["nodes"] == nodes or (nodes is None and party["nodes"] >= 1)


def test_what_is_resolved_can_be_read_again() -> None:
    config = parse(ROLE, Path("/x/party.toml"), lambda name: None)
    again = parse(toml(resolved(config)), Path("/x/party.toml"), lambda name: None)
    assert resolved(again) == resolved(config)


def test_a_party_runs_as_it_is_asked_if_all_settings_are_the_same_but_its_name() -> None:
    def of(text: str) -> PartyConfig:
        return parse(text, Path("/p/party.toml"), lambda provider: provider)

    running = fingerprint(of("[party]\nnodes = 3\n"))
    for same in ("", "# nothing\n[limits]\nruns = 200\n", '[party]\nname = "x"\n', "[party]\nnodes = 3\n"):
        assert runs_as(running, of(same)), same
    for other in ("[limits]\nruns = 1\n", "[restarts]\nperiod = 9\n", ROLE, "[party]\nnodes = 2\n"):
        assert not runs_as(running, of(other)), other
