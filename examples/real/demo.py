"""The real Claude Code as the Writer of the review loop, without a key and without network: `make demo-real`.

Installs the pinned binary by package name, then goes into a network namespace that has loopback alone, starts a fake of
the provider's service there, and runs `review.py` twice: once to its end; once with the binary killed in the middle of
its turn, which must end with an error that says so and leave no process behind.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from partyctl_base.process import children, is_alive, set_child_subreaper

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
FAKE = REPOSITORY / "tests" / "fakes" / "anthropic_service.py"
INSTALL = REPOSITORY / "tests" / "real" / "install_claude.py"
LIMIT = 120.0
"""Seconds that each of the two runs may take."""

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1


def main() -> int:
    """Install, go offline, run twice; the exit status."""
    binary = subprocess.run(
        [sys.executable, str(INSTALL)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    set_child_subreaper()
    enter_loopback_only_network()
    with tempfile.TemporaryDirectory(prefix="partyctl-real-", dir="/tmp") as home:
        service, url = start_service(Path(home))
        environment = offline_environment(Path(home), url, binary)
        try:
            whole(environment)
            cut_off(environment, Path(home), binary)
        finally:
            service.terminate()
            service.wait(timeout=10)
        left = [pid for pid in children(os.getpid()) if is_alive(pid)]
    if left:
        raise SystemExit(f"left running: {left}")
    say("nothing is left running")
    return 0


def say(line: str) -> None:
    """One line about what happens."""
    print(f"demo: {line}", file=sys.stderr, flush=True)


def enter_loopback_only_network() -> None:
    """Move this process, and so all its children, into a new network namespace with loopback up."""
    flags, uid, gid = CLONE_NEWNET, os.getuid(), os.getgid()
    if uid != 0:
        flags |= CLONE_NEWUSER
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        raise SystemExit(f"a network namespace cannot be made here: {os.strerror(ctypes.get_errno())}")
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def start_service(directory: Path) -> tuple[subprocess.Popen[bytes], str]:
    """The fake service and its URL."""
    port_file = directory / "port"
    service = subprocess.Popen(
        [sys.executable, str(FAKE), "--port-file", str(port_file), "--log", str(directory / "service.log")],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while not port_file.exists():
        if time.monotonic() > deadline or service.poll() is not None:
            service.kill()
            raise SystemExit("the fake service did not start")
        time.sleep(0.05)
    return service, f"http://127.0.0.1:{port_file.read_text().strip()}"


def offline_environment(home: Path, url: str, binary: str) -> dict[str, str]:
    """What the program sees: a fresh HOME, a dummy key, the fake's address."""
    return {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "PARTYCTL_RUNTIME_DIR": str(home / "run"),
        "CLAUDE_BINARY": binary,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy",
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }


def start_run(environment: dict[str, str]) -> "subprocess.Popen[str]":
    """`partyctl run` of the review, with its errors to be read."""
    command = [sys.executable, "-m", "partyctl", "run", str(HERE / "review.py")]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def whole(environment: dict[str, str]) -> None:
    """A run to its end."""
    say("first run: to its end")
    run = start_run(environment)
    _, err = run.communicate(timeout=LIMIT)
    sys.stderr.write(err)
    if run.returncode != 0:
        raise SystemExit(f"the first run ended with {run.returncode}")


def cut_off(environment: dict[str, str], home: Path, binary: str) -> None:
    """A run whose binary is killed in the middle of its turn."""
    say("second run: the binary is killed in the middle of its turn")
    task = home / "task.txt"
    task.write_text((HERE / "task.txt").read_text() + "[[stall:60]]\n")
    run = start_run(environment | {"TASK_FILE": str(task)})
    pid = find(run.pid, binary)
    wait_for_request(home / "service.log")
    os.kill(pid, signal.SIGKILL)
    _, err = run.communicate(timeout=LIMIT)
    sys.stderr.write(err)
    if run.returncode != 1 or "SIGKILL" not in err:
        raise SystemExit(f"the second run ended with {run.returncode} and should have said that the CLI was killed")


def find(root: int, binary: str) -> int:
    """The process below `root` that runs `binary`."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        waiting = [root]
        while waiting:
            pid = waiting.pop()
            waiting += children(pid)
            if runs(pid, binary):
                return pid
        time.sleep(0.05)
    raise SystemExit("the binary was not started")


def runs(pid: int, binary: str) -> bool:
    """Whether `pid` runs `binary`."""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", binary)
    except OSError:
        return False


def wait_for_request(log: Path) -> None:
    """Until the service is asked for the answer that it keeps back: the turn has begun."""
    deadline = time.monotonic() + LIMIT
    while "[[stall" not in log.read_text(encoding="utf-8"):
        if time.monotonic() > deadline:
            raise SystemExit("the binary did not ask its service")
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
