"""A log that says when an intent is durable, and when an outcome is not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from partyctl.node.noting_log import NotingLog
from partyctl_actors.errors import JournalError
from partyctl_actors.supervision.turn_log import TurnLogs


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[TurnLogs]:
    made = TurnLogs(tmp_path)
    yield made
    made.close()


def test_an_intent_is_told_when_it_is_in_the_log(logs: TurnLogs) -> None:
    told: list[object] = []
    kept = logs.open("s")
    log = NotingLog(kept, lambda turn_id: told.append((turn_id, list(kept.recover().intents))), lambda *_: None)
    log.intend("t-1", {"prompt": "a"})
    assert told == [("t-1", ["t-1"])]
    assert list(log.recover().intents) == ["t-1"]


def test_an_outcome_that_cannot_be_kept_is_told_and_raised(logs: TurnLogs) -> None:
    told: list[str] = []
    log = NotingLog(logs.open("s"), lambda _: None, lambda turn_id, error: told.append(f"{turn_id}: {error.what}"))
    log.intend("t-1", {"prompt": "a"})
    log.outcome("t-1", {"failed": {"type": "E", "message": ""}})
    assert told == []
    logs.open("s")  # another owner
    with pytest.raises(JournalError) as caught:
        log.outcome("t-1", {})
    assert told == [f"t-1: {caught.value.what}"]
