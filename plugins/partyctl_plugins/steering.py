"""Messages on their way into the running turn of a worker.

A plugin's `steer` may block, so it is called on a thread of its own, one message after another. A message is for one
turn: when that one does not run, it is refused, and no turn begins while a message for an earlier one is on its way.
"""

import queue
import threading
from collections.abc import Callable

from partyctl_plugins.contract import Conversation, SteerableConversation
from partyctl_plugins.errors import NoRunningTurnError, ProviderCapabilityError
from partyctl_plugins.records import Steer


class Steering:
    """The messages of one worker.

    Args:
        running: the conversation of the turn of this id, None if that turn does not run.
        answer: told what became of each message: None, or what refused it.
    """

    def __init__(
        self,
        running: Callable[[str], Conversation | None],
        answer: Callable[[Steer, BaseException | None], None],
    ) -> None:
        self._running = running
        self._answer = answer
        self._messages: queue.SimpleQueue[Steer] = queue.SimpleQueue()
        self._under_way = threading.Lock()
        self._thread: threading.Thread | None = None

    def take(self, message: Steer) -> None:
        """Have `message` delivered; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._deliver, name="steer", daemon=True)
            self._thread.start()
        self._messages.put(message)

    def settled(self, limit: float) -> bool:
        """Whether no message is on its way any more, after at most `limit` seconds."""
        settled = self._under_way.acquire(timeout=limit)
        if settled:
            self._under_way.release()
        return settled

    def _deliver(self) -> None:
        while True:
            message = self._messages.get()
            refusal: BaseException | None = None
            try:
                with self._under_way:
                    self._steer(message)
            except BaseException as error:
                refusal = error
            self._answer(message, refusal)

    def _steer(self, message: Steer) -> None:
        conversation = self._running(message.turn_id)
        if conversation is None:
            raise NoRunningTurnError("the turn to steer does not run", where=message.turn_id)
        if not isinstance(conversation, SteerableConversation):
            raise ProviderCapabilityError(
                "the provider takes no message while a turn runs",
                fix="Say it in the prompt of the next turn",
            )
        conversation.steer(message.text)
