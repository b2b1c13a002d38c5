"""What the contracts of conversations share: turns on a thread, and the end of everything that was opened."""

import threading
from collections.abc import Callable, Iterator
from typing import ClassVar, TypeVar

import pytest

from partyctl_plugins.contract import AgentEvent, Conversation, TurnRequest, TurnResult
from partyctl_plugins.testing.scenes import Act, Scene

C = TypeVar("C", bound=Conversation)


class Turning:
    """A turn that runs on a thread of its own.

    Args:
        conversation: where.
        request: what is asked.
        limit: seconds that nothing here takes.
        on_event: called with each event, on the turn's thread.

    Attributes:
        events: those that came so far.
    """

    def __init__(
        self,
        conversation: Conversation,
        request: TurnRequest,
        limit: float,
        on_event: Callable[[AgentEvent], object] = lambda event: None,
    ) -> None:
        self.events: list[AgentEvent] = []
        self._limit = limit
        self._on_event = on_event
        self._begun = threading.Event()
        self._result: TurnResult | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(conversation, request), daemon=True)
        self._thread.start()

    def begun(self) -> "Turning":
        """Wait for the turn's first event."""
        assert self._begun.wait(self._limit), f"the turn told no event within {self._limit:g} s"
        return self

    def result(self) -> TurnResult:
        """Wait for the end of the turn; raises what it raised."""
        self._thread.join(self._limit)
        assert not self._thread.is_alive(), f"the turn did not end within {self._limit:g} s"
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _run(self, conversation: Conversation, request: TurnRequest) -> None:
        try:
            self._result = conversation.turn(request, self._emit)
        except BaseException as error:
            self._error = error
        finally:
            self._begun.set()

    def _emit(self, event: AgentEvent) -> None:
        self.events.append(event)
        self._begun.set()
        self._on_event(event)


class Stage:
    """A contract that opens conversations; it closes them after each check.

    Attributes:
        prompt: what is asked where the prompt does not matter.
        limit: seconds that no single step takes; a check that waits longer fails.
    """

    prompt: ClassVar[str] = "go"
    limit: ClassVar[float] = 20.0

    @pytest.fixture(autouse=True)
    def _closing(self) -> Iterator[None]:
        self._opened: list[Conversation] = []
        yield
        for conversation in self._opened:
            conversation.close()

    def make_scene(self, *acts: Act) -> Scene | None:
        """A conversation whose coming turns do what `acts` say; None where the provider cannot be brought to that.

        Checks of a scene that cannot be made are skipped, and say so.
        """
        return None

    def scene(self, *acts: Act) -> "Played":
        """The same as something to run turns of, or the end of the check."""
        made = self.make_scene(*acts)
        if made is None:
            pytest.skip(f"make_scene makes no scene of {', '.join(type(act).__name__ for act in acts)}")
        self.opened(made.conversation)
        prompts = [*made.prompts, *[self.prompt] * (len(acts) - len(made.prompts))]
        return Played(made.conversation, prompts, self.limit)

    def opened(self, conversation: C) -> C:
        """Have `conversation` closed at the end of the check."""
        self._opened.append(conversation)
        return conversation

    def ask(self, conversation: Conversation, *, prompt: str | None = None) -> TurnResult:
        """One turn, on a thread of its own."""
        return Turning(conversation, TurnRequest(prompt or self.prompt), self.limit).result()


class Played:
    """The conversation of a scene, turn by turn.

    Attributes:
        conversation: the conversation.
    """

    def __init__(self, conversation: Conversation, prompts: list[str], limit: float) -> None:
        self.conversation = conversation
        self._prompts = prompts
        self._limit = limit

    def begin(self, *, timeout: float | None = None) -> Turning:
        """Start the next turn on a thread of its own."""
        return Turning(self.conversation, self.request(timeout=timeout), self._limit)

    def turn(self, *, timeout: float | None = None) -> TurnResult:
        """Run the next turn; raises what it raises."""
        return self.begin(timeout=timeout).result()

    def request(self, *, timeout: float | None = None) -> TurnRequest:
        """What the next turn is asked."""
        return TurnRequest(self._prompts.pop(0), timeout=timeout)
