"""The real Claude Code, a fake provider service, and a network that is loopback and nothing else."""

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from partyctl_plugins.claude import ClaudeStreamTransport
from partyctl_plugins.claude.conversation import ClaudeConversation
from partyctl_plugins.contract import AgentEvent, ApprovalPolicy, ConversationSpec, NativePermissions, TurnRequest

HERE = Path(__file__).parent
SERVICE = HERE.parent / "fakes" / "anthropic_service.py"
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
}
"""Nothing but the API, and no retries of the CLI's own: by default it repeats a 529 for three minutes."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real: installs and drives a real provider CLI (make test-real)")


@pytest.fixture(scope="session")
def claude_binary() -> Path:
    """The installed binary. Comes before the network is cut."""
    done = subprocess.run([sys.executable, HERE / "install_claude.py"], stdout=subprocess.PIPE, text=True, timeout=700)
    assert done.returncode == 0, "Claude Code could not be installed; see the output above"
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def loopback_only(claude_binary: Path) -> Iterator[None]:
    """This thread, and what it starts, in a network namespace of its own with nothing but `lo`."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            why = os.strerror(ctypes.get_errno())
            pytest.fail(f"a network namespace cannot be made here ({why}); run this as root")
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP | IFF_RUNNING))
            yield
        finally:
            assert libc.setns(before, CLONE_NEWNET) == 0
    finally:
        os.close(before)


class Provider:
    """The fake service in its own process, and its log."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "requests.jsonl"
        port = directory / "port"
        self.process = subprocess.Popen(
            [sys.executable, SERVICE, "--port-file", port, "--log", self._log], stdout=subprocess.DEVNULL
        )
        self.wait(port.exists)
        self.url = f"http://127.0.0.1:{port.read_text()}"

    def events(self, kind: str, words: str) -> int:
        """How many log lines of this kind have a prompt with these words."""
        rows = [json.loads(line) for line in self._log.read_text().splitlines()]
        return sum(row["event"] == kind and words in row.get("prompt", "") for row in rows)

    def wait(self, condition: Callable[[], object]) -> None:
        """Until the condition holds, at most 30 s."""
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end, "it did not happen within 30 s"
            time.sleep(0.01)


class Desk:
    """Opens conversations with the real CLI."""

    def __init__(self, directory: Path, binary: Path, provider: Provider) -> None:
        self.provider = provider
        self.events: list[AgentEvent] = []
        self.work = directory / "work"
        self.work.mkdir()
        self._options = {"binary": str(binary)}
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": provider.url,
            "ANTHROPIC_API_KEY": "not-a-key",
            **QUIET,
        }
        self._opened: list[ClaudeConversation] = []

    def open(self, resume: str | None = None) -> ClaudeConversation:
        spec = ConversationSpec(str(self.work), NativePermissions.bypass(), ApprovalPolicy.DENY, resume_id=resume)
        conversation = ClaudeStreamTransport(self._options, environ=self._environ).open(spec)
        self._opened.append(conversation)
        return conversation

    def ask(self, conversation: ClaudeConversation, prompt: str) -> str:
        return conversation.turn(TurnRequest(prompt, timeout=60), self.events.append).text

    def close(self) -> None:
        for conversation in self._opened:
            conversation.close()


@pytest.fixture
def desk(loopback_only: None, claude_binary: Path, tmp_path: Path) -> Iterator[Desk]:
    provider = Provider(tmp_path)
    made = Desk(tmp_path, claude_binary, provider)
    try:
        yield made
    finally:
        made.close()
        provider.process.terminate()
        provider.process.wait(10)
