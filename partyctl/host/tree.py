"""The process tree of one party: broker, launcher and nodes, started in order, watched, restarted within a budget.

    host ─┬─ broker     told: principals (name, secret, claims); where to listen for peers beyond this machine
          ├─ launcher   told: one client channel per node (a descriptor)
          └─ node x M   told: where the broker is, its secret, its launcher channel

A child that ends unasked is started again and gets what it was told before, as its budget of restarts allows
(budget.py). When a node is given up the party goes on without it as long as it has another; when the broker, the
launcher or the last node is, or a child hangs at its start, the whole party stops and says which and why.
"""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from partyctl.errors import HostError
from partyctl.host.budget import Death, Deaths, GiveUp, RestartPolicy
from partyctl.host.children import Child
from partyctl.host.chronicle import NOBODY, Witness, worker_death
from partyctl.host.listening import Listening
from partyctl.host.principals import Principals
from partyctl.maps import Map, texts, unpack
from partyctl_base.channel import Channel
from partyctl_base.paths import socket_path
from partyctl_confinement.environment import LAUNCHER_ALLOW, scrubbed

START_LIMIT = 20.0
"""Seconds a child may take from its start to saying that it is ready."""

STOP_GRACE = 3.0
"""Seconds a child may take to end after it was asked to."""

LAST_WORDS = 0.5
"""Seconds to read what a child that has ended said last."""

USUAL_POLICY = RestartPolicy()

WORKER_MODULE = "partyctl_plugins.worker"


class DiedAtStart(HostError):
    """A child ended before it was ready; `why` says how."""


