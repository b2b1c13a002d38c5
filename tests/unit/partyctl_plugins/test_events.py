"""Events: the whole list, and the little they compute."""

import typing
from dataclasses import is_dataclass

import pytest

from partyctl_plugins import events
from partyctl_plugins.events import AgentEvent, RateLimitStatus


def test_the_union_names_every_event_of_the_module() -> None:
    defined = {cls for cls in vars(events).values() if isinstance(cls, type) and cls.__module__ == events.__name__}
    assert set(typing.get_args(AgentEvent)) == {cls for cls in defined if is_dataclass(cls)}


@pytest.mark.parametrize(("used", "left"), [(0.25, 0.75), (1.5, 0.0), (None, None)])
def test_what_is_left_of_a_window_is_never_below_zero(used: float | None, left: float | None) -> None:
    assert RateLimitStatus("5h", used).remaining_fraction == left
