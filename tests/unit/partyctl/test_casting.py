from pathlib import Path

import pytest

import partyctl as ap
from partyctl.casting import cast_from
from partyctl.config import PartyConfig, parse
from partyctl.errors import ConfigError

Writer, Reviewer = ap.roles("Writer", "Reviewer")


class Word(ap.Message):
    text: str


PROTOCOL = ap.Protocol(ap.send(Writer, Reviewer, Word))
AGENT = 'provider = "p"\npermissions = { mode = "bypass" }\napprovals = "deny"\n'


def config(*roles: str) -> PartyConfig:
    text = "".join(f"[roles.{role}]\n{AGENT}" for role in roles)
    return parse(text, Path("/x/party.toml"), lambda name: None)


def test_roles_are_cast_by_name_and_those_of_other_protocols_are_left_out() -> None:
    assert set(cast_from(config("Writer", "Editor"), PROTOCOL)) == {Writer}


@pytest.mark.parametrize("mistyped", ["Reviwer", "reviewer", "Reviewers"])
def test_a_mistyped_role_is_refused_with_file_line_and_the_nearest(mistyped: str) -> None:
    told = rf"no role '{mistyped}' \(/x/party\.toml:5, roles\.{mistyped}\)\. Did you mean 'Reviewer'\?"
    with pytest.raises(ConfigError, match=told):
        cast_from(config("Writer", mistyped), PROTOCOL)


def test_a_name_near_to_a_role_that_is_cast_is_another_protocols() -> None:
    assert set(cast_from(config("Writer", "Reviewer", "Reviewers"), PROTOCOL)) == {Writer, Reviewer}
