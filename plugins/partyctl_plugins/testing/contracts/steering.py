"""What a conversation does that takes messages while its turn runs: docs/writing-a-transport.md."""

from collections.abc import Sequence

import pytest

from partyctl_plugins.contract import (
    AgentEvent,
    Conversation,
    NoRunningTurnError,
    SteerableConversation,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.events import SteerConsumed, SteerDelivered, SteerRejected
from partyctl_plugins.testing.contracts.conversation import ConversationContract
from partyctl_plugins.testing.contracts.stage import Turning
from partyctl_plugins.testing.scenes import Scene

MESSAGE = "Stop; use the cache instead."


class SteerableConversationContract(ConversationContract):
    """All of `ConversationContract`, and `make_steerable_conversation`."""

    def make_steerable_conversation(self) -> SteerableConversation | Scene:
        """An open conversation whose first turn, asked `prompt`, tells an event and goes on until a message came.

        The turns after it succeed. Where it is the prompt that decides, a scene with the prompts of these turns.
        """
        raise NotImplementedError

    def make_conversation(self) -> Conversation:
        """The steerable one, if turns that nobody steers end by themselves; implement it otherwise."""
        raise NotImplementedError

    def steered(self) -> tuple[SteerableConversation, TurnResult, list[AgentEvent]]:
        """A conversation whose first turn was steered, the result of that turn, and its events."""
        conversation, turning, _ = self._steered()
        return conversation, turning.result(), turning.events

    def _steerable(self) -> tuple[SteerableConversation, Sequence[str]]:
        made = self.make_steerable_conversation()
        scene = made if isinstance(made, Scene) else Scene(made)
        conversation = self.opened(scene.conversation)
        assert isinstance(conversation, SteerableConversation), "it has no steer(text)"
        return conversation, [*scene.prompts, self.prompt, self.prompt]

    def _steered(self) -> tuple[SteerableConversation, Turning, str]:
        conversation, (prompt, then, *_) = self._steerable()
        turning = Turning(conversation, TurnRequest(prompt), self.limit).begun()
        try:
            conversation.steer(MESSAGE)
        except NoRunningTurnError as error:
            raise AssertionError(
                "no message was taken into the first turn of make_steerable_conversation, which goes on until one came"
            ) from error
        return conversation, turning, then

    def test_it_is_known_for_steerable(self) -> None:
        self._steerable()

    def test_steering_an_idle_conversation_raises(self) -> None:
        conversation, _ = self._steerable()
        with pytest.raises(NoRunningTurnError):
            conversation.steer(MESSAGE)

    def test_a_steer_during_a_turn_leaves_one_ordinary_result(self) -> None:
        conversation, result, _ = self.steered()
        assert not result.interrupted
        assert result.session_id == conversation.conversation_id

    def test_steer_events_name_the_text_and_delivery_comes_first(self) -> None:
        _, _, events = self.steered()
        told = [event for event in events if isinstance(event, SteerDelivered | SteerConsumed | SteerRejected)]
        assert told
        assert isinstance(told[0], SteerDelivered)
        assert [event.text for event in told] == [MESSAGE] * len(told)

    def test_a_steer_does_not_leak_into_the_next_turn(self) -> None:
        conversation, turning, prompt = self._steered()
        turning.result()
        turning = Turning(conversation, TurnRequest(prompt), self.limit)
        assert not turning.result().interrupted
        assert not [
            event for event in turning.events if isinstance(event, SteerDelivered | SteerConsumed | SteerRejected)
        ]

    def test_steering_after_the_turn_ended_raises(self) -> None:
        conversation, _, _ = self.steered()
        with pytest.raises(NoRunningTurnError):
            conversation.steer(MESSAGE)

    def test_steering_a_closed_conversation_raises(self) -> None:
        conversation, _, _ = self.steered()
        conversation.close()
        with pytest.raises(NoRunningTurnError):
            conversation.steer(MESSAGE)
