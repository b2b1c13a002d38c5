"""Whose a checkpoint key is: of two sessions over one key of one store, one's at a time.

Two sessions that both went on in one conversation would each overwrite what the other keeps. Of two sessions of one
process the later one has the key: the earlier may have been left behind without a close, which is no reason to refuse
the later. So the earlier is refused by name when it is asked for its next turn, and writes nothing more. Of two
processes the earlier one has it, because what was left behind there ends with it: a session of another is refused
when it is made. That takes a store which says who has a key: `FileCheckpointStore`.
"""

import os
import threading
import weakref
from pathlib import Path

from partyctl_plugins.claims import Claim
from partyctl_plugins.contract import Checkpoint, CheckpointStore, FileCheckpointStore
from partyctl_plugins.errors import SessionStateError

_lock = threading.RLock()  # a fork may come in the middle of what holds it
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_held: "weakref.WeakValueDictionary[tuple[Path | int, str], CheckpointKey]" = weakref.WeakValueDictionary()


class CheckpointKey:
    """One session's hold of a key, from here to `let_go`, or until another session takes it.

    Args:
        store: where the checkpoint is kept. key: under which name.

    Attributes:
        taken: whether a later session took the key. It stays with that one, even when that is closed.

    Raises:
        SessionStateError: another process has the key.
        CheckpointError: whether one has cannot be known.
    """

    def __init__(self, store: CheckpointStore, key: str) -> None:
        self.store, self.key, self.taken = store, key, False
        with _lock:
            self._claim: Claim | None = store.claim(key) if isinstance(store, FileCheckpointStore) else None
            # Held by this object, a store cannot end and leave its id to another.
            self._name = (id(store) if self._claim is None else self._claim.path, key)
            before = _held.get(self._name)
            if before is not None:
                before.taken = True
            _held[self._name] = self

    def check(self) -> None:
        """Refuse, by name, the turns of a session whose key another has.

        Raises:
            SessionStateError: another session of this process took the key.
        """
        if self.taken:
            raise SessionStateError(
                f"another session of this process went on under the checkpoint key {self.key!r}",
                why="both would go on in one conversation, and each overwrite what the other keeps",
                fix="Close a session before the next one is made, or give each a checkpoint_key of its own",
            )

    def keep(self, checkpoint: Checkpoint | None) -> None:
        """Save the checkpoint, None: clear what is there.

        Raises:
            SessionStateError: see `check`. Whatever else the store raises.
        """
        self.check()
        if checkpoint is None:
            self.store.clear(self.key)
        else:
            self.store.save(self.key, checkpoint)

    def let_go(self) -> None:
        """The session is closed. Idempotent."""
        with _lock:
            if _held.get(self._name) is self:
                del _held[self._name]
            if self._claim is not None:
                self._claim.let_go()
