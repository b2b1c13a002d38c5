"""Sessions over workers of one launcher per file; whatever a test leaves of them fails it."""

from collections.abc import Callable, Iterator

import pytest
from fakes.agent_sessions import Told, WorkerGrounds, wait_until


@pytest.fixture(scope="module")
def grounds() -> Iterator[WorkerGrounds]:
    made = WorkerGrounds()
    yield made
    made.close()


@pytest.fixture
def open_session(grounds: WorkerGrounds) -> Iterator[Callable[..., Told]]:
    """Opens sessions; afterwards they are closed, and nothing of them is left."""
    opened: list[Told] = []

    def open_one(*turns: list[dict[str, object]], **more: object) -> Told:
        opened.append(grounds.session(*turns, **more))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for told in opened:
        told.session.close()
    wait_until(lambda: grounds.launcher.workers() == [])
    assert grounds.holders == 0
