"""Output schemas of providers that read them from files, over real workers: where they are, and who removes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.agent_sessions import Told, wait_until

from partyctl_plugins.contract import CliExitError, OutputSchema, TurnRequest
from partyctl_plugins.manager import ProviderEntry

FILING = ProviderEntry("files", "filing_plugin")
SCHEMA = OutputSchema({"type": "object"})


def asked(told: Told, prompt: str, schema: OutputSchema = SCHEMA) -> str:
    """Where the provider wrote the schema."""
    ticket = told.session.prepare_turn(TurnRequest(prompt, output_schema=schema))
    return told.session.run(ticket).result.text


def test_a_session_has_one_directory_that_is_gone_when_it_lets_its_worker_go(
    open_session: Callable[..., Told],
) -> None:
    told = open_session(provider=FILING, options={})
    first, second = asked(told, "a"), asked(told, "b")
    assert first == second
    assert [path.name for path in Path(first).iterdir()] == ["schema.json"]
    told.session.release()
    assert not Path(first).exists()
    third = asked(told, "c")
    assert third != first
    told.session.close()
    assert not Path(third).exists()


def test_one_of_a_worker_that_was_killed_is_removed_by_whoever_sees_its_end(
    open_session: Callable[..., Told], tmp_path: Path
) -> None:
    told = open_session(provider=FILING, options={})
    with pytest.raises(CliExitError):
        asked(told, f"die {tmp_path / 'place'}")
    place = Path((tmp_path / "place").read_text())
    wait_until(lambda: not place.exists())


def test_one_that_the_caller_named_is_used_and_left_alone(open_session: Callable[..., Told], tmp_path: Path) -> None:
    told = open_session(provider=FILING, options={})
    assert asked(told, "a", OutputSchema({}, host_dir=str(tmp_path))) == str(tmp_path)
    told.session.close()
    assert [path.name for path in tmp_path.iterdir()] == ["schema.json"]
