"""What else can happen to a running party: stopped parts, callers that talk nonsense, starts that are interrupted."""

import os
import signal
import socket
import time

import msgpack
import pytest
from support.party import Party, wait_until

from partyctl.host.tree import STOP_GRACE
from partyctl_base.channel import Channel
from partyctl_base.process import is_alive


def test_status_shows_stopped_parts_within_two_seconds_and_down_ends_them(party: Party) -> None:
    party.up("--nodes", "1")
    before = party.status()
    pids = [before["broker"]["pid"], before["launcher"]["pid"], before["nodes"][0]["pid"]]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    begun = time.monotonic()
    status = party.status()
    took = time.monotonic() - begun
    parts = [status["broker"], status["launcher"], *status["nodes"]]
    assert [part["state"] for part in parts] == ["not responding"] * 3
    # Starting the command takes its time on a busy machine, which is not the host's.
    assert took < 2 + 3
    assert party.run("status", "--check").returncode == 6
    begun = time.monotonic()
    assert party.run("down", "--now").returncode == 0
    # They are woken to hear of it; none of them is waited for until it is killed.
    assert time.monotonic() - begun < STOP_GRACE + 3
    assert not any(is_alive(pid) for pid in pids)


def test_callers_that_talk_nonsense_disturb_nobody(party: Party) -> None:
    party.up("--nodes", "1")
    junk = [b"", b"\xc1", msgpack.packb([]), msgpack.packb({"t": "down", "timeout": "soon"}), b"\x00" * 60_000]
    junk += [msgpack.packb({"t": "down", "timeout": value}) for value in (float("nan"), -1, None, True)]
    for data in junk:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(str(party.runtime / "control.sock"))
        channel = Channel(sock)
        channel.send(msgpack.packb({"t": "hello", "version": 1}), timeout=10)
        assert channel.receive(timeout=10) is not None
        channel.send(data, timeout=10)
        answer = channel.receive(timeout=10)
        assert answer is not None
        assert msgpack.unpackb(answer.data)["t"] == "failed"
        channel.close()
    assert party.status()["state"] == "ready"


def test_a_raw_record_that_is_none_of_ours_ends_only_its_own_conversation(party: Party) -> None:
    party.up("--nodes", "1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(10)
        sock.connect(str(party.runtime / "control.sock"))
        sock.send(b"\x07 what is this")
        assert sock.recv(10) == b""
    assert party.status()["state"] == "ready"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_party_that_is_ended_while_it_starts_leaves_nothing(number: signal.Signals, party: Party) -> None:
    host = party.start("up", "--nodes", "2")
    control = party.runtime / "control.sock"
    wait_until(control.exists, 20, "it is starting")
    host.send_signal(number)
    _, err = host.communicate(timeout=20)
    assert host.returncode == (-9 if number is signal.SIGKILL else 0), err
    assert "Traceback" not in err
    party.up("--nodes", "1")


def test_an_import_that_nobody_waits_for_any_more_is_ended(party: Party) -> None:
    party.up("--nodes", "1")
    file = party.root / "mine.py"
    file.write_text("import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(60)\n")
    run = party.start("run", str(file))
    wait_until((party.root / "begun").exists, 20, "the import has begun")
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=20)
    assert run.returncode == 130
    wait_until(lambda: not party.status()["workers"], 10, "its code host is gone")


def test_a_provider_that_ignores_interrupts_is_gone_soon_after_its_run(party: Party) -> None:
    (party.root / "talk.py").write_text(
        "import partyctl as ap\nA, B = ap.roles('A', 'B')\nclass Hello(ap.Message):\n    text: str\n"
        "protocol = ap.Protocol(ap.send(A, B, Hello))\n"
        "deaf = ap.Agent('scripted', permissions=ap.NativePermissions.bypass(), approvals=ap.ApprovalPolicy.DENY,\n"
        "    options={'script': [[{'ignore_interrupts': True}, {'hang': True}]]})\n"
        "session = ap.Session(protocol, {A: deaf, B: ap.Script([])})\n"
    )
    party.up("--nodes", "1")
    run = party.start("run", "talk.py")
    wait_until(lambda: [w["state"] for w in party.status()["workers"] if w["role"]] == ["busy"], 20, "the turn runs")
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=30)
    assert run.returncode == 130
    wait_until(lambda: not party.status()["workers"], 15, "its worker is gone")