class Starter(Protocol):
    """Starts the children; see `Children`."""

    def start(
        self, name: str, module: str, arguments: Sequence[str] = (), *, environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start one."""
        ...

    def close(self) -> None:
        """Kill whatever is left."""
        ...


class Tree:
    """Starts, watches and stops the children of a host.

    Args:
        directory: the runtime directory; the broker's socket and the spawn records live there.
        nodes: how many nodes; 0 for a private host, which has a launcher alone.
        children: starts them.
        report: says a line to the person at the terminal.
        gone: called with the part and why it is given up when the party cannot go on.
        policy: how often and how fast a child is started again.
        witness: takes note of what happens to the children, and of what workers print.
        max_workers: how many workers the launcher runs at once; None for its own limit.
        listening: for peers beyond this machine; None for none.

    Attributes:
        node_names: the nodes, in order, whether they live or not.
        living: the children that run or are being started.
        principals: who may connect to the broker.
        restarts: how often each child was started again.
        last_cause: how each child ended last.
        given_up, given_up_at: the children that are not started again, why, and since when, in seconds of the epoch.
    """

    def __init__(
        self,
        directory: Path,
        nodes: int,
        children: Starter,
        report: Callable[[str], None],
        gone: Callable[[str, GiveUp], None],
        policy: RestartPolicy = USUAL_POLICY,
        witness: Witness = NOBODY,
        max_workers: int | None = None,
        listening: Listening | None = None,
    ) -> None:
        self._directory = directory
        self._report = report
        self._gone = gone
        self._children = children
        self._policy = policy
        self._witness = witness
        self._max_workers = max_workers
        self.listening = listening
        self._deaths: dict[str, Deaths] = {}
        self._last_words: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self.node_names = tuple(f"node/{number}" for number in range(nodes))
        self.living: dict[str, Child] = {}
        self.principals = Principals(lambda: self.living.get("broker"))
        self.restarts: dict[str, int] = {}
        self.last_cause: dict[str, str] = {}
        self.given_up: dict[str, GiveUp] = {}
        self.given_up_at: dict[str, float] = {}

    @property
    def endpoint(self) -> str:
        """Where the broker listens."""
        return f"ipc://{socket_path(self._directory, 'broker.sock')}"

    @property
    def records(self) -> Path:
        """Where the launcher keeps a record of each living worker."""
        return self._directory / "spawned"

    async def start(self) -> None:
        """Start everything and wait until all of it is ready.

        Raises:
            HostError: a child did not become ready; names it.
        """
        try:
            self.records.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            why = error.strerror or str(error)
            raise HostError(
                "the records of workers cannot be kept",
                where=str(self.records),
                why=why,
                fix="Make room, or make it writable",
            ) from error
        if self.node_names:
            await asyncio.gather(self._start("broker"), self._start("launcher"))
            await asyncio.gather(*(self._start(name) for name in self.node_names))
        else:
            await self._start("launcher")

    async def stop(self) -> None:
        """Stop in reverse order: nodes, launcher (with every worker), broker. Afterwards no child is left."""
        self._stopping = True
        nodes = [self.living[name] for name in self.node_names if name in self.living]
        await asyncio.gather(*(child.end(grace=STOP_GRACE) for child in nodes))
        for name in ("launcher", "broker"):
            if name in self.living:
                await self.living[name].end(grace=STOP_GRACE)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._children.close()
        for leftover in self._directory.glob("broker.sock*"):
            leftover.unlink(missing_ok=True)

    async def hire_client(self, name: str) -> Channel:
        """A new client of the launcher; the channel returned is the client's end.

        Raises:
            HostError: there is no launcher at the moment.
        """
        launcher = self.living.get("launcher")
        if launcher is None:
            raise HostError("there is no launcher", why=self.last_cause.get("launcher", "it was not started"))
        ours, theirs = Channel.pair()
        try:
            await launcher.send({"t": "client", "name": name}, [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return ours

    async def ask(self, name: str, question: str, *, limit: float) -> Map | None:
        """Ask a child for `question`; None if it does not answer within `limit` seconds or is not there."""
        child = self.living.get(name)
        return None if child is None else await child.ask(question, limit=limit)

    async def caught_up(self, name: str, *, limit: float) -> bool:
        """Whether a child has heard all that it was sent before, within `limit` seconds; False if it is not there."""
        child = self.living.get(name)
        return child is not None and await child.caught_up(limit=limit)

    def spawn_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run `work` until it ends or the tree stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- starting ---

    async def _start(self, name: str) -> None:
        if name == "broker":
            broker = await self._launch(name, "partyctl_broker", ("--endpoint", self.endpoint))
            await self.principals.introduce_all()
            if self.listening is not None:
                await self.listening.begin(broker)
                self.spawn_task(self.listening.insist(broker))
        elif name == "launcher":
            await self._launch(name, "partyctl_confinement", self._launcher_arguments())
            for node in [self.living[node] for node in self.node_names if node in self.living]:
                await self._lend_launcher(node)
        else:
            principal = await self.principals.admit(name, (name, "run/*", "session/*"))
            begin: Map = {"t": "begin", "endpoint": self.endpoint, "principal": name, "secret": principal.secret}
            begin["party"] = self._directory.name
            begin["nodes"] = list(self.node_names)
            await self._lend_launcher(await self._launch(name, "partyctl.node", ("--name", name), begin))

    def _launcher_arguments(self) -> tuple[str, ...]:
        arguments: tuple[str, ...] = ("--preload", WORKER_MODULE, "--records", str(self.records))
        if self._max_workers is not None:
            arguments += ("--max-workers", str(self._max_workers))
        # A private host has no books.
        return (*arguments, "--forward-output") if self.node_names else arguments

    async def _launch(self, name: str, module: str, arguments: tuple[str, ...], begin: Map | None = None) -> Child:
        if self._stopping:
            raise HostError(f"the {name} was not started", why="the party is stopping")
        # Only nodes see the whole environment: a launcher's memory is every worker's, and holds no secret.
        environment = None if begin else scrubbed(os.environ, LAUNCHER_ALLOW)
        child = self.living[name] = self._children.start(name, module, arguments, environment=environment)
        listening = self.spawn_task(self._listen(child))
        self.spawn_task(self._watch(child, listening))
        if begin is not None:
            await child.send(begin)
        ready = asyncio.ensure_future(child.ready.wait())
        try:
            await asyncio.wait((ready, child.exited), timeout=START_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if child.ready.is_set():
            return child
        if child.exited.done():
            # Its last words are still on the channel; a descendant that holds the other end must not keep us.
            await asyncio.wait((listening,), timeout=LAST_WORDS)
            raise DiedAtStart(f"the {name} did not start", why=self._end_of(child))
        child.kill()
        raise HostError(f"the {name} did not start", why=f"not ready after {START_LIMIT:.0f} s")

    async def _lend_launcher(self, node: Child) -> None:
        """Give a node its channel to the launcher; if there is none yet, the node gets it when there is."""
        launcher = self.living.get("launcher")
        if launcher is None or not launcher.ready.is_set() or node.launcher is launcher:
            return
        node.launcher = launcher
        end = await self.hire_client(node.name)
        try:
            await node.send({"t": "launcher"}, [end.fileno()])
        finally:
            end.close()

    # --- watching ---

    async def _listen(self, child: Child) -> None:
        while (received := await child.channel.receive()) is not None:
            for fd in received.fds:
                os.close(fd)
            try:
                await self._hear(child, unpack(received.data))
            except (ValueError, LookupError, TypeError) as error:
                self._report(f"the {child.name} sent what is no message of ours: {error!r:.200}")

    async def _hear(self, child: Child, message: Map) -> None:
        kind = message["t"]
        if kind == "ready":
            child.ready.set()
        elif kind == "principal":
            principal = await self.principals.admit(str(message["name"]), tuple(texts(message["claims"])), child.name)
            await child.send({"t": "principal", "name": principal.name, "secret": principal.secret})
        elif kind == "dismiss":
            await self.principals.dismiss(str(message["name"]))
        elif kind == "event" and child.name == "broker":
            self._witness.happened("noticed", "broker", str(message["what"]))
        elif kind == "event":
            fields = message.get("fields")
            about = {str(key): value for key, value in fields.items()} if isinstance(fields, dict) else {}
            kind, subject, cause = str(message["kind"]), str(message["subject"]), str(message["cause"])
            self._witness.happened(kind, subject, cause, **{**about, "on": child.name})
        elif kind == "failed" and "why" in message:
            self._last_words[child.name] = str(message["why"])
        elif kind in ("output", "dropped"):
            self._witness.printed(message)
        elif kind == "died":
            subject, cause, about = worker_death(message)
            self._witness.happened("worker_died", subject, cause, **about)
        else:
            child.answered(message)

    async def _watch(self, child: Child, listening: "asyncio.Task[None]") -> None:
        await asyncio.wait((child.exited,))
        await asyncio.wait((listening,), timeout=LAST_WORDS)
        child.channel.close()
        if not self._stopping and child.ready.is_set():
            await self._replace(child.name, self._end_of(child))

    def _end_of(self, child: Child) -> str:
        """How it ended and why: what it told us last, or the last line it wrote before it gave up itself."""
        code = child.exited.result()
        why = self._last_words.pop(child.name, "") or (child.last_line() if code > 0 else "")
        return f"{describe(code)}: {why}" if why else describe(code)

    async def _replace(self, name: str, cause: str) -> None:
        self.living.pop(name, None)
        await self.principals.dismiss_all_of(name)
        was_ready = True
        while not self._stopping:
            self.last_cause[name] = cause
            death = Death(asyncio.get_running_loop().time(), cause, was_ready, random.random())
            self._deaths[name], verdict = self._deaths.get(name, Deaths()).step(self._policy, death)
            if isinstance(verdict, GiveUp):
                self._give_up(name, verdict)
                return
            self.restarts[name] = self.restarts.get(name, 0) + 1
            self._report(f"the {name} {cause}; starting it again")
            self._witness.happened("restarted", name, cause, restarts=self.restarts[name], wait=verdict.wait)
            await asyncio.sleep(verdict.wait)
            try:
                await self._start(name)
                return
            except DiedAtStart as error:
                self.living.pop(name, None)
                cause, was_ready = error.why, False
            except HostError as error:
                # It hangs, or there is no room for it: trying again would only take longer.
                if not self._stopping:
                    self._give_up(name, GiveUp(str(error), 1, None, cause))
                return

    def _give_up(self, name: str, verdict: GiveUp) -> None:
        self.living.pop(name, None)
        self.given_up[name] = verdict
        self.given_up_at[name] = time.time()
        self._witness.happened("gave_up", name, verdict.why, **counted(verdict))
        if name in self.node_names and set(self.node_names) - set(self.given_up):
            self._report(f"the {name} is given up, the party goes on without it: {verdict.why}")
        else:
            self._gone(name, verdict)


def counted(verdict: GiveUp) -> Map:
    """What made a give-up one, in numbers and in the words of the last death."""
    return {"deaths": verdict.deaths, "period": verdict.period, "last_cause": verdict.last}


def describe(code: int) -> str:
    """How a process ended, from the exit code that `os.waitstatus_to_exitcode` gives."""
    if code >= 0:
        return f"exited with status {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
