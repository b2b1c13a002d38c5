"""A `par` whose roles are in processes of their own, agents among them, over a party's broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from programs import panel
from support.party import Party

import partyctl as ap

Said = tuple[str, str, str, object]


def by_role(said: list[Said]) -> dict[str, list[Said]]:
    """What each role says and hears, in order: all that is the same wherever they are, for branches do not wait."""
    names = {name for sender, receiver, _, _ in said for name in (sender, receiver)}
    return {name: [each for each in said if name in each[:2]] for name in names}


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Said]:
    """The same run in one process, and the workers of its two agents."""
    monkeypatch.setenv("PARTYCTL_RUNTIME_DIR", str(tmp_path))
    transcript = ap.Session(panel.protocol, panel.here).run()
    return [(each.sender.name, each.receiver.name, each.label, each.payload) for each in transcript]


@pytest.mark.parametrize("served", [("Editor", "Artist"), ("Author", "Editor", "Artist", "Printer")])
def test_every_role_says_and_hears_what_it_does_in_one_process(
    party: Party, served: tuple[str, ...], embedded: list[Said]
) -> None:
    (party.root / "party.toml").write_text('[listen]\nurl = "tcp://127.0.0.1:0"\n')
    party.up("--nodes", "2")
    keys = {name: json.loads(party.run("key", "add", "--json", name).stdout) for name in served}
    caller = json.loads(party.run("key", "add", "--json", "caller", "--claim", "run/*").stdout)
    url = caller["endpoint"]
    program = str(party.program("panel.py"))
    for name in served:
        party.start(url, f"{name}:{keys[name]['secret']}", name, program=program)
    (party.root / "panel.py").write_text(Path(program).read_text())
    (party.root / "session.py").write_text(
        "import partyctl as ap\n"
        "from panel import here, protocol\n"
        f"far = {{name: ap.Remote(name, url={url!r}, key={'caller:' + caller['secret']!r}) for name in {served!r}}}\n"
        "session = ap.Session(protocol, {role: far.get(role.name, who) for role, who in here.items()})\n"
    )
    for _ in range(2):
        done = party.run("run", "--json", "session.py")
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert events[0]["place"].startswith("on node/")
        said = [(e["sender"], e["receiver"], e["label"], e["payload"]) for e in events if e["event"] == "delivered"]
        assert by_role(said) == by_role(embedded)
        assert said[-1] == embedded[-1]
        shown = json.loads(party.run("runs", "show", events[0]["run"], "--json").stdout)["said"]
        assert [(e["sender"], e["receiver"], e["label"], e["payload"]) for e in shown] == said
