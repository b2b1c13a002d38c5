from pathlib import Path

import pytest

import partyctl as ap
from partyctl.casting import agent_from, agent_of, cast_from, describe_agent, role_for_session
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


PERSON = '[roles.Person]\nhuman = "desk"\n'


def with_person(*roles: str) -> PartyConfig:
    text = "".join(f"[roles.{role}]\n{AGENT}" for role in roles)
    return parse(text + PERSON, Path("/x/party.toml"), lambda name: None)


def test_a_session_begins_with_the_only_role_that_has_a_provider() -> None:
    assert role_for_session(with_person("Writer"), None).name == "Writer"
    assert role_for_session(with_person("Writer", "Editor"), "Editor").name == "Editor"


@pytest.mark.parametrize(
    ("roles", "asked", "told"),
    [
        (("Writer", "Editor"), None, r"not clear whom to ask.*Writer, Editor.*--role"),
        ((), None, r"no role has a provider.*\[roles\.NAME\]"),
        (("Writer",), "Person", r"role Person is a person's.*roles\.Person.*Writer"),
        (("Writer",), "Wirter", r"no role 'Wirter'.*Did you mean 'Writer'"),
        (("Writer",), "X", r"no role 'X'.*Roles with a provider are Writer"),
    ],
)
def test_a_role_that_nobody_can_ask_is_refused(roles: tuple[str, ...], asked: str | None, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        role_for_session(with_person(*roles), asked)


def test_a_described_agent_keeps_its_retries() -> None:
    text = f'[roles.Writer]\n{AGENT}retry = {{ delays = [1, 2.5], after_tool = "fail", retire_after_stalled = 3 }}\n'
    config = parse(text, Path("/x/party.toml"), lambda name: None)
    agent = agent_of(config.roles["Writer"], config)
    assert agent_from(describe_agent(agent)).retry == agent.retry == ap.RetryPolicy((1, 2.5), "fail", 3)
    plain = agent_of(with_person("Writer").roles["Writer"], with_person("Writer"))
    assert agent_from(describe_agent(plain)).retry is None
