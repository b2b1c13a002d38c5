"""The node: takes orders from its host, runs from submitters on the bus, and keeps the code hosts they need.

host -> node    begin {endpoint, principal, secret} · launcher + descriptor · status · stop · principal {...}
node -> host    ready · status {runs, workers} · principal {name, claims} · dismiss {name}
submitter -> node   run {path, digest, cwd, name, config} · cancel
"""

import asyncio
import contextlib

from partyctl.errors import HostError
from partyctl.maps import Map, pack, unpack
from partyctl.node.code import CodeHost, Program
from partyctl.node.job import Job, Order
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel, ChannelClosed
from partyctl_base.ids import RandomIds
from partyctl_broker.peer import ZmqBus
from partyctl_broker.port import Letter, Mailbox
from partyctl_confinement.client import LauncherClient

LAUNCHER_LIMIT = 10.0
"""Seconds a run waits for a launcher that is being started again."""

STOP_LIMIT = 2.0
"""Seconds the runs get to end when the node stops."""


class Node:
    """One node. A `WorkerSource` for its supervisors, a `Receiver` of its mailbox."""

    def __init__(self, name: str, host: AsyncChannel) -> None:
        self._name = name
        self._host = host
        self._ids = RandomIds()
        self._launcher: LauncherClient | None = None
        self._launcher_came = asyncio.Event()
        self._bus: ZmqBus | None = None
        self._mailbox: Mailbox | None = None
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._code: dict[Program, asyncio.Task[CodeHost]] = {}
        self._admissions: dict[str, asyncio.Future[Map]] = {}
        self._endpoint = ""

    async def serve(self) -> None:
        """Obey the host until it says stop or closes the channel."""
        beginning: asyncio.Task[None] | None = None
        while (received := await self._host.receive()) is not None:
            message = unpack(received.data)
            kind = message["t"]
            if kind == "begin":
                beginning = asyncio.get_running_loop().create_task(self._begin(message))
            elif kind == "launcher":
                self._take_launcher(received.fds[0])
            elif kind == "status":
                await self._tell(self._status())
            elif kind == "principal":
                self._admissions.pop(str(message["name"])).set_result(message)
            elif kind == "stop":
                break
        if beginning is not None:
            beginning.cancel()
        await self._stop()

    async def client(self) -> LauncherClient:
        """The launcher's client, waiting for a launcher that is being started again.

        Raises:
            HostError: none came within its limit.
        """
        try:
            async with asyncio.timeout(LAUNCHER_LIMIT):
                await self._launcher_came.wait()
        except TimeoutError:
            raise HostError("there is no launcher", why=f"none came within {LAUNCHER_LIMIT:.0f} s") from None
        assert self._launcher is not None
        return self._launcher

    async def close(self) -> None:
        """Workers end with their supervisors; the launcher is the host's."""

    async def _begin(self, message: Map) -> None:
        secret = message["secret"]
        assert isinstance(secret, bytes)
        self._endpoint = str(message["endpoint"])
        self._bus = await ZmqBus.connect(self._endpoint, str(message["principal"]), secret)
        self._mailbox = await self._bus.open(self._name, self)
        await self._tell({"t": "ready"})

    def _take_launcher(self, fd: int) -> None:
        previous, self._launcher = self._launcher, LauncherClient(AsyncChannel(Channel.from_fd(fd)))
        self._launcher_came.set()
        if previous is not None:
            task = asyncio.get_running_loop().create_task(previous.close())
            self._tasks[self._ids.new_id("close")] = task

    async def _stop(self) -> None:
        tasks = [*self._tasks.values(), *self._code.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_LIMIT)
        if self._launcher is not None:
            await self._launcher.close()
        if self._bus is not None:
            await self._bus.close()
        self._host.close()

    async def _tell(self, message: Map) -> None:
        with contextlib.suppress(ChannelClosed):
            await self._host.send(pack(message))

    def _status(self) -> Map:
        runs = [{"id": job.order.run, "state": job.state, "roles": job.roles} for job in self._jobs.values()]
        workers = [worker for job in self._jobs.values() for worker in job.workers]
        return {"t": "status", "runs": runs, "workers": workers}

    # --- what the bus tells ---

    def letter(self, letter: Letter) -> None:
        """An order from a submitter."""
        order = unpack(letter.payload)
        run = str(order.get("run"))
        if order.get("t") == "run" and run not in self._jobs:
            self._take(order, run, letter.source)
        elif order.get("t") == "cancel":
            self._cancel(run, letter.source)

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        """A submitter has left: nobody owns its runs any more."""
        self.gone(destination, (), why)

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        """A submitter has left: nobody owns its runs any more."""
        for run, job in self._jobs.items():
            if job.order.submitter == address:
                self._tasks[run].cancel()

    def link_lost(self, why: str) -> None:
        """The broker is being started again; conductors hear it for themselves and end their runs."""

    # --- runs ---

    def _take(self, order: Map, run: str, submitter: str) -> None:
        assert self._bus is not None
        assert self._mailbox is not None
        name = order.get("name")
        program = Program(str(order["path"]), str(order["digest"]), str(order["cwd"]), str(order["config"]))
        wanted = Order(run, str(name) if name else None, submitter)
        job = Job(wanted, self._bus, self, self._mailbox, lambda: self._code_host(program))
        self._jobs[run] = job
        task = asyncio.get_running_loop().create_task(job.run())
        self._tasks[run] = task
        task.add_done_callback(lambda _: self._ended(run, program))

    def _cancel(self, run: str, submitter: str) -> None:
        job = self._jobs.get(run)
        if job is not None and job.order.submitter == submitter:
            self._tasks[run].cancel()

    def _ended(self, run: str, program: Program) -> None:
        self._jobs.pop(run, None)
        self._tasks.pop(run, None)
        starting = self._code.get(program)
        idle = starting is not None and starting.done() and (starting.cancelled() or not _lives(starting))
        if starting is not None and idle:
            del self._code[program]
            if not starting.cancelled() and starting.exception() is None:
                self._tasks[run] = asyncio.get_running_loop().create_task(self._dismiss(starting.result(), run))

    async def _code_host(self, program: Program) -> CodeHost:
        starting = self._code.get(program)
        if starting is None:
            starting = self._code[program] = asyncio.get_running_loop().create_task(self._start_code(program))
        return await asyncio.shield(starting)

    async def _start_code(self, program: Program) -> CodeHost:
        name = self._ids.new_id("code")
        admitted = self._admissions[name] = asyncio.get_running_loop().create_future()
        await self._tell({"t": "principal", "name": name, "claims": ["run/*"]})
        admission = await admitted
        about = {"endpoint": self._endpoint, "principal": name, "secret": admission["secret"]}
        return await CodeHost.start(await self.client(), program, about)

    async def _dismiss(self, host: CodeHost, key: str) -> None:
        try:
            await host.end()
            await self._tell({"t": "dismiss", "name": host.principal})
        finally:
            self._tasks.pop(key, None)


def _lives(starting: "asyncio.Task[CodeHost]") -> bool:
    return starting.exception() is None and bool(starting.result().runs)
