"""Agent sessions of a party, over the command line: what goes on, what ends, and what is told."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
import time

import psutil
import pytest
from support.party import wait_until

from partyctl_base.process import is_alive

from .conftest import Sessions, Steps

HANG: Steps = [{"say": "thinking"}, {"hang": True}]


def said(answer: str) -> Steps:
    return [{"say": answer}]


def test_one_conversation_goes_on_over_sends_and_over_down_and_up(sessions: Sessions) -> None:
    sessions.begin(said("one"), said("two"), said("three"))
    first, second = sessions.ask("a"), sessions.ask("b")
    assert (first["answer"], second["answer"]) == ("one", "two")
    assert (first["conversation"], second["continuity"]) == (second["conversation"], "continued")
    assert sessions.party.run("down").returncode == 0
    assert sessions.standing("s")["state"] == "idle"
    assert sessions.turns() == [("a", "answered", "one"), ("b", "answered", "two")]
    sessions.party.up()
    third = sessions.ask("c")
    assert (third["answer"], third["conversation"]) == ("three", first["conversation"])


def test_a_turn_is_interrupted_and_steered_from_another_terminal(sessions: Sessions) -> None:
    sessions.begin(HANG, [{"await_steer": True}, {"say": "steered"}], said("next"))
    sending = sessions.sending("a")
    [told] = sessions.party.status()["sessions"]
    assert (told["state"], told["turns"], told["last_turn"]["state"]) == ("busy", 1, "under way")
    busy = sessions.send("meanwhile")
    assert (busy.returncode, "a turn is under way" in busy.stderr) == (1, True)
    assert sessions.party.run("release", "s").returncode == 1
    other = sessions.party.run("interrupt", "s", "turn-of-another")
    assert (other.returncode, "this turn does not run" in other.stderr) == (1, True)
    assert sessions.party.run("interrupt", "s").returncode == 0
    _, err = sending.communicate(timeout=20)
    assert (sending.returncode, "the turn was interrupted" in err) == (1, True)
    sending = sessions.sending("b")
    assert sessions.party.run("steer", "s", "left").returncode == 0
    out, err = sending.communicate(timeout=20)
    assert (sending.returncode, out) == (0, "steered\n")
    assert "message consumed: left" in err
    idle = sessions.party.run("steer", "s", "too late")
    assert (idle.returncode, "no running turn" in idle.stderr) == (1, True)
    assert [state for _, state, _ in sessions.turns()] == ["interrupted", "answered"]
    assert len({sessions.standing("s")["conversation"], sessions.ask("c")["conversation"]}) == 1


def test_ctrl_c_ends_the_turn_and_a_killed_send_does_not(sessions: Sessions) -> None:
    sessions.begin(HANG, [{"say": "so"}, {"think": 1.5}, {"say": "late"}])
    sending = sessions.sending("a")
    sending.send_signal(signal.SIGINT)
    sending.communicate(timeout=20)
    assert sending.returncode == 130
    assert sessions.turns() == [("a", "interrupted", "thinking")]
    sending = sessions.sending("b")
    sending.kill()
    wait_until(lambda: sessions.turns()[1][1:] == ("answered", "late"), 20, "the turn went on")


def test_a_killed_node_costs_its_session_nothing(sessions: Sessions) -> None:
    sessions.begin(said("one"), [{"say": "thinking"}, {"think": 4}, {"say": "late"}], said("three"))
    conversation = sessions.ask("a")["conversation"]
    worker = sessions.worker()
    sending = sessions.sending("b")
    sessions.party.kill(sessions.node())
    out, err = sending.communicate(timeout=40)
    assert (sending.returncode, out) == (0, "late\n"), err
    assert "the turn is looked for at the next" in err
    [taken] = sessions.events("session_taken_up")
    assert taken["fields"]["worker"] == "busy"
    assert sessions.worker() == worker
    assert sessions.ask("c")["conversation"] == conversation
    assert sessions.turns()[1] == ("b", "answered", "late")


def test_an_idle_session_keeps_its_worker_over_the_death_of_its_node(sessions: Sessions) -> None:
    sessions.begin(said("one"), said("two"))
    sessions.ask("a")
    worker, node = sessions.worker(), sessions.node()
    sessions.party.kill(node)
    wait_until(lambda: len(sessions.events("session_taken_up")) == 1, 20, "another node took it up")
    assert sessions.ask("b")["answer"] == "two"
    assert sessions.worker() == worker


def test_a_turn_that_is_lost_in_flight_is_told_and_asked_anew_by_a_person_alone(sessions: Sessions) -> None:
    sessions.begin(said("one"), HANG, said("again"))
    conversation = sessions.ask("a")["conversation"]
    sending = sessions.sending("b")
    worker, node = sessions.worker(), sessions.node()
    sessions.party.kill(node)
    sessions.party.kill(worker)
    _, err = sending.communicate(timeout=40)
    assert (sending.returncode, "lost in flight" in err) == (1, True)
    shown = sessions.standing("s")
    turn = shown["last_turn"]["turn"]
    assert (shown["state"], shown["conversation"]) == ("degraded", conversation)
    assert f"turn {turn} was lost in flight" in shown["why"]
    [decided] = sessions.events("recovery")
    assert (decided["fields"]["rule"], "SIGKILL" in decided["cause"]) == ("lost", True)
    resumed = json.loads(sessions.party.run("resume", "s", "--json").stdout)
    assert resumed["lost"] == [turn]
    assert [state for _, state, _ in sessions.turns()] == ["answered", "lost"]
    again = sessions.party.run("resume", "s", "--again", turn)
    assert (again.returncode, again.stdout) == (0, "again\n"), again.stderr
    assert sessions.turns()[-1] == ("b", "answered", "again")
    answered = json.loads(sessions.party.run("sessions", "show", "s", "--json").stdout)["last_turn"]["turn"]
    refused = sessions.party.run("resume", "s", "--again", answered)
    assert (refused.returncode, "is not asked again" in refused.stderr) == (1, True)
    assert json.loads(sessions.party.run("resume", "s", "--json").stdout)["lost"] == []


def test_a_killed_worker_fails_its_turn_by_the_rules_and_the_decision_is_an_event(sessions: Sessions) -> None:
    sessions.begin(said("one"), HANG, said("three"))
    first = sessions.ask("a")["conversation"]
    sending = sessions.sending("b")
    sessions.party.kill(sessions.worker())
    _, err = sending.communicate(timeout=20)
    assert (sending.returncode, "killed by SIGKILL" in err) == (1, True)
    [decided] = sessions.events("recovery")
    assert (decided["subject"], decided["fields"]["rule"], decided["fields"]["conversation"]) == (
        "s",
        "backstop",
        first,
    )
    assert "killed by SIGKILL" in decided["cause"]
    assert sessions.standing("s")["state"] == "failed"
    assert sessions.ask("c")["conversation"] != first


def test_a_lost_conversation_is_replaced_for_the_same_prompt_and_the_old_one_is_named(sessions: Sessions) -> None:
    sessions.begin(said("one"), [{"refuse_resume": True}], [{"think": 1.5}, {"say": "two"}])
    first = sessions.ask("a")["conversation"]
    sending = sessions.sending("b")
    assert sessions.send("behind it").returncode == 1
    out, err = sending.communicate(timeout=20)
    assert (sending.returncode, out) == (0, "two\n"), err
    assert sessions.turns() == [("a", "answered", "one"), ("b", "answered", "two")]
    [decided] = sessions.events("recovery")
    assert (decided["fields"]["rule"], decided["fields"]["conversation"]) == ("replace", first)
    shown = sessions.standing("s")
    assert (shown["state"], "was answered in a fresh conversation" in shown["why"]) == ("degraded", True)
    assert shown["conversation"] not in (None, first)


def test_a_wait_for_the_next_attempt_is_shown_and_a_person_ends_it(sessions: Sessions) -> None:
    sessions.begin([{"fail": "transient"}], said("two"), role="retry = { delays = [600] }")
    sending = sessions.sending("a", until="waiting")
    shown = sessions.standing("s")
    assert "attempt 2 of turn" in shown["why"]
    assert "the script fails this turn" in shown["why"]
    assert sessions.party.run("resume", "s").returncode == 0
    out, _ = sending.communicate(timeout=20)
    assert (sending.returncode, out) == (0, "two\n")
    assert [event["fields"]["rule"] for event in sessions.events("recovery")] == ["retry", "continue"]


def test_a_usage_limit_is_shown_with_its_end(sessions: Sessions) -> None:
    resets = int(time.time()) + 3600
    sessions.begin([{"fail": {"kind": "usage_limit", "resets_at": resets}}])
    assert sessions.send("a").returncode == 1
    shown = sessions.standing("s")
    assert (shown["state"], shown["why"]) == ("limited", f"until {shown['limited_until']}")
    assert sessions.party.status()["sessions"][0]["state"] == "limited"


def test_a_detached_turn_goes_on_and_is_cut_off_when_its_party_goes_down_at_once(sessions: Sessions) -> None:
    sessions.begin(said("one"), HANG, said("three"))
    conversation = sessions.ask("a")["conversation"]
    detached = sessions.send("b", "--detach")
    assert detached.returncode == 0
    assert sessions.standing("s")["last_turn"]["turn"] == detached.stdout.strip()
    down = sessions.party.run("down", "--now")
    assert (down.returncode, "a turn of session s" in down.stderr) == (0, True)
    assert sessions.turns()[1][:2] == ("b", "interrupted")
    sessions.party.up()
    assert sessions.ask("c")["conversation"] == conversation


def test_a_released_session_has_no_worker_until_it_is_asked_again(sessions: Sessions) -> None:
    sessions.begin(said("one"), said("two"), role="idle_release_after = 600")
    conversation = sessions.ask("a")["conversation"]
    assert sessions.party.run("release", "s").returncode == 0
    assert sessions.party.status()["workers"] == []
    assert sessions.ask("b")["conversation"] == conversation


def test_a_deleted_session_leaves_nothing_and_its_name_begins_anew(sessions: Sessions) -> None:
    sessions.begin(said("secret"), said("two"), said("three"))
    conversation = sessions.ask("a")["conversation"]
    deleted = sessions.party.run("sessions", "delete", "nobody", "s")
    assert (deleted.returncode, deleted.stdout) == (1, "s\n")
    assert "no agent session 'nobody'" in deleted.stderr
    assert sessions.party.status()["workers"] == []
    assert sessions.party.run("sessions", "turns", "s").returncode == 1
    assert [event["subject"] for event in sessions.events("session_deleted")] == ["s"]
    assert sessions.ask("b")["conversation"] != conversation
    assert sessions.turns() == [("b", "answered", "two")]
    sessions.party.run("down")
    deleted = sessions.party.run("sessions", "delete", "s", "--json")
    assert json.loads(deleted.stdout) == {"schema_version": 1, "party": "default", "deleted": ["s"], "errors": []}
    sessions.party.up()
    assert sessions.ask("c")["answer"] == "three"
    assert [prompt for prompt, _, _ in sessions.turns()] == ["c"]


def test_a_session_in_a_turn_is_not_deleted_and_one_that_is_damaged_is(sessions: Sessions) -> None:
    sessions.begin(HANG, said("two"))
    sending = sessions.sending("a")
    refused = sessions.party.run("sessions", "delete", "s")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "cannot be deleted in a turn" in refused.stderr
    assert "partyctl interrupt s" in refused.stderr
    assert sessions.party.run("interrupt", "s").returncode == 0
    sending.communicate(timeout=20)
    sessions.party.run("down")
    [file] = (sessions.party.root / "state").rglob("sessions/turns-*.sqlite")
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE turns SET request = x'80'")
    sessions.party.up()
    for words in (("send", "s", "b"), ("sessions", "turns", "s"), ("sessions", "list")):
        refused = sessions.party.run(*words)
        assert refused.returncode == 1
        assert f"{file}, session s, turn turn-" in refused.stderr
        assert "delete the session and begin it anew" in refused.stderr
    listed = json.loads(sessions.party.run("sessions", "list", "--json").stdout)
    assert (listed["sessions"], len(listed["unread"])) == ([], 1)
    assert sessions.party.run("sessions", "delete", "s").returncode == 0
    assert sessions.ask("b")["answer"] == "two"


def test_a_program_is_told_what_a_person_is(sessions: Sessions) -> None:
    sessions.begin(
        [{"fail": "transient"}], [{"await_steer": True}, {"say": "Steered."}], HANG, role="retry = { delays = [0.1] }"
    )

    def told(*words: str) -> dict[str, object]:
        done = sessions.party.run(*words, "--json")
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        document = json.loads(done.stdout)
        assert document.pop("schema_version") == 1
        return dict(document)

    sending = sessions.party.start("send", "s", "a", "--json")
    wait_until(lambda: sessions.party.run("steer", "s", "Shorter.", "--json").returncode == 0, 20, "it is steered")
    out, _ = sending.communicate(timeout=20)
    answered = json.loads(out)
    assert (answered["answer"], answered["rules"]) == ("Steered.", ["retry"])
    sending = sessions.sending("b")
    turn = sessions.standing("s")["last_turn"]["turn"]
    assert told("interrupt", "s") == {"session": "s", "state": "busy", "turn": turn}
    sending.communicate(timeout=20)
    assert told("release", "s") == {"session": "s", "state": "idle"}
    turns = told("sessions", "turns", "s")["turns"]
    assert isinstance(turns, list)
    assert turns[0] == {key: value for key, value in answered.items() if key not in ("schema_version", "session")} | {
        "prompt": "a"
    }
    assert [(each["state"], each["rules"]) for each in turns] == [("answered", ["retry"]), ("interrupted", [])]
    assert turns[0]["usage"].keys() == {"input_tokens", "output_tokens"}
    heading, *rows = sessions.party.run("sessions", "turns", "s").stdout.splitlines()
    assert heading.split() == ["TURN", "STATE", "RULES", "TOKENS", "TIME", "PROMPT", "ANSWER"]
    assert [row.split()[1:3] for row in rows] == [["answered", "retry"], ["interrupted", "-"]]


def test_a_worker_that_dies_with_nothing_to_do_is_told_and_costs_nothing(sessions: Sessions) -> None:
    sessions.begin(said("one"), said("two"))
    conversation = sessions.ask("a")["conversation"]
    sessions.party.kill(sessions.worker())
    wait_until(lambda: len(sessions.events("worker_died")) == 1, 20, "its death is told")
    [died] = sessions.events("worker_died")
    assert (died["subject"], died["cause"]) == ("s", "killed by SIGKILL")
    assert (sessions.ask("b")["conversation"], sessions.events("recovery")) == (conversation, [])


def test_a_worker_whose_conversation_could_not_be_reopened_is_not_released(sessions: Sessions) -> None:
    (sessions.party.root / "party.toml").write_text(
        '[party]\nnodes = 1\n[roles.Helper]\nprovider = "instant"\npermissions = { mode = "bypass" }\n'
        'approvals = "deny"\noptions = { resumes = false }\n'
    )
    sessions.party.up()
    sessions.ask("a")
    worker = sessions.worker()
    refused = sessions.party.run("release", "s")
    assert (refused.returncode, "cannot reopen a conversation, so the worker stays" in refused.stderr) == (1, True)
    assert (sessions.worker(), sessions.events("session_released")) == (worker, [])


def test_an_idle_session_lets_its_worker_go_by_itself(sessions: Sessions) -> None:
    sessions.begin(said("one"), role="idle_release_after = 0.3")
    sessions.ask("a")
    wait_until(lambda: sessions.party.status()["workers"] == [], 20, "the worker is gone")
    assert [event["subject"] for event in sessions.events("session_released")] == ["s"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("interrupt", "esay"), 1, "there is no agent session 'esay'"),
        (("send", "s", "hello", "--role", "Person"), 7, "role Person is a person's"),
        (("send", "s", "hello", "--role", "Helpr"), 7, "Did you mean 'Helper'?"),
        (("send", "s", " "), 2, "There is nothing to ask"),
        (("send", "../s", "hello"), 2, "cannot name an agent session"),
        (("send", "s", "hello"), 3, "is not running"),
    ],
)
def test_what_cannot_be_is_refused(sessions: Sessions, words: tuple[str, ...], code: int, told: str) -> None:
    sessions.begin(said("one"), up=False)
    refused = sessions.party.run(*words)
    assert (refused.returncode, refused.stdout) == (code, "")
    assert told in refused.stderr


def test_a_session_keeps_its_settings_unless_it_never_came_to_a_conversation(sessions: Sessions) -> None:
    sessions.begin([{"nonsense": 1}])
    refused = sessions.send("a")
    assert (refused.returncode, "nonsense" in refused.stderr) == (1, True)
    sessions.begin(said("one"), said("two"), up=False)
    assert sessions.ask("b")["answer"] == "one"
    sessions.begin(said("other"), said("another"), up=False)
    kept = sessions.send("c")
    assert (kept.returncode, kept.stdout) == (0, "two\n")
    assert "session s keeps the settings that it began with, and role Helper has others now" in kept.stderr
    refused = sessions.send("d", "--role", "Person")
    assert (refused.returncode, "began with role Helper" in refused.stderr) == (7, True)


def test_after_a_killed_party_the_turn_is_over_and_the_conversation_goes_on(sessions: Sessions) -> None:
    sessions.begin(said("one"), HANG, said("three"))
    conversation = sessions.ask("a")["conversation"]
    sending = sessions.sending("b")
    worker = sessions.worker()
    sessions.party.kill(sessions.party.host_pid())
    _, err = sending.communicate(timeout=30)
    assert (sending.returncode, "the host ended meanwhile" in err) == (1, True)
    wait_until(lambda: not is_alive(worker), 20, "the worker is gone")
    sessions.party.up()
    answered = sessions.ask("c")
    assert (answered["answer"], answered["conversation"]) == ("three", conversation)
    # A node that sees the end of its host's channel before that of the host itself has the time to end the turn.
    assert sessions.turns()[1][1] in ("lost", "interrupted")


def test_a_killed_launcher_loses_the_turn_and_nothing_else(sessions: Sessions) -> None:
    sessions.begin(said("one"), HANG, said("three"))
    conversation = sessions.ask("a")["conversation"]
    sending = sessions.sending("b")
    sessions.party.kill(sessions.party.status()["launcher"]["pid"])
    _, err = sending.communicate(timeout=30)
    assert (sending.returncode, "lost in flight" in err) == (1, True)
    assert sessions.ask("c")["conversation"] == conversation
    assert [state for _, state, _ in sessions.turns()] == ["answered", "lost", "answered"]


def test_a_prompt_may_come_from_stdin(sessions: Sessions) -> None:
    sessions.begin(said("one"))
    assert sessions.party.run("send", "s").returncode == 2
    asked = subprocess.run(
        [sys.executable, "-m", "partyctl", "send", "s", "-"], env=sessions.party.environment, cwd=sessions.party.root,
        input="from a pipe", capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (asked.returncode, asked.stdout) == (0, "one\n")
    assert sessions.turns() == [("from a pipe", "answered", "one")]


def test_whoever_waits_hears_what_happened_while_the_node_was_dead(sessions: Sessions) -> None:
    meanwhile: Steps = [{"think": 1.0}, {"tool": "read"}, {"think": 3.0}, {"say": "done"}]
    sessions.begin([{"tool": "begin"}, *meanwhile])
    sending = sessions.sending("a")
    node, host = sessions.node(), psutil.Process(sessions.party.host_pid())
    wait_until(lambda: bool(sessions.party.status()["workers"]), 20, "its worker is at it")
    host.suspend()  # so that nobody starts another node too soon
    try:
        sessions.party.kill(node)
        time.sleep(2.0)
    finally:
        host.resume()
    out, err = sending.communicate(timeout=40)
    assert out == "done\n", err
    assert "uses read" in err
