"""What every conversation does: docs/writing-a-transport.md."""

import threading
from typing import ClassVar

import pytest

from partyctl_plugins.contract import (
    AgentEvent,
    AgentSessionError,
    Conversation,
    FailureKind,
    SessionResumeError,
    TurnFailedError,
    TurnRequest,
    TurnTimeoutError,
)
from partyctl_plugins.events import AssistantText, TurnInterrupted
from partyctl_plugins.testing.contracts.stage import Stage, Turning
from partyctl_plugins.testing.scenes import Dies, Fails, Says, Stalls, Streams

ODD = {
    "nothing": "",
    "lines": "one\ntwo\r\nthree\u2028four\x85five\n",
    "controls": "\x00\x1b[31mred\x07",
    "lone surrogates": "\udcff half \ud83d",
    "many scripts": "naïve 漢字 🏳️‍🌈 עברית",
    "frames": '{"type": "result", "is_error": true}\n',
}
"""Answers that have broken parsers."""


class ConversationContract(Stage):
    """Subclass it as `Test...` and implement `make_conversation`, and `make_scene` as far as the provider allows."""

    large: ClassVar[int] = 2_000_000
    """Characters of a large answer, and of a large prompt."""

    def make_conversation(self) -> Conversation:
        """An open conversation whose turns succeed when they are asked `prompt`."""
        raise NotImplementedError

    def conversation(self) -> Conversation:
        """One of `make_conversation`, closed after the check."""
        return self.opened(self.make_conversation())

    # --- turns ---

    def test_a_turn_returns_a_result_and_names_the_conversation(self) -> None:
        conversation = self.conversation()
        result = self.ask(conversation)
        assert isinstance(result.text, str)
        assert not result.interrupted
        assert conversation.conversation_id is not None
        assert result.session_id == conversation.conversation_id

    def test_events_are_emitted_on_the_calling_thread(self) -> None:
        threads: set[int] = set()
        self.conversation().turn(TurnRequest(self.prompt), lambda event: threads.add(threading.get_ident()))
        assert threads <= {threading.get_ident()}

    def test_turns_follow_one_another_in_the_same_conversation(self) -> None:
        conversation = self.conversation()
        first, second = self.ask(conversation), self.ask(conversation)
        assert first.session_id == second.session_id == conversation.conversation_id
        assert second.resumed

    def test_a_large_prompt_is_taken(self) -> None:
        assert not self.ask(self.conversation(), prompt="x" * self.large + "\n" + self.prompt).interrupted

    @pytest.mark.parametrize("mark", ["\udcff", "\x00", "\u2028", "-", "\ufeff"])
    def test_an_odd_prompt_is_taken_or_refused_in_words(self, mark: str) -> None:
        conversation = self.conversation()
        try:
            assert not self.ask(conversation, prompt=f"{mark}\n{self.prompt}").interrupted
        except AgentSessionError:
            assert not self.ask(conversation).interrupted

    def test_a_large_answer_arrives_whole(self) -> None:
        text = "answer " * (self.large // 7)
        assert self.scene(Says(text)).turn().text == text

    @pytest.mark.parametrize("text", ODD.values(), ids=ODD)
    def test_an_odd_answer_arrives_as_it_is(self, text: str) -> None:
        scene = self.scene(Says(text), Says("after"))
        assert scene.turn().text == text
        assert scene.turn().text == "after"

    def test_pieces_of_an_answer_come_in_order(self) -> None:
        pieces = tuple(f"{number} " for number in range(1000))
        turning = self.scene(Streams(pieces)).begin()
        turning.result()
        assert "".join(event.text for event in turning.events if isinstance(event, AssistantText)) == "".join(pieces)

    # --- interrupts ---

    def test_interrupting_an_idle_conversation_does_nothing(self) -> None:
        conversation = self.conversation()
        conversation.interrupt()
        assert not self.ask(conversation).interrupted
        conversation.interrupt()
        assert not self.ask(conversation).interrupted

    def test_an_interrupt_ends_the_running_turn_and_keeps_the_conversation(self) -> None:
        scene = self.scene(Stalls(), Says("after"))
        turning = scene.begin().begun()
        scene.conversation.interrupt()
        assert turning.result().interrupted
        assert TurnInterrupted() in turning.events
        named = scene.conversation.conversation_id
        after = scene.turn()
        assert (after.text, after.interrupted) == ("after", False)
        assert scene.conversation.conversation_id == named

    def test_an_interrupt_may_come_twice(self) -> None:
        scene = self.scene(Stalls(), Says("after"))
        turning = scene.begin().begun()
        scene.conversation.interrupt()
        scene.conversation.interrupt()
        assert turning.result().interrupted
        assert turning.events.count(TurnInterrupted()) == 1
        assert not scene.turn().interrupted

    def test_a_handler_may_interrupt_its_own_turn(self) -> None:
        scene = self.scene(Stalls(), Says("after"))
        turning = Turning(
            scene.conversation, scene.request(), self.limit, on_event=lambda event: scene.conversation.interrupt()
        )
        assert turning.result().interrupted
        assert scene.turn().text == "after"

    # --- closing ---

    def test_close_is_idempotent_and_interrupt_after_close_is_harmless(self) -> None:
        conversation = self.conversation()
        conversation.close()
        conversation.close()
        conversation.interrupt()

    def test_a_turn_after_close_raises_an_error_of_ours(self) -> None:
        conversation = self.conversation()
        conversation.close()
        with pytest.raises(AgentSessionError):
            self.ask(conversation)

    def test_closing_ends_the_running_turn(self) -> None:
        scene = self.scene(Stalls())
        turning = scene.begin().begun()
        scene.conversation.close()
        try:
            result = turning.result()
        except AgentSessionError:
            return
        assert result.interrupted

    def test_a_second_turn_at_once_is_refused(self) -> None:
        scene = self.scene(Stalls())
        turning = scene.begin().begun()
        with pytest.raises(AgentSessionError):
            self.ask(scene.conversation)
        scene.conversation.interrupt()
        assert turning.result().interrupted

    # --- what goes wrong ---

    def test_a_turn_that_takes_too_long_raises_its_timeout_and_keeps_the_conversation(self) -> None:
        scene = self.scene(Stalls(), Says("after"))
        with pytest.raises(TurnTimeoutError) as late:
            scene.turn(timeout=0.2)
        assert late.value.timeout == pytest.approx(0.2)
        assert scene.turn().text == "after"

    @pytest.mark.parametrize("kind", list(FailureKind))
    def test_a_failed_turn_tells_its_kind_and_is_not_tried_again(self, kind: FailureKind) -> None:
        scene = self.scene(Fails(kind), Says("after"))
        with pytest.raises(TurnFailedError) as failed:
            scene.turn()
        assert failed.value.kind is kind
        assert not isinstance(failed.value, SessionResumeError)
        assert scene.turn().text == "after"

    def test_death_in_the_middle_of_a_turn_fails_it_and_only_errors_of_ours_follow(self) -> None:
        scene = self.scene(Dies(), Says("after"))
        with pytest.raises(TurnFailedError):
            scene.turn()
        try:
            result = scene.turn()
        except AgentSessionError:
            return
        assert result.text == "after"

    @pytest.mark.parametrize(
        "mistake",
        [ValueError("the handler's own"), TurnFailedError("so is this", kind=FailureKind.TRANSIENT),
         SessionResumeError(session_id="and this")],
        ids=lambda mistake: type(mistake).__name__,
    )  # fmt: skip
    def test_what_a_handler_raises_reaches_the_caller_and_shifts_no_answer(self, mistake: Exception) -> None:
        scene = self.scene(Says("first"), Says("second"), Says("third"))
        told: list[AgentEvent] = []

        def raising(event: AgentEvent) -> None:
            told.append(event)
            raise mistake

        with pytest.raises(type(mistake)) as raised:
            scene.conversation.turn(scene.request(), raising)
        assert raised.value is mistake
        assert told
        assert [scene.turn().text, scene.turn().text] == ["second", "third"]
