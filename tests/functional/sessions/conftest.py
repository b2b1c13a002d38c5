from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.party import Party, wait_until

Steps = list[dict[str, object]]


class Sessions:
    """A party of one node whose role Helper plays a script, turn after turn, whatever becomes of its worker."""

    def __init__(self, party: Party) -> None:
        self.party = party

    def begin(self, *turns: Steps, role: str = "", up: bool = True) -> None:
        """Write party.toml, and bring the party up."""
        script = ", ".join("[" + ", ".join(_inline(step) for step in turn) + "]" for turn in turns)
        (self.party.root / "party.toml").write_text(
            '[party]\nnodes = 1\n[roles.Helper]\nprovider = "scripted"\npermissions = { mode = "bypass" }\n'
            f'approvals = "deny"\n{role}\noptions = {{ state = "position", script = [{script}] }}\n'
            '[roles.Person]\nhuman = "desk"\n'
        )
        if up:
            self.party.up()

    def send(self, prompt: str, *options: str) -> subprocess.CompletedProcess[str]:
        """`partyctl send s PROMPT`."""
        done: subprocess.CompletedProcess[str] = self.party.run("send", "s", prompt, *options)
        return done

    def ask(self, prompt: str) -> dict[str, Any]:
        """The document of an answered turn."""
        done = self.send(prompt, "--json")
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def sending(self, prompt: str, until: str = "busy") -> subprocess.Popen[str]:
        """A `send` in another terminal, whose turn is under way."""
        process: subprocess.Popen[str] = self.party.start("send", "s", prompt)
        wait_until(lambda: self.standing("s")["state"] == until, 20, f"the session is {until}")
        return process

    def standing(self, name: str) -> dict[str, Any]:
        """The document of one session."""
        done = self.party.run("sessions", "show", name, "--json")
        document: dict[str, Any] = json.loads(done.stdout or '{"state": null}')
        return document

    def turns(self) -> list[tuple[str, str, str | None]]:
        """Prompt, state and answer of each turn."""
        done = self.party.run("sessions", "turns", "s", "--json")
        return [(each["prompt"], each["state"], each["answer"]) for each in json.loads(done.stdout)["turns"]]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of a kind, oldest first."""
        lines = self.party.run("events", "--json").stdout.splitlines()
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def worker(self) -> int:
        """The pid of the session's worker."""
        [worker] = self.party.status()["workers"]
        pid: int = worker["pid"]
        return pid

    def node(self) -> int:
        """The pid of the node."""
        [node] = self.party.status()["nodes"]
        pid: int = node["pid"]
        return pid


def _inline(step: dict[str, object]) -> str:
    [(kind, value)] = step.items()
    if isinstance(value, dict):
        return f"{{ {kind} = {{ {', '.join(f'{key} = {json.dumps(item)}' for key, item in value.items())} }} }}"
    return f"{{ {kind} = {json.dumps(value)} }}"


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    party = Party()
    yield Sessions(party)
    party.close()
