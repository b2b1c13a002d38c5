"""A participant that blocks: its deadline holds, and neither the run nor the process waits for it."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, threading, time
from datetime import timedelta
import partyctl as ap

A, B = ap.roles("A", "B")

class Ping(ap.Message):
    pass

def block(offer, heard):
    time.sleep(600)

def answer(request):
    time.sleep(600)

limit = timedelta(milliseconds=100)
ping = ap.Protocol(ap.send(A, B, Ping, within=limit))
back = ap.Protocol(ap.send(A, B, Ping), ap.send(B, A, Ping, within=limit))
for protocol, cast in (
    (ping, {A: block, B: ap.Script([])}),
    (back, {A: ap.Script([Ping()]), B: ap.Machine({Ping: answer})}),
):
    try:
        ap.Session(protocol, cast).run()
    except ap.DeadlineExceeded as error:
        print(error)
print(sorted(thread.name for thread in threading.enumerate() if thread is not threading.main_thread()))
"""


def test_the_deadline_ends_the_run_the_thread_is_named_and_the_process_ends(tmp_path: Path) -> None:
    program = tmp_path / "blocking.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=True)
    first, second, threads = done.stdout.splitlines()
    assert first.startswith("A did not speak in time")
    assert second.startswith("B did not speak in time")
    assert threads == "['partyctl role A', 'partyctl role B']"
    for role in "AB":
        assert f"The thread 'partyctl role {role}' goes on, though nobody waits for what it returns" in done.stderr
