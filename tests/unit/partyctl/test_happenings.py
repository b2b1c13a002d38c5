"""What of an agent's work is a line of `partyctl events`."""

from partyctl.happenings import Happening, happening
from partyctl_actors.supervision import TakenUp
from partyctl_actors.supervision.policy_commands import Decided, Rule
from partyctl_actors.supervision.policy_events import Found, Outcome
from partyctl_plugins.events import ApprovalDenied, AssistantText, ToolCall


def test_a_tool_a_refused_approval_and_a_decision_are_lines() -> None:
    assert happening(ToolCall("t-1", "read", {"path": "a"})) == Happening("tool", "read", {"args": {"path": "a"}})
    assert happening(ApprovalDenied("command", "rm -rf /")) == Happening(
        "approval_denied", "rm -rf /", {"asked": "command"}
    )
    assert happening(ApprovalDenied("command")) == Happening("approval_denied", "command", {"asked": "command"})
    decided = Decided(Rule.RETRY, "turn-1", Outcome.TRANSIENT, "c-1", 1, 0, False, 0, 1, 0.1, "overloaded")
    line = happening(decided)
    assert line is not None
    assert (line.kind, line.cause) == ("recovery", "overloaded")
    assert line.fields["rule"] == "retry"
    assert line.fields["outcome"] == "transient"
    assert (line.fields["turn"], line.fields["conversation"]) == ("turn-1", "c-1")


def test_what_an_agent_writes_is_none() -> None:
    assert happening(AssistantText("hello")) is None


def test_that_a_session_is_taken_up_tells_what_was_found_and_with_which_turn() -> None:
    taken = TakenUp("Writer", Found.BUSY, "turn-0-a")
    assert happening(taken) == Happening("session_taken_up", "", {"worker": "busy", "turn": "turn-0-a"})
