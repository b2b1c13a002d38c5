import os
from pathlib import Path

import pytest

from partyctl.casting import agent_from, cast_from, describe_agent
from partyctl.config import load
from partyctl.maps import pack, unpack
from partyctl_actors.participants import Agent
from partyctl_actors.protocol import Message, Protocol, roles, send
from partyctl_plugins.contract import ApprovalPolicy, NativeMode, NativePermissions, TransportKind

A, B = roles("A", "B")


class Hi(Message):
    """A greeting."""


BARE = Agent("scripted", permissions=NativePermissions.bypass(), approvals=ApprovalPolicy.DENY)
FULL = Agent(
    "claude",
    "Write.",
    permissions=NativePermissions(NativeMode.WORKSPACE_WRITE, ("/tmp",), True),
    approvals=ApprovalPolicy.DENY,
    transport=TransportKind.ONE_SHOT,
    model="m",
    cwd="sub",
    options={"deep": {"list": [1, 2.5, None]}},
    confinement="none",
    env={"K": "v"},
    repair=3,
)


@pytest.mark.parametrize("agent", [BARE, FULL], ids=["bare", "full"])
def test_an_agent_survives_the_way_to_another_process(agent: Agent) -> None:
    there = agent_from(unpack(pack(describe_agent(agent))))
    for name in ("provider", "instructions", "permissions", "approvals", "transport", "model", "confinement"):
        assert getattr(there, name) == getattr(agent, name), name
    assert dict(there.options) == dict(agent.options)
    assert (there.env or {}) == (agent.env or {})
    assert there.repair == agent.repair


def test_its_directory_is_that_of_the_process_that_describes_it() -> None:
    assert describe_agent(BARE)["cwd"] == os.getcwd()
    assert describe_agent(FULL)["cwd"] == os.path.join(os.getcwd(), "sub")


def test_a_protocol_is_cast_from_the_roles_that_the_file_names(tmp_path: Path) -> None:
    role = 'provider = "scripted"\npermissions = { mode = "bypass" }\napprovals = "deny"\n'
    (tmp_path / "party.toml").write_text(f"[roles.A]\ninstructions = 'x'\n{role}[roles.Stranger]\n{role}")
    cast = cast_from(load(tmp_path / "party.toml"), Protocol(send(A, B, Hi)))
    assert list(cast) == [A]
    agent = cast[A]
    assert isinstance(agent, Agent)
    assert (agent.provider, agent.instructions) == ("scripted", "x")
