"""What an agent session keeps of its conversation: its checkpoint, and the last usage that was reported there."""

from __future__ import annotations

import logging
import threading

from partyctl_actors.supervision.checkpoint_keys import CheckpointKey
from partyctl_plugins.contract import Checkpoint, CheckpointStore, ProviderUsage

_log = logging.getLogger("partyctl.supervision")


class KeptConversation:
    """One session's hold of its checkpoint key, and the last usage of the conversations it may go on in.

    Args:
        store: where the checkpoint is kept; None for nowhere.
        key: under which name; None together with `store`.

    Raises:
        ValueError: one without the other.
        SessionStateError: another process has the key.
        CheckpointError: whether one has cannot be known.
    """

    def __init__(self, store: CheckpointStore | None, key: str | None) -> None:
        if (store is None) != (key is None):
            raise ValueError("checkpoints and checkpoint_key belong together: give both or neither")
        self._key = None if store is None or key is None else CheckpointKey(store, key)
        self._lock = threading.Lock()
        self._usage: dict[str, ProviderUsage] = {}

    def check(self) -> None:
        """Raises SessionStateError: a later session of this process took the key."""
        if self._key is not None:
            self._key.check()

    def usage(self, conversation_id: str | None) -> ProviderUsage | None:
        """The last usage reported in this conversation, None if none is known."""
        with self._lock:
            return self._usage.get(conversation_id) if conversation_id else None

    def report(self, conversation_id: str, usage: ProviderUsage) -> None:
        """This is the newest usage of that conversation."""
        with self._lock:
            self._usage[conversation_id] = usage

    def forget_others(self, conversation_id: str | None) -> None:
        """Drop the usage of all conversations but this one."""
        with self._lock:
            self._usage = {each: usage for each, usage in self._usage.items() if each == conversation_id}

    def save(self, conversation_id: str | None) -> None:
        """Save the checkpoint, None: clear it. A store that raises takes nothing from the turn."""
        if self._key is None:
            return
        try:
            self._key.keep(Checkpoint(conversation_id, self.usage(conversation_id)) if conversation_id else None)
        except Exception:
            _log.exception("The checkpoint %r could not be kept; the session goes on without", self._key.key)

    def let_go(self) -> None:
        """The session is closed. Idempotent."""
        if self._key is not None:
            self._key.let_go()
