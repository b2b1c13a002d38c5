"""Ctrl-C at the worst moments: the session is ready for the next turn, and leaves no conversation open."""

from typing import Any

import pytest
from fakes.agent_sessions import Told, local

from partyctl_actors.supervision import attempts
from partyctl_actors.supervision.policy_events import CloseAsked, Event, Opened, PrepareAsked, RunAsked


def pressed_after(event: type[Event], told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Ctrl-C come as soon as the session has taken an event of this class, once."""
    core = told.session._core
    step, left = core.step, [True]

    def stepped(happened: Event) -> list[Any]:
        commands = step(happened)
        if isinstance(happened, event) and left:
            left.clear()
            raise KeyboardInterrupt
        return commands

    monkeypatch.setattr(core, "step", stepped)


@pytest.mark.parametrize("event", [PrepareAsked, RunAsked, Opened])
def test_as_soon_as_something_has_happened_to_the_turn(event: type[Event], monkeypatch: pytest.MonkeyPatch) -> None:
    told, transport = local()
    pressed_after(event, told, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        told.run()
    assert told.run().result.text == "ok"
    told.session.close()
    assert all(each.close_calls for each in transport.conversations)


def test_between_the_opening_of_a_conversation_and_whoever_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told, transport = local()

    def interrupted(*_: object, **__: object) -> Event:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(attempts, "Opened", interrupted)
        patched.setattr(told.session._core.connections, "add", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            told.run()
    assert told.run().result.text == "ok"
    told.session.close()
    assert [each.close_calls for each in transport.conversations] == [1, 1]


def test_in_a_close_that_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told, transport = local()
    told.run()
    pressed_after(CloseAsked, told, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        told.session.close()
    told.session.close()
    assert transport.conversations[0].close_calls == 1
