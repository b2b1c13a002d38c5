"""What `Agent.session` is given, and where its agent works."""

from pathlib import Path
from typing import Any

import pytest

from partyctl_actors.participants import Agent
from partyctl_base.paths import PathError
from partyctl_plugins.contract import ApprovalPolicy, NativePermissions
from partyctl_plugins.testing import FakeCheckpointStore, FakeTransport

GIVEN = {"permissions": NativePermissions.bypass(), "approvals": ApprovalPolicy.DENY}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"cwd": 0}, "cwd"),
        ({"checkpoints": "checkpoints", "checkpoint_key": "nightly"}, "checkpoints"),
        ({"checkpoints": FakeCheckpointStore(), "checkpoint_key": 7}, "checkpoint_key"),
        ({"previous_usage": 7}, "previous_usage"),
        ({"resume_id": b"conv-1"}, "resume_id"),
        ({"idle_release_after": "1"}, "idle_release_after"),
    ],
)
def test_an_argument_of_a_session_that_is_not_as_described_is_refused_by_name(
    given: dict[str, Any], named: str
) -> None:
    agent = Agent(FakeTransport(), **GIVEN)  # type: ignore[call-overload]
    with pytest.raises((TypeError, ValueError), match=named):
        agent.session(**given)


def test_a_session_without_a_directory_says_that_the_current_one_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    agent = Agent(FakeTransport(), **GIVEN)  # type: ignore[call-overload]
    with pytest.raises(PathError, match=r"the current directory was removed\. Change to one"):
        agent.session()
    agent.session("/").close()
