"""A provider whose turn leaves a child behind that called setsid, forked twice and ignores SIGTERM; then it hangs."""

import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from partyctl_plugins import hookimpl
from partyctl_plugins.contract import ConversationSpec, Emit, ProviderProfile, TransportKind, TurnRequest, TurnResult


class StubbornConversation:
    conversation_id = "stubborn-1"

    def __init__(self, pids: Path) -> None:
        self._pids = pids
        self._over = threading.Event()

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        _leave_a_child(self._pids)
        self._over.wait(120)
        return TurnResult(interrupted=True)

    def interrupt(self) -> None:
        self._over.set()

    def close(self) -> None:
        self._over.set()


class StubbornTransport:
    profile = ProviderProfile("stubborn")

    def __init__(self, pids: Path) -> None:
        self._pids = pids

    def open(self, spec: ConversationSpec) -> StubbornConversation:
        return StubbornConversation(self._pids)


@hookimpl
def partyctl_transport(kind: TransportKind, options: Mapping[str, object]) -> StubbornTransport:
    return StubbornTransport(Path(str(options["pids"])))


def _leave_a_child(pids: Path) -> None:
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with pids.open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(120)
    os._exit(0)
