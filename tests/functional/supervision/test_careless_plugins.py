"""Plugins that treat their worker as if it were theirs: each costs one turn at the most, and no turn waits for ever."""

from collections.abc import Callable

import pytest
from fakes.agent_sessions import Told, WorkerGrounds

from partyctl_plugins.contract import CliExitError
from partyctl_plugins.manager import ProviderEntry

CARELESS = ProviderEntry("careless", "careless_plugin")


@pytest.fixture
def told(open_session: Callable[..., Told]) -> Told:
    return open_session(provider=CARELESS, options={})


def test_one_that_closes_its_workers_channel_ends_its_worker_and_the_error_says_so(told: Told) -> None:
    with pytest.raises(CliExitError, match="the plugin closed a descriptor that is not its own"):
        told.run("close all descriptors", deadline=60)
    assert told.run().result.text == "ok"


@pytest.mark.parametrize(
    "prompt", ["take all descriptors", "fork and return twice", "fork and exit", "forget its name"]
)
def test_what_it_does_to_its_process_costs_no_turn_and_no_worker(
    told: Told, grounds: WorkerGrounds, prompt: str
) -> None:
    workers = list(grounds.pids)
    assert [told.run(each).result.text for each in (prompt, "go", "go")] == ["ok"] * 3
    assert told.session.conversation_id == "careless-1"
    assert grounds.pids == workers
