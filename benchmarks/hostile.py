"""What hostile peers cost the others: round trips of a sound pair, alone and beside an attack: `python -m
benchmarks.hostile [--attack NAME ...]`.

Each attack meets a broker of its own in each round; the pair measures once alone and once beside it. `memory MiB` is
how much the broker grew at most, looked at every 5 ms. An attack is a process of its own, of
tests/fakes/hostile_peers.py, and gets the processor time that nobody else wants (SCHED_IDLE): what is measured is the
broker, not how the kernel deals with a process that computes. `busy` does nothing but that, and shows what is left of
it; nothing is expected of it.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast

from benchmarks.broker import PEER, SECRET, broker
from benchmarks.errands import ROOT, Runner, running
from benchmarks.harness import Comparison, Target, parser, run, spread

RATIO_MAX: Final = 2.0
MEMORY_MAX: Final = 32.0
"""MiB."""
TRIPS: Final = 1000
ALONE: Final = "alone"
BUSY: Final = "busy"
ATTACKS: Final = {
    BUSY: "nothing but another process at work",
    "garbage": "a stranger's raw garbage",
    "half_handshakes": "1,000 half handshakes",
    "stranger_endless": "a stranger's endless message",
    "million_messages": "a million tiny messages",
    "million_frames": "a message of a million tiny frames",
    "anothers_address": "letters from another's address",
    "anothers_routing_id": "another's routing id",
    "replayed_hello": "a replayed HELLO",
    "revoked_key": "a revoked key",
    "wrong_version": "a wrong version",
    "claim_without_rule": "claims without a rule",
    "flood": "a flood of letters",
    "flood_of_batches": "a flood of letters to nobody, 32 to a message",
    "flood_of_large": "a flood of letters of 4 MiB to one that does not read",
    "endless": "an endless message of tiny frames",
    "big_endless": "an endless message of frames of 1 MiB",
}
PEERS: Final = ROOT / "tests" / "fakes" / "hostile_peers.py"
SECRETS: Final = {"hostile": b"h" * 32, "sound": b"v" * 32}
"""Of the principals that hostile_peers.py passes for, or speaks in the name of."""
LIMIT: Final = 120
"""Seconds an attack lasts if nobody ends it."""
BURN: Final = "print('ready', flush=True)\nwhile True:\n    pass"


class MemoryWatch(threading.Thread):
    """Samples the resident memory of a process, until stopped."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._statm, self._over = Path(f"/proc/{pid}/statm"), threading.Event()
        self._before = self._peak = self._look()
        self.start()

    def _look(self) -> int:
        return int(self._statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def run(self) -> None:
        """Look, and rest."""
        while not self._over.wait(0.005):
            self._peak = max(self._peak, self._look())

    def stop(self) -> float:
        """The most that it grew, MiB."""
        self._over.set()
        self.join()
        return (self._peak - self._before) / 2**20


class Scene:
    """A broker and a sound pair."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        directory = tempfile.mkdtemp(prefix="pb-", dir="/tmp")
        stack.callback(shutil.rmtree, directory)
        self._path = f"{directory}/broker"
        orders = [{"t": "principal", "name": n, "secret": s, "claims": [f"{n}/*"]} for n, s in SECRETS.items()]
        self._pid, endpoint, _ = stack.enter_context(broker(self._path, orders))
        end = ("far", "near")
        far, self._near = (
            Runner(stack.enter_context(running(PEER, name, endpoint, "local", SECRET.hex(), piped=True)))
            for name in end
        )
        far.read()
        self._near("trips", 300)

    def trips(self) -> Mapping[str, float]:
        """The pair measures."""
        return spread(cast(list[float], self._near("trips", TRIPS)))

    def beside(self, attack: str) -> Mapping[str, float]:
        """The pair measures beside an attack."""
        program = ("-c", BURN) if attack == BUSY else (str(PEERS), attack, self._path, str(LIMIT))
        watch = MemoryWatch(self._pid)
        with subprocess.Popen([sys.executable, *program], stdout=subprocess.PIPE) as process:
            try:
                os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
                if process.stdout is None or not process.stdout.readline():
                    raise SystemExit(f"the attack {attack} failed")
                self._near("trips", 100)
                time.sleep(0.2)
                figures = self.trips()
            finally:
                process.kill()
        return {**figures, "memory MiB": watch.stop()}


class Stage:
    """Has the scene of one attack at a time."""

    def __init__(self) -> None:
        self._attack, self._scene, self._stack = "", cast(Scene | None, None), contextlib.ExitStack()

    def scene(self, attack: str) -> Scene:
        """That of an attack, made when it is first asked for."""
        if self._scene is None or self._attack != attack:
            self.close()
            self._attack, self._scene = attack, Scene(self._stack)
        return self._scene

    def close(self) -> None:
        """End what is there."""
        self._scene = None
        self._stack.close()

    def alone(self, attack: str) -> Mapping[str, float]:
        """The pair alone."""
        return self.scene(attack).trips()

    def beside(self, attack: str) -> Mapping[str, float]:
        """The pair beside the attack."""
        return self.scene(attack).beside(attack)


def comparison(stage: Stage, attack: str) -> Comparison:
    """One attack, and what is expected under it."""
    targets = (Target(attack, "p99 ms", RATIO_MAX, ALONE), Target(attack, "memory MiB", MEMORY_MAX))
    variants = {ALONE: partial(stage.alone, attack), attack: partial(stage.beside, attack)}
    return Comparison(f"{TRIPS} round trips beside {ATTACKS[attack]}", variants, () if attack == BUSY else targets)


@contextlib.contextmanager
def setting(attacks: Sequence[str]) -> Iterator[list[Comparison]]:
    """A round."""
    with contextlib.closing(Stage()) as stage:
        yield [comparison(stage, attack) for attack in attacks]


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    options_parser = parser(__doc__, rounds=5)
    options_parser.add_argument("--attack", nargs="+", choices=[*ATTACKS], default=[*ATTACKS], metavar="NAME")
    options = options_parser.parse_args()
    return run(partial(setting, options.attack), options)


if __name__ == "__main__":
    sys.exit(main())
