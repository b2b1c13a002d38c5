import pytest

from partyctl_actors.supervision.kept_conversation import KeptConversation
from partyctl_plugins.contract import Checkpoint, ProviderUsage, SessionStateError
from partyctl_plugins.testing import FakeCheckpointStore

USAGE = ProviderUsage(provider="fake")


def test_a_checkpoint_goes_with_the_last_usage_of_its_conversation() -> None:
    store = FakeCheckpointStore()
    kept = KeptConversation(store, "key")
    kept.report("c-1", ProviderUsage())
    kept.report("c-1", USAGE)
    kept.save("c-1")
    assert store.load("key") == Checkpoint("c-1", USAGE)
    kept.save("c-2")
    assert store.load("key") == Checkpoint("c-2", None)
    kept.save(None)
    assert store.load("key") is None


def test_the_usage_of_other_conversations_is_forgotten() -> None:
    kept = KeptConversation(None, None)
    kept.report("c-1", USAGE)
    kept.report("c-2", USAGE)
    kept.forget_others("c-2")
    assert (kept.usage("c-1"), kept.usage("c-2"), kept.usage(None)) == (None, USAGE, None)


def test_a_session_whose_key_was_taken_writes_nothing_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    store = FakeCheckpointStore()
    first, second = KeptConversation(store, "key"), KeptConversation(store, "key")
    second.save("c-2")
    first.save("c-1")
    assert store.load("key") == Checkpoint("c-2", None)
    assert "could not be kept" in caplog.text
    second.check()
    with pytest.raises(SessionStateError, match="key"):
        first.check()


def test_a_store_and_its_key_belong_together() -> None:
    with pytest.raises(ValueError, match="checkpoint_key"):
        KeptConversation(FakeCheckpointStore(), None)
    with pytest.raises(ValueError, match="checkpoint_key"):
        KeptConversation(None, "key")
