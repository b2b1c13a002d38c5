"""Agent sessions that are asked or answer what is long, odd or missing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support.party import wait_until

from .conftest import Sessions, Steps

LONG = 5_000_000
"""Characters of an answer that no letter carries, whose ceiling are 4 MiB."""


def said(answer: str) -> Steps:
    return [{"say": answer}]


def test_an_answer_that_no_letter_carries_is_given_all_the_same(sessions: Sessions) -> None:
    sessions.begin(up=False)
    answers = "y" * LONG, "z" * LONG, "short"
    turns = "".join(f"[[turn]]\nsteps = [{{ say = '{answer}' }}]\n" for answer in answers)
    (sessions.party.root / "long.toml").write_text(turns)
    config = sessions.party.root / "party.toml"
    config.write_text(config.read_text().replace("script = []", 'script = "long.toml"'))
    sessions.party.up()
    assert sessions.send("a").stdout == "y" * LONG + "\n"
    document = sessions.ask("b")
    assert (document["answer"], document["state"], "shortened" in document) == ("z" * LONG, "answered", False)
    [session] = sessions.party.status()["sessions"]
    last = session["last_turn"]
    assert (session["state"], last["state"], "answer" in last) == ("idle", "answered", False)
    assert sessions.standing("s")["last_turn"]["answer"] == "z" * LONG
    assert sessions.ask("c")["answer"] == "short"


def test_a_prompt_in_no_encoding_is_asked_and_shown(sessions: Sessions) -> None:
    sessions.begin(said("so"))
    assert sessions.send("a\udcffb").stdout == "so\n"
    assert [answer for _, _, answer in sessions.turns()] == ["so"]
    assert "so" in sessions.party.run("sessions", "turns", "s").stdout


@pytest.mark.parametrize("timeout", ["inf", "nan", "0", "-1", "1e999"])
def test_a_time_that_is_no_time_is_wrong_usage(sessions: Sessions, timeout: str) -> None:
    sessions.begin(said("so"), up=False)
    done = sessions.send("a", "--timeout", timeout)
    assert (done.returncode, "Invalid value for '--timeout'" in done.stderr) == (2, True)


@pytest.mark.parametrize("verb", ["send", "steer"])
def test_a_process_without_stdin_has_nothing_to_say(sessions: Sessions, verb: str) -> None:
    sessions.begin(said("so"), up=False)
    closed = ["/bin/sh", "-c", 'exec "$0" -m partyctl "$@" <&-', sys.executable, verb, "s", "-"]
    done = subprocess.run(
        closed, env=sessions.party.environment, cwd=sessions.party.root, capture_output=True, text=True
    )
    assert (done.returncode, "There is nothing to" in done.stderr) == (2, True), done.stderr


def test_a_session_whose_plugin_does_not_load_is_none(sessions: Sessions) -> None:
    sessions.begin(said("so"))
    config = sessions.party.root / "party.toml"
    config.write_text(config.read_text().replace('provider = "scripted"', 'provider = "raises"'))
    done = sessions.send("a")
    assert (done.returncode, "could not be loaded" in done.stderr) == (1, True)
    listed = json.loads(sessions.party.run("sessions", "list", "--json").stdout)
    assert listed["sessions"] == []
    config.write_text(config.read_text().replace('provider = "raises"', 'provider = "scripted"'))
    assert sessions.ask("a")["answer"] == "so"


def test_a_limit_that_ends_in_milliseconds_is_told(sessions: Sessions) -> None:
    sessions.begin([{"fail": {"kind": "usage_limit", "resets_at": 1.9e12}}])
    assert sessions.send("a").returncode == 1
    assert (sessions.standing("s")["state"], sessions.party.status()["sessions"][0]["state"]) == ("limited", "limited")


def test_the_state_directory_is_removed_while_the_party_is_up(sessions: Sessions) -> None:
    sessions.begin(said("one"), said("two"))
    assert sessions.ask("a")["answer"] == "one"
    shutil.rmtree(sessions.party.root / "state" / "partyctl" / "default" / "sessions")
    done = sessions.send("b", "--role", "Helper")
    assert (done.returncode, "removed or replaced while it was in use" in done.stderr) == (1, True)
    assert sessions.party.run("down").returncode == 0
    sessions.party.up()
    assert sessions.ask("b")["answer"] == "two"


def test_what_is_taken_back_before_it_began_is_not_asked(sessions: Sessions) -> None:
    sessions.begin(said("one"))
    launcher = sessions.party.status()["launcher"]["pid"]
    os.kill(launcher, signal.SIGSTOP)
    try:
        sending = sessions.party.start("send", "s", "a", "--role", "Helper")
        about = sessions.party.root / "state" / "partyctl" / "default" / "sessions" / "about" / "s.msgpack"
        wait_until(about.exists, 20, "the session is begun, and waits for its worker")
        sending.send_signal(signal.SIGINT)
        time.sleep(0.5)
    finally:
        os.kill(launcher, signal.SIGCONT)
    sending.communicate(timeout=20)
    assert (sending.returncode, sessions.turns()) == (130, [])
    assert sessions.ask("b")["answer"] == "one"


def test_a_node_that_says_nothing_is_not_waited_for_without_end(sessions: Sessions) -> None:
    sessions.begin(said("one"), [{"think": 1}, {"say": "late"}])
    assert sessions.ask("a")["answer"] == "one"
    impatient = sessions.party.root / "impatient.py"
    impatient.write_text(
        "import sys, partyctl.following\n"
        "partyctl.following.ANSWER_LIMIT = 0.5\n"
        "from partyctl.cli.root import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    node = sessions.node()
    os.kill(node, signal.SIGSTOP)
    try:
        for order in (("interrupt", "s"), ("send", "s", "b")):
            asking = sessions.party.start(*order, program=str(impatient))
            _, err = asking.communicate(timeout=20)
            assert (asking.returncode, "node/0 did not answer within 0.5 s" in err) == (1, True), err
    finally:
        os.kill(node, signal.SIGCONT)
    assert sessions.ask("c")["answer"] == "late"
    assert [state for _, state, _ in sessions.turns()] == ["answered", "answered"]
