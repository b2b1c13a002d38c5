"""Agent sessions of a party as their files tell them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from partyctl.cli.session_rows import turn_row
from partyctl.errors import NoSuchSession
from partyctl.sessions import (
    WHY_MAX,
    About,
    Shelf,
    Standing,
    TurnView,
    document,
    finished_view,
    is_session_name,
    lost_turns,
    read_state,
    standing,
    turn_view,
)
from partyctl_actors.errors import JournalError
from partyctl_actors.supervision.policy_events import Phase
from partyctl_actors.supervision.policy_state import SessionState, TurnState, to_plain
from partyctl_actors.supervision.spending import Used
from partyctl_actors.supervision.spending import to_plain as used_to_plain
from partyctl_actors.supervision.turn_log import TurnLogs
from partyctl_actors.supervision.turn_shard import TurnRow
from partyctl_plugins.codec import codec
from partyctl_plugins.contract import Continuity, ProviderProfile, ProviderUsage, TokenUsage, Turn, TurnResult

ABOUT = About("essay", "Writer", {"source": "scripted", "env": {"KEY": "x"}}, 30.0, 1_790_000_000.0)
NOW = {"at": 100.0, "epoch": 1_790_000_000.0}
IDLE = SessionState(conversation_id="c-1")


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(lambda: tmp_path / "sessions")


@pytest.mark.parametrize("name", ["essay", "a.b_c-9", "x" * 64])
def test_names_that_sessions_can_have(name: str) -> None:
    assert is_session_name(name)


@pytest.mark.parametrize("name", ["", ".hidden", "../up", "a/b", "a b", "x" * 65, "ä"])
def test_names_that_sessions_cannot_have(name: str, shelf: Shelf) -> None:
    assert not is_session_name(name)
    assert shelf.load(name) is None


def test_who_a_session_is_survives_and_is_its_owners_alone(shelf: Shelf) -> None:
    about = replace(ABOUT, profile=ProviderProfile("scripted", supports_steer=True))
    assert (shelf.names(), shelf.load("essay")) == ([], None)
    shelf.save(ABOUT)
    shelf.save(about)
    assert (shelf.names(), shelf.get("essay")) == (["essay"], about)
    [file] = (shelf.directory / "about").iterdir()
    assert file.stat().st_mode & 0o077 == 0


def test_a_session_that_there_is_not_is_named_with_the_nearest(shelf: Shelf) -> None:
    with pytest.raises(NoSuchSession, match=r"'esay'\. Begin one with"):
        shelf.get("esay")
    shelf.save(ABOUT)
    with pytest.raises(NoSuchSession, match=r"Did you mean 'essay'\?"):
        shelf.get("esay")
    with pytest.raises(NoSuchSession, match="Known are essay"):
        shelf.get("zzz")


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", b"\x81\xa7version\x63"])
def test_a_file_that_is_none_of_ours_is_refused_by_name(shelf: Shelf, data: bytes) -> None:
    shelf.save(ABOUT)
    [file] = (shelf.directory / "about").iterdir()
    file.write_bytes(data)
    with pytest.raises(JournalError, match=r"essay\.msgpack"):
        shelf.load("essay")


@pytest.mark.parametrize(
    ("written", "read", "why"),
    [
        (b"Writer", b"Wroter", "does not have the checksum"),
        (b"scripted", b"scripteD", "does not have the checksum"),
        (b"version\x02", b"version\x01", "its version is 1, and this partyctl reads 2"),
        (b"version\x02", b"version\x63", "its version is 99"),
    ],
)
def test_who_a_session_is_changed_on_the_disk_is_refused_by_file(
    shelf: Shelf, written: bytes, read: bytes, why: str
) -> None:
    shelf.save(ABOUT)
    [file] = (shelf.directory / "about").iterdir()
    file.write_bytes(file.read_bytes().replace(written, read))
    with pytest.raises(JournalError, match=rf"{file}\): .*{why}.*Restore the file from a copy, or delete the session"):
        shelf.load("essay")


def test_a_session_is_deleted_damaged_or_not_and_no_other(shelf: Shelf) -> None:
    with pytest.raises(NoSuchSession):
        shelf.delete("essay")
    shelf.save(ABOUT)
    shelf.save(replace(ABOUT, name="other"))
    logs = TurnLogs(shelf.directory)
    for name in ("essay", "other"):
        logs.open(name).intend("t1", {"prompt": "hi"})
    logs.close()
    (shelf.directory / "about" / "essay.msgpack").write_bytes(b"damaged")
    shelf.delete("essay")
    assert shelf.names() == ["other"]
    assert [len(shelf.look(name).turns) for name in ("essay", "other")] == [0, 1]


def test_a_turn_is_shown_with_what_it_used_and_the_rules_that_were_applied(shelf: Shelf) -> None:
    tokens = TokenUsage(input_tokens=1200, output_tokens=34)
    result = TurnResult("four", usage=ProviderUsage(tokens), duration_ms=2345, cost_usd=0.5)
    outcome = {"finished": codec(Turn).encode(Turn(result, Continuity.CONTINUED, "t")), "rules": ["retry", "renewal"]}
    view = turn_view(TurnRow("t", {"prompt": "2+2"}, outcome), None)
    assert turn_row(view) == ("t", "answered", "retry renewal", "1234", "2.3 s", "2+2", "four")
    document = view.document()
    assert document["usage"] == {"input_tokens": 1200, "output_tokens": 34}
    assert (document["duration_ms"], document["rules"]) == (2345, ["retry", "renewal"])


@pytest.mark.parametrize(
    "ended",
    [
        {"failed": {"type": "TurnFailedError", "message": "no more"}},
        {"failed": {"type": "TurnCancelledError", "message": "ended"}},
        {"finished": codec(Turn).encode(Turn(TurnResult("four", duration_ms=1), Continuity.CONTINUED, "t"))},
    ],
)
def test_a_turn_is_shown_with_what_all_its_attempts_used_and_failed_ones_too(ended: dict[str, object]) -> None:
    outcome = {**ended, "used": used_to_plain(Used(1200, 34, 0.5, 2345))}
    view = turn_view(TurnRow("t", {"prompt": "p"}, outcome), None)
    assert turn_row(view)[3:5] == ("1234", "2.3 s")
    document = view.document()
    assert document["usage"] == {"input_tokens": 1200, "output_tokens": 34}
    assert (document["duration_ms"], document["cost_usd"]) == (2345, 0.5)


def test_what_is_not_known_of_a_turn_is_left_out(shelf: Shelf) -> None:
    outcome = {"failed": {"type": "TurnFailedError", "message": "no more"}, "rules": ["exhausted"]}
    view = turn_view(TurnRow("t", {"prompt": "p"}, outcome), None)
    assert turn_row(view) == ("t", "failed", "exhausted", "", "", "p", "no more")
    assert view.document()["rules"] == ["exhausted"]


def test_looking_at_a_log_takes_it_from_nobody(shelf: Shelf) -> None:
    assert shelf.look("essay").turns == ()
    logs = TurnLogs(shelf.directory)
    log = logs.open("essay")
    log.intend("t-1", {"prompt": "a"}, to_plain(IDLE))
    log.outcome("t-1", {"failed": {"type": "X", "message": "m"}})
    log.intend("t-2", {"prompt": "b"})
    looked = shelf.look("essay")
    assert read_state(looked) == IDLE
    assert looked.turns == (
        TurnRow("t-1", {"prompt": "a"}, {"failed": {"type": "X", "message": "m"}}),
        TurnRow("t-2", {"prompt": "b"}, None),
    )
    log.outcome("t-2", {"failed": {"type": "X", "message": "m"}})
    logs.close()
    assert shelf.look("essay").turns[1].outcome is not None
    assert shelf.look("another").turns == ()


def test_a_database_of_another_program_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    logs = TurnLogs(shelf.directory)
    log = logs.open("essay")
    logs.close()
    del log
    for file in shelf.directory.glob("turns-*.sqlite"):
        file.write_bytes(b"no database" * 1000)
    with pytest.raises(JournalError, match="turns-"):
        shelf.look("essay")


class TestTurns:
    def test_an_answered_turn_has_its_answer(self) -> None:
        turn = Turn(TurnResult("four", duration_ms=3, cost_usd=0.5), Continuity.CONTINUED, "t", "c-1")
        view = finished_view("2+2", turn)
        assert view == TurnView("t", "answered", "2+2", "four", "c-1", "continued", None, 0.5, 3)
        assert (view.document()["answer"], view.document()["why"], view.is_open) == ("four", None, False)

    def test_a_forced_end_is_an_interrupted_turn(self) -> None:
        turn = Turn(TurnResult(interrupted=True), Continuity.CONTINUED, "t", "c-1", forced=True)
        assert finished_view("x", turn).state == "interrupted"

    @pytest.mark.parametrize(
        ("failed", "state"),
        [
            ({"type": "TurnFailedError", "message": "m"}, "failed"),
            ({"type": "TurnCancelledError", "message": "m"}, "interrupted"),
            ({"type": "TurnLostError", "message": "m", "in_flight": True}, "lost"),
            ({"type": "TurnLostError", "message": "m", "in_flight": False}, "not started"),
        ],
    )
    def test_a_failed_turn_says_whether_anybody_knows_what_it_did(self, failed: dict[str, object], state: str) -> None:
        view = turn_view(TurnRow("t", {"prompt": "p"}, {"failed": failed}), None)
        assert (view.state, view.why, view.is_open) == (state, "m", True)
        assert (view.document()["why"], view.document()["answer"]) == ("m", None)

    def test_a_turn_without_outcome_is_under_way_or_lost(self) -> None:
        row = TurnRow("t", {"prompt": "p"}, None)
        assert turn_view(row, "t").state == "under way"
        assert turn_view(row, "another").state == "lost"
        assert turn_view(row, None).state == "lost"


class TestStandings:
    def test_nothing_asked_and_everything_answered_is_idle(self) -> None:
        answered = TurnView("t", "answered", "p", continuity="continued")
        assert standing(None, None, **NOW, is_held=True) == Standing("idle")
        assert standing(IDLE, answered, **NOW, is_held=True) == Standing("idle")
        assert standing(IDLE, replace(answered, state="interrupted"), **NOW, is_held=False) == Standing("idle")

    @pytest.mark.parametrize("phase", [Phase.OPENING, Phase.RUNNING])
    def test_a_turn_at_its_provider_is_busy(self, phase: Phase) -> None:
        state = replace(IDLE, turn=TurnState("t", phase, attempts=2))
        assert standing(state, None, **NOW, is_held=True) == Standing("busy", "attempt 2 of turn t")

    def test_a_wait_says_how_long_and_what_for(self) -> None:
        state = replace(IDLE, turn=TurnState("t", Phase.WAITING, attempts=1, delay=60.0, due=130.0))
        assert standing(state, None, **NOW, is_held=True).why == "attempt 2 of turn t in 30 s"
        assert standing(state, None, **NOW, is_held=True, cause="overloaded").why.endswith("30 s: overloaded")

    @pytest.mark.parametrize("phase", [Phase.OPENING, Phase.RUNNING, Phase.WAITING])
    def test_a_turn_that_no_node_is_at_is_told(self, phase: Phase) -> None:
        state = replace(IDLE, turn=TurnState("t", phase))
        assert standing(state, None, **NOW, is_held=False).word == "degraded"

    def test_a_usage_limit_holds_until_its_end(self) -> None:
        failed = TurnView("t", "failed", "p", why="no more today\nsecond line")
        state = replace(IDLE, limited_until=NOW["epoch"] + 60)
        assert standing(state, failed, **NOW, is_held=True) == Standing("limited", "until 2026-09-21T14:14:20.000Z")
        over = standing(state, failed, at=200.0, epoch=NOW["epoch"] + 61, is_held=True)
        assert over == Standing("failed", "no more today")

    def test_a_long_reason_is_cut(self) -> None:
        failed = TurnView("t", "failed", "p", why="x" * 50_000)
        assert standing(IDLE, failed, **NOW, is_held=True).why == "x" * WHY_MAX + " ..."

    def test_a_lost_turn_and_a_fresh_conversation_are_a_degraded_session(self) -> None:
        lost = TurnView("t", "lost", "p")
        assert "t was lost in flight" in standing(IDLE, lost, **NOW, is_held=True).why
        replaced = TurnView("t", "answered", "p", continuity="replaced")
        assert standing(IDLE, replaced, **NOW, is_held=True).word == "degraded"


def test_a_lost_turn_is_named_until_it_is_asked_anew() -> None:
    asked = [("t1", "lost", "fix a"), ("t2", "lost", "fix b"), ("t3", "answered", "fix a"), ("t4", "lost", "fix c")]
    turns = [TurnView(*each) for each in asked]
    assert lost_turns(turns) == ["t2", "t4"]
    assert lost_turns([*turns, TurnView("t5", "lost", "fix c")]) == ["t2", "t5"]
    assert lost_turns([]) == []


def test_a_session_is_one_document() -> None:
    views = [TurnView("t-1", "answered", "a"), TurnView("t-2", "answered", "b", "yes")]
    state = replace(IDLE, counts={"retry": 2}, stalled=1)
    told = document(ABOUT, state, Standing("idle"), views)
    assert (told["session"], told["role"], told["provider"], told["turns"]) == ("essay", "Writer", "scripted", 2)
    assert (told["counts"], told["stalled"], told["conversation"]) == ({"retry": 2}, 1, "c-1")
    assert told["last_turn"] == views[1].document()
    assert document(ABOUT, None, Standing("idle"), [])["last_turn"] is None
