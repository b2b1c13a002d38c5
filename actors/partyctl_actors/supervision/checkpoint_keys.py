"""Whose a checkpoint key is: of two sessions of one process over one key of one store, the later one's.

Two sessions that both went on in one conversation would each overwrite what the other keeps. An earlier one may have
been left behind without a close, which is no reason to refuse the later one; so the earlier one is refused by name when
it is asked for its next turn, and writes nothing more. Other processes are not seen: a store has no word for that.
"""

import threading
import weakref

from partyctl_plugins.contract import Checkpoint, CheckpointStore, FileCheckpointStore
from partyctl_plugins.errors import SessionStateError

_lock = threading.Lock()
_held: "weakref.WeakValueDictionary[tuple[object, str], CheckpointKey]" = weakref.WeakValueDictionary()


class CheckpointKey:
    """One session's hold of a key, from here to `let_go`, or until another session takes it.

    Args:
        store: where the checkpoint is kept.
        key: under which name.

    Attributes:
        taken: whether a later session took the key. It stays with that one, even when that is closed.
    """

    def __init__(self, store: CheckpointStore, key: str) -> None:
        self.store, self.key, self.taken = store, key, False
        # Held by this object, a store cannot end and leave its id to another.
        place = store.path(key) if isinstance(store, FileCheckpointStore) else id(store)
        self._name = (place, key)
        with _lock:
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
