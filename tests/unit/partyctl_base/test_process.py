import os
import signal
import subprocess

import pytest

from partyctl_base.process import ProcessIdentity, children, is_alive, set_parent_death_signal, start_time


def test_a_child_is_listed_and_known_by_its_start_until_it_is_gone() -> None:
    child = subprocess.Popen(["sleep", "60"])
    identity = ProcessIdentity.of(child.pid)
    assert identity is not None
    assert child.pid in children(os.getpid())
    assert identity.is_alive()
    child.kill()
    child.wait()
    assert not identity.is_alive()
    assert start_time(child.pid) is None


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(child.pid)
    child.wait()


def test_the_same_pid_at_another_time_or_boot_is_another_process() -> None:
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    assert not ProcessIdentity(me.pid, me.started + 1, me.boot).is_alive()
    assert not ProcessIdentity(me.pid, me.started, "another boot").is_alive()


def test_arming_the_parent_death_signal_for_a_parent_that_is_gone_fails() -> None:
    pid = os.fork()
    if pid == 0:
        try:
            set_parent_death_signal(signal.SIGKILL, parent=1 << 30)
        except ProcessLookupError:
            os._exit(7)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 7


def test_there_is_no_identity_of_nobody() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert ProcessIdentity.of(child.pid) is None
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)
