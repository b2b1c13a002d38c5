"""The broker as a process: its start, its end, and what it costs when nothing happens."""

import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest


def test_a_stopped_broker_leaves_no_socket(broker):
    assert broker.path.is_socket()
    assert broker.stop() == 0
    assert not broker.path.exists()


def test_a_terminated_broker_leaves_no_socket(broker):
    broker.process.terminate()
    assert broker.wait() == 0
    assert not broker.path.exists()


def test_a_host_that_closes_the_channel_ends_the_broker(broker):
    broker.control.close()
    assert broker.wait() == 0
    assert not broker.path.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_what_a_terminal_sends_is_the_hosts_affair(broker, number):
    broker.process.send_signal(number)
    assert broker.stats()["t"] == "stats"


def test_a_question_with_a_number_is_answered_with_that_number(broker):
    assert "number" not in broker.stats()
    broker.tell(t="stats", number=7)
    assert broker.hear()["number"] == 7


def test_the_broker_dies_with_its_host_within_a_second(unstarted_broker):
    host = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        unstarted_broker.start(host_pid=host.pid)
        host.kill()
        killed = time.monotonic()
        # Not reaped yet: the pidfd speaks as soon as the process has ended.
        assert unstarted_broker.wait() == 0
        assert time.monotonic() - killed < 1.0
        assert not unstarted_broker.path.exists()
    finally:
        host.kill()
        host.wait()


def test_a_broker_whose_host_is_already_dead_does_not_start(unstarted_broker):
    host = subprocess.Popen([sys.executable, "-c", "pass"])
    host.wait()
    with pytest.raises(AssertionError, match="closed its control channel"):
        unstarted_broker.start(host_pid=host.pid)
    assert unstarted_broker.wait() == 0


def test_a_stale_socket_does_not_stop_a_start(broker):
    broker.kill()
    assert broker.path.is_socket()
    broker.control.close()
    broker.start()
    assert broker.stop() == 0
    assert not broker.path.exists()


def test_a_path_that_is_no_socket_is_left_alone_and_named(unstarted_broker, capfd):
    unstarted_broker.path.write_text("somebody's file")
    with pytest.raises(AssertionError, match="closed its control channel"):
        unstarted_broker.start()
    assert unstarted_broker.wait() == 1
    assert unstarted_broker.path.read_text() == "somebody's file"
    message = capfd.readouterr().err
    assert str(unstarted_broker.path) in message
    assert "Traceback" not in message


def test_a_path_that_is_too_long_is_named_with_a_way_out(unstarted_broker, capfd):
    unstarted_broker.endpoint = "ipc:///tmp/" + "x" * 120
    with pytest.raises(AssertionError):
        unstarted_broker.start()
    assert unstarted_broker.wait() == 1
    assert "shorter" in capfd.readouterr().err


def test_the_socket_is_for_its_owner_alone(broker):
    assert broker.path.stat().st_mode & 0o077 == 0


def test_an_idle_broker_uses_next_to_no_processor(broker, peer_process):
    peer_process("run/a")
    process = psutil.Process(broker.process.pid)
    before = sum(process.cpu_times()[:2])
    switches = process.num_ctx_switches().voluntary
    time.sleep(2.0)
    assert sum(process.cpu_times()[:2]) - before <= 0.02
    # The main thread sleeps in epoll without a timeout: nothing wakes it while nothing happens.
    assert process.num_ctx_switches().voluntary - switches <= 5


def test_orders_that_make_no_sense_are_counted_and_change_nothing(broker):
    broker.control.send(b"\xc1 not msgpack")
    broker.tell(t="dance")
    broker.tell(t="principal", name="short", secret=b"x", claims=[])
    broker.tell(t="principal", name="p", secret=b"x" * 32, claims="run/*")
    assert broker.stats()["counts"] == {"order not understood": 4}


def test_descriptors_that_come_with_an_order_are_closed(broker):
    process = psutil.Process(broker.process.pid)
    broker.stats()  # it is in its loop now
    before = process.num_fds()
    with open(os.devnull) as file:
        for _ in range(20):
            broker.control.send(b"\x81\xa1t\xa4nope", [file.fileno()])
    broker.stats()
    assert process.num_fds() == before


def test_a_control_channel_that_carries_nonsense_ends_the_broker(directory, unstarted_broker):
    unstarted_broker.start()
    raw = socket.socket(fileno=unstarted_broker.control.detach())
    unstarted_broker.control = None
    raw.send(b"\x07 a record with an unknown flag")
    assert unstarted_broker.wait() == 0
    raw.close()


def test_a_broker_that_may_have_too_few_descriptors_does_not_start_and_says_what_to_do(tmp_path):
    command = ["prlimit", "--nofile=1000:1000", sys.executable, "-m", "partyctl_broker"]
    command += ["--control-fd", "0", "--endpoint", f"ipc://{tmp_path}/s", "--host-pid", str(os.getpid())]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "1,000 descriptors and needs 4,096" in done.stderr
    assert "ulimit -Hn 4096" in done.stderr
