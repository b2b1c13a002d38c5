"""What nobody takes from a worker stays with whoever makes it: no queue of ours grows."""

import re
import textwrap
import time
from pathlib import Path
from typing import Any

from partyctl_base.channel import Channel
from partyctl_plugins.events import AssistantText
from partyctl_plugins.manager import ProviderEntry
from partyctl_plugins.records import Event, Loaded, Opened, Result, decode_report

PIECES, PIECE = 3200, 64 * 1024

FLOODING = f"""
    from partyctl_plugins import hookimpl
    from partyctl_plugins.contract import *
    from partyctl_plugins.events import *

    class Conversation:
        conversation_id = "conv-1"
        def turn(self, request, emit):
            for number in range({PIECES}):
                emit(AssistantText(f"{{number}} ".ljust({PIECE}, "x")))
            return TurnResult(text="done", session_id="conv-1")
        def interrupt(self): ...
        def close(self): ...

    class Transport:
        profile = ProviderProfile("foreign")
        def open(self, spec):
            return Conversation()

    @hookimpl
    def partyctl_transport(kind, options):
        return Transport()
"""


def peak_kib(pid: int) -> int:
    """The most memory that a process has had so far."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


def processor_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def until_it_rests(pid: int) -> None:
    """Wait until the process has used no processor for a while: it can go no further."""
    deadline, before = time.monotonic() + 20, -1
    while (now := processor_ticks(pid)) != before:
        assert time.monotonic() < deadline
        before = now
        time.sleep(0.1)


def test_two_hundred_megabytes_of_events_that_nobody_reads_stay_in_order_and_cost_no_memory(forked: Any) -> None:
    (Path(forked.cwd) / "flooding_plugin.py").write_text(textwrap.dedent(FLOODING))
    forked.load(ProviderEntry("foreign", "flooding_plugin", "foreign-dist", "0.1"))
    forked.receive(Loaded)
    forked.open()
    forked.receive(Opened)
    before = peak_kib(forked.pid)
    forked.turn("turn-1")
    until_it_rests(forked.pid)
    channel: Channel = forked.channel
    for number in range(PIECES):
        received = channel.receive(timeout=20)
        assert received is not None
        report = decode_report(received.data)
        assert isinstance(report, Event)
        assert isinstance(report.event, AssistantText)
        assert report.event.text.startswith(f"{number} ")
    assert forked.receive(Result).result.text == "done"
    assert peak_kib(forked.pid) - before < 16 * 1024
