"""What whoever asks a node about an agent session hears, and what that means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from fakes.quiet import quietly

from partyctl.asking import Asker
from partyctl.cli.asked import decided_line, said_line
from partyctl.errors import HostError, RunFailed
from partyctl.following import Entry, NodeGone
from partyctl.maps import Map, pack
from partyctl_broker.port import Letter

NODE = "node/0"
ENTRY = Entry("ask-1", NODE, "client/ask-1", "ipc://x", "client/ask-1", b"")


def order(doing: str) -> Map:
    return {"t": "session", "run": "ask-1", "session": "s", "do": doing, "prompt": "?"}


def heard(
    *payloads: bytes | Map, source: str = NODE, doing: str = "send", then: Callable[[Asker], None] | None = None,
    show: Callable[[Map], None] | None = None,
) -> tuple[list[Map], object]:  # fmt: skip
    """What was shown, and the last word: a message, an error, or "waiting"."""

    async def hear() -> tuple[list[Map], object]:
        shown: list[Map] = []
        asker = Asker(ENTRY, order(doing), show or shown.append)
        for payload in payloads:
            data = payload if isinstance(payload, bytes) else pack(payload)
            asker.letter(Letter(source, "client/ask-1", data))
        if then is not None:
            then(asker)
        if not asker.over.done():
            return shown, "waiting"
        return shown, asker.over.exception() or asker.over.result()

    return quietly(hear())


TURN: Map = {"event": "turn", "turn": "t-1"}
ENDED: Map = {"event": "ended", "turn": "t-1", "answer": "yes"}


def test_what_happens_is_shown_and_the_last_word_is_not() -> None:
    said: Map = {"event": "said", "said": {"type": "ToolCall"}}
    assert heard(TURN, said, ENDED) == ([TURN, said], ENDED)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x90", pack({}), pack({"event": 3})])
def test_what_is_no_message_of_a_node_is_dropped(payload: bytes) -> None:
    assert heard(payload) == ([], "waiting")


def test_others_than_the_node_are_not_heard() -> None:
    assert heard(ENDED, source="node/1") == ([], "waiting")


def test_a_failure_has_the_exit_code_it_had_there() -> None:
    _, error = heard({"event": "failed", "error": "no", "code": 7})
    assert isinstance(error, RunFailed)
    assert (str(error), error.code) == ("no", 7)
    _, error = heard({"event": "failed", "error": "no"})
    assert isinstance(error, RunFailed)
    assert error.code == 1


def test_the_last_word_of_another_order_is_not_taken_for_that_of_the_turn() -> None:
    interrupted: Map = {"event": "ended", "do": "interrupt", "turn": "t-1"}
    assert heard(TURN, interrupted) == ([TURN], "waiting")
    assert heard(interrupted, doing="interrupt") == ([], interrupted)


def test_what_cannot_be_shown_ends_it() -> None:
    def full(event: Map) -> None:
        raise OSError("disk full")

    _, error = heard(TURN, ENDED, show=full)
    assert isinstance(error, OSError)


def test_a_node_that_is_gone_is_told_apart_from_a_broker_and_a_host_that_are() -> None:
    ends: list[Callable[[Asker], None]] = [
        lambda asker: asker.gone(NODE, (), "killed"),
        lambda asker: asker.undelivered(1, NODE, "nobody there"),
        lambda asker: asker.gone("client/ask-1", (), "gave up"),
        lambda asker: asker.host_gone(),
    ]
    errors = [heard(TURN, then=end)[1] for end in ends]
    assert [type(error) for error in errors] == [NodeGone, NodeGone, HostError, HostError]
    assert [error.has_heard for error in errors if isinstance(error, NodeGone)] == [True, False]
    assert heard(ENDED, then=ends[0]) == ([], ENDED)


def test_the_next_node_is_asked_and_that_is_said_once() -> None:
    async def ask() -> list[Map]:
        shown: list[Map] = []
        asker = Asker(ENTRY, order("send"), shown.append)
        asker.letter(Letter(NODE, "client/ask-1", pack(TURN)))
        for _ in range(2):
            asker.gone(NODE, (), "killed")
            error = asker.over.exception()
            assert isinstance(error, NodeGone)
            asker.again(error)
            assert not asker.over.done()
        asker.letter(Letter(NODE, "client/ask-1", pack(ENDED)))
        assert await asyncio.wait_for(asker.over, 1) == ENDED
        return shown

    assert [each["event"] for each in quietly(ask())] == ["turn", "gone"]


def test_the_next_node_is_asked_to_follow_the_turn_and_a_cancelled_asker_ends_it() -> None:
    async def ask() -> None:
        asker = Asker(ENTRY, order("send"), lambda event: None)
        withdrawing = {"t": "session", "run": "ask-1", "session": "s", "turn": "", "do": "withdraw"}
        assert asker.ending() == withdrawing
        asker.letter(Letter(NODE, "client/ask-1", pack(TURN)))
        about = {"t": "session", "run": "ask-1", "session": "s", "turn": "t-1"}
        assert (asker.going_on(), asker.ending()) == ({**about, "do": "follow"}, {**about, "do": "interrupt"})

    quietly(ask())


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ({"type": "ToolCall", "tool": "read", "args": {"path": "ä"}}, 'uses read {"path": "ä"}'),
        ({"type": "ToolResult", "tool": "read"}, "read came back"),
        ({"type": "ToolResult", "tool": "read", "exit_code": 2}, "read came back with status 2"),
        ({"type": "ProviderError", "message": "busy"}, "busy"),
        ({"type": "Stderr", "text": "warning"}, "warning"),
        ({"type": "ApprovalDenied", "kind": "write", "detail": ""}, "was denied write"),
        ({"type": "SteerConsumed", "text": "left"}, "message consumed: left"),
        ({"type": "TurnInterrupted"}, ""),
        ({"type": "AssistantText", "text": "the answer says it"}, ""),
        ({"type": "Unheard"}, ""),
    ],
)
def test_what_a_provider_says_is_a_line_unless_the_answer_says_it(said: Map, line: str) -> None:
    assert said_line(said) == line


def test_a_decision_is_one_line() -> None:
    assert (
        decided_line({"rule": "retry", "cause": "busy\nin detail", "wait": 30.0}) == "retry: busy; next attempt in 30 s"
    )
    assert decided_line({"rule": "continue", "cause": "", "wait": None}) == "continue"
