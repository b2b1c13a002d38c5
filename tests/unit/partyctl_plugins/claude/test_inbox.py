"""What waits between the pump and the turn."""

import threading

from partyctl_base.clock import StopSignal
from partyctl_plugins.claude.inbox import INBOX_BYTES, Ended, Inbox


class LateClock:
    """A clock that stands after every deadline."""

    def monotonic(self) -> float:
        return 100.0

    def wait(self, seconds: float, stop: StopSignal) -> bool:
        raise AssertionError("nobody waits here")


def test_items_come_out_as_they_went_in() -> None:
    inbox = Inbox(LateClock())
    inbox.put({"a": 1}, 5)
    inbox.put({"b": 2}, 5)
    assert [inbox.get(0.0), inbox.get(0.0), inbox.get(0.0)] == [{"a": 1}, {"b": 2}, None]


def test_it_is_full_by_bytes_and_has_room_again() -> None:
    inbox = Inbox(LateClock())
    inbox.put({"a": 1}, INBOX_BYTES)
    assert inbox.full
    inbox.get(0.0)
    assert not inbox.full


def test_with_nobody_reading_only_the_last_words_are_kept() -> None:
    inbox = Inbox(LateClock())
    inbox.put({"old": 1}, INBOX_BYTES)
    inbox.attend(False)
    assert not inbox.full
    inbox.put({"missed": 1}, 5)
    inbox.put(Ended(0))
    inbox.attend(True)
    assert inbox.get(0.0) == Ended(0)


def test_a_nudge_ends_one_wait() -> None:
    inbox = Inbox(LateClock())
    inbox.nudge()
    assert inbox.get(None) is None
    thread = threading.Thread(target=inbox.get, args=(None,))
    thread.start()
    inbox.put({"a": 1})
    thread.join(10)
    assert not thread.is_alive()
