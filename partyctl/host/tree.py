"""The process tree of one party: broker, launcher and nodes, started in order, watched, restarted within a budget.

    host ─┬─ broker     told: principals (name, secret, claims)
          ├─ launcher   told: one client channel per node (a descriptor)
          └─ node × M   told: where the broker is, its secret, its launcher channel

A child that ends unasked is started again and gets what it was told before; when the budget of restarts is spent the
whole party stops and says which child and why.
"""

import asyncio
import os
import secrets
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path

from partyctl.errors import HostError
from partyctl.host.budget import RestartBudget
from partyctl.host.children import Child, Children
from partyctl.maps import Map, texts, unpack
from partyctl_base.channel import Channel
from partyctl_base.paths import socket_path
from partyctl_confinement.environment import LAUNCHER_ALLOW, scrubbed

START_LIMIT = 20.0
"""Seconds a child may take from its start to saying that it is ready."""

STOP_GRACE = 3.0
"""Seconds a child may take to end after it was asked to."""

WORKER_MODULE = "partyctl_plugins.worker"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who may connect to the broker, and which addresses it may claim."""

    name: str
    claims: tuple[str, ...]
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)


class Tree:
    """Starts, watches and stops the children of a host.

    Args:
        directory: the runtime directory; the broker's socket and the spawn records live there.
        nodes: how many nodes; 0 for a private host, which has a launcher alone.
        report: says a line to the person at the terminal.
        gone: called with the reason when the budget of restarts is spent.
        budget: how often each child may be restarted.
    """

    def __init__(
        self,
        directory: Path,
        nodes: int,
        report: Callable[[str], None],
        gone: Callable[[str], None],
        budget: RestartBudget = RestartBudget(),
    ) -> None:
        self._directory = directory
        self._report = report
        self._gone = gone
        self._children = Children()
        self._budget = budget
        self._budgets: dict[str, RestartBudget] = {}
        self._principals: dict[str, Principal] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._node_names = tuple(f"node/{number}" for number in range(nodes))
        self.living: dict[str, Child] = {}
        self.last_cause: dict[str, str] = {}
        self.waiting: dict[tuple[str, str], asyncio.Future[Map]] = {}

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
        self.records.mkdir(mode=0o700, exist_ok=True)
        if self._node_names:
            await asyncio.gather(self._start_broker(0), self._start_launcher(0))
            await asyncio.gather(*(self._start_node(name, 0) for name in self._node_names))
        else:
            await self._start_launcher(0)

    async def stop(self) -> None:
        """Stop in reverse order: nodes, launcher (with every worker), broker. Afterwards no child is left."""
        self._stopping = True
        nodes = [child for name, child in self.living.items() if name.startswith("node/")]
        await asyncio.gather(*(self._children.end(child, grace=STOP_GRACE) for child in nodes))
        for name in ("launcher", "broker"):
            if name in self.living:
                await self._children.end(self.living[name], grace=STOP_GRACE)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._children.close()
        for leftover in self._directory.glob("broker.sock*"):
            leftover.unlink(missing_ok=True)

    async def admit(self, name: str, claims: tuple[str, ...]) -> Principal:
        """Make a principal known to the broker, with a fresh secret."""
        principal = Principal(name, claims)
        self._principals[name] = principal
        await self._introduce(principal)
        return principal

    async def dismiss(self, name: str) -> None:
        """Forget a principal; its connection, if any, is closed by the broker."""
        if self._principals.pop(name, None) is not None and "broker" in self.living:
            await self.living["broker"].send({"t": "forget", "name": name})

    async def hire_client(self, name: str) -> Channel:
        """A new client of the launcher; the channel returned is the client's end."""
        ours, theirs = Channel.pair()
        await self.living["launcher"].send({"t": "client", "name": name}, [theirs.fileno()])
        theirs.close()
        return ours

    async def ask(self, name: str, question: str, *, limit: float) -> Map | None:
        """Ask a child for `question`; None if it does not answer within `limit` seconds or is not there."""
        child = self.living.get(name)
        if child is None:
            return None
        key = (name, question)
        answer = self.waiting.get(key)
        if answer is None:
            answer = self.waiting[key] = asyncio.get_running_loop().create_future()
            await child.send({"t": question})
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(answer)
        except TimeoutError:
            self.waiting.pop(key, None)
            return None

    def spawn_task(self, work: Coroutine[object, object, None]) -> None:
        """Run `work` until it ends or the tree stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _introduce(self, principal: Principal) -> None:
        if "broker" in self.living:
            claims = list(principal.claims)
            message = {"t": "principal", "name": principal.name, "secret": principal.secret, "claims": claims}
            await self.living["broker"].send(message)

    async def _start_broker(self, restarts: int) -> None:
        await self._launch("broker", "partyctl_broker", ("--endpoint", self.endpoint), restarts)
        for principal in list(self._principals.values()):
            await self._introduce(principal)

    async def _start_launcher(self, restarts: int) -> None:
        arguments = ("--preload", WORKER_MODULE, "--records", str(self.records))
        await self._launch("launcher", "partyctl_confinement", arguments, restarts)
        for name in self._node_names:
            if name in self.living:
                await self._lend_launcher(self.living[name])

    async def _start_node(self, name: str, restarts: int) -> None:
        principal = await self.admit(name, (name, "run/*", "session/*"))
        child = await self._launch(
            name,
            "partyctl.node",
            ("--name", name),
            restarts,
            begin={
                "t": "begin",
                "endpoint": self.endpoint,
                "principal": principal.name,
                "secret": principal.secret,
            },
        )
        await self._lend_launcher(child)

    async def _lend_launcher(self, node: Child) -> None:
        end = await self.hire_client(node.name)
        await node.send({"t": "launcher"}, [end.fileno()])
        end.close()

    async def _launch(
        self, name: str, module: str, arguments: tuple[str, ...], restarts: int, begin: Map | None = None
    ) -> Child:
        # Only nodes see the whole environment: a launcher's memory is every worker's, and holds no secret.
        environment = None if begin else scrubbed(os.environ, LAUNCHER_ALLOW)
        child = self._children.start(name, module, arguments, restarts=restarts, environment=environment)
        self.living[name] = child
        self.spawn_task(self._listen(child))
        self.spawn_task(self._watch(child))
        if begin is not None:
            await child.send(begin)
        ready = asyncio.ensure_future(child.ready.wait())
        await asyncio.wait((ready, child.exited), timeout=START_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if not child.ready.is_set():
            why = describe(child.exited.result()) if child.exited.done() else f"not ready after {START_LIMIT:.0f} s"
            child.kill()
            raise HostError(f"the {name} did not start", why=why)
        return child

    async def _listen(self, child: Child) -> None:
        while (received := await child.channel.receive()) is not None:
            message = unpack(received.data)
            kind = str(message["t"])
            if kind == "ready":
                child.ready.set()
            elif kind == "principal":
                principal = await self.admit(str(message["name"]), tuple(texts(message["claims"])))
                await child.send({"t": "principal", "name": principal.name, "secret": principal.secret})
            elif kind == "dismiss":
                await self.dismiss(str(message["name"]))
            else:
                answer = self.waiting.pop((child.name, kind), None)
                if answer is not None and not answer.done():
                    answer.set_result(message)

    async def _watch(self, child: Child) -> None:
        code = await child.exited
        child.channel.close()
        if self._stopping or not child.ready.is_set():
            return
        self.living.pop(child.name, None)
        cause = describe(code)
        self.last_cause[child.name] = cause
        now = asyncio.get_running_loop().time()
        budget = self._budgets.get(child.name, self._budget).spend(now)
        if budget is None:
            self._gone(f"the {child.name} was restarted too often; last cause: {cause}")
            return
        self._budgets[child.name] = budget
        self._report(f"the {child.name} {cause}; starting it again")
        try:
            await self._start_again(child)
        except HostError as error:
            self._gone(str(error))

    async def _start_again(self, child: Child) -> None:
        restarts = child.restarts + 1
        if child.name == "broker":
            await self._start_broker(restarts)
        elif child.name == "launcher":
            await self._start_launcher(restarts)
        else:
            await self._start_node(child.name, restarts)


def describe(code: int) -> str:
    """How a process ended, from the exit code that `os.waitstatus_to_exitcode` gives."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
