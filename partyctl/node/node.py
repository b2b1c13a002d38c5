"""The node: takes orders from its host, runs from submitters on the bus, and keeps the code hosts they need.

host -> node    begin {endpoint, principal, secret, party, nodes} · launcher + descriptor · status · stop
                principal {...}
node -> host    ready · status {runs, workers, sessions} · principal {name, claims} · dismiss {name}
submitter -> node   run {run, path, digest, cwd, name, config, resume: "" or the recorded run that is to go on}
                    cancel {run} · session {run, ...}, see sessions.py

A submitter may only ask for the run it was admitted for: the one in its own address, `client/<run>`. What is no order
is answered by failed, if it came from a submitter, and dropped otherwise.
"""

import asyncio
import contextlib
import sys
from collections.abc import Coroutine

from partyctl.errors import HostError
from partyctl.following import CONNECT_LIMIT
from partyctl.maps import Map, pack, shortened, texts, unpack
from partyctl.node.code import CodeHost, Program
from partyctl.node.job import Job, Order
from partyctl.node.pool import CodeHosts
from partyctl.node.sessions import NodeSessions
from partyctl.recorded import Origin, recorded
from partyctl.sessions import Shelf
from partyctl_actors.journals import Archive, MemoryJournal, Record
from partyctl_base.aio import AsyncChannel
from partyctl_base.channel import Channel, ChannelClosed, Received
from partyctl_base.ids import RandomIds
from partyctl_broker.errors import BusError, LetterRefused
from partyctl_broker.peer import ZmqBus
from partyctl_broker.port import Bus, Letter, Mailbox
from partyctl_confinement.client import LauncherClient

LAUNCHER_LIMIT = 10.0
"""Seconds a run waits for a launcher that is being started again."""

ADMIT_LIMIT = 10.0
"""Seconds the host may take to admit a code host."""

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
        self._bus: Bus | None = None
        self._mailbox: Mailbox | None = None
        # Letters that came between the claim of the address and our knowing that we have it.
        self._early: list[Letter] = []
        self._jobs: dict[str, Job] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._code = CodeHosts(self._start_code, self._end_code)
        self._admissions: dict[str, asyncio.Future[Map]] = {}
        self._endpoint = ""
        # Without a party, as in tests, runs are recorded in memory.
        self._party = ""
        self._journal: Archive | None = None
        self._sessions: NodeSessions | None = None

    async def serve(self) -> None:
        """Obey the host until it says stop or closes the channel."""
        try:
            while (received := await self._host.receive()) is not None:
                message = unpack(received.data)
                if message["t"] == "stop":
                    break
                await self._obey(message, received)
        finally:
            await self._stop()

    async def client(self) -> LauncherClient:
        """The launcher's client, waiting for a launcher that is being started again.

        Raises:
            HostError: none came within its limit.
        """
        try:
            async with asyncio.timeout(LAUNCHER_LIMIT):
                while self._launcher is None or self._launcher.is_over:
                    self._launcher_came.clear()
                    await self._launcher_came.wait()
        except TimeoutError:
            raise HostError("there is no launcher", why=f"none came within {LAUNCHER_LIMIT:.0f} s") from None
        return self._launcher

    async def close(self) -> None:
        """Workers end with their supervisors; the launcher is the host's."""

    # --- what the host tells ---

    async def _obey(self, message: Map, received: Received) -> None:
        kind = message["t"]
        if kind == "begin":
            self._spawn(self._begin(message))
        elif kind == "launcher":
            self._take_launcher(received.fds[0])
        elif kind == "status":
            await self._tell(self._status())
        elif kind == "principal":
            admission = self._admissions.get(str(message["name"]))
            if admission is not None and not admission.done():
                admission.set_result(message)

    async def _begin(self, message: Map) -> None:
        secret = message["secret"]
        assert isinstance(secret, bytes)
        self._endpoint = str(message["endpoint"])
        self._party = str(message.get("party", ""))
        try:
            self._bus = await ZmqBus.connect(self._endpoint, str(message["principal"]), secret, timeout=CONNECT_LIMIT)
            self._mailbox = await self._bus.open(self._name, self)
        except BusError as error:
            # Without the bus it is no node. The host hears of its end and starts it again, within its budget.
            print(f"partyctl: {self._name}: {error}", file=sys.stderr, flush=True)
            self._host.close()
        else:
            if self._party:
                self._sessions = NodeSessions(Shelf.of(self._party), self, self._say, self._report)
                self._spawn(self._sessions.take_up(self._name, texts(message.get("nodes")) or [self._name]))
            early, self._early = self._early, []
            for letter in early:
                self.letter(letter)
            await self._tell({"t": "ready"})

    def _take_launcher(self, fd: int) -> None:
        previous, self._launcher = self._launcher, LauncherClient(AsyncChannel(Channel.from_fd(fd)))
        self._launcher_came.set()
        if previous is not None:
            self._spawn(previous.close())

    async def _stop(self) -> None:
        for job in self._jobs.values():
            job.cancel()
        letting_go = asyncio.ensure_future(self._let_go())
        await asyncio.wait((letting_go, *self._running), timeout=STOP_LIMIT)
        await self._code.close()
        for task in self._background:
            task.cancel()
        if self._launcher is not None:
            await self._launcher.close()
        if self._bus is not None:
            await self._bus.close()
        self._host.close()

    async def _let_go(self) -> None:
        if self._sessions is not None:
            await self._sessions.close()

    async def _tell(self, message: Map) -> None:
        with contextlib.suppress(ChannelClosed):
            await self._host.send(pack(message))

    def _status(self) -> Map:
        runs = [
            {"id": job.run, "state": job.state, "roles": job.roles, "waiting_for": job.waiting_for or None}
            for job in self._jobs.values()
        ]
        workers = [worker for job in self._jobs.values() for worker in job.workers] + self._code.workers
        held = self._sessions
        sessions = [] if held is None else held.status()
        workers += [] if held is None else held.workers
        return {"t": "status", "runs": runs, "workers": workers, "sessions": sessions}

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # --- what the bus tells ---

    def letter(self, letter: Letter) -> None:
        """An order from a submitter."""
        kind, _, run = letter.source.partition("/")
        if kind != "client":
            return
        if self._mailbox is None:
            self._early.append(letter)
            return
        try:
            order = unpack(letter.payload)
            if order["run"] != run:
                raise ValueError(f"it is about run {order['run']!r}, and the sender's is {run!r}")
            if order["t"] == "run":
                self._take(order, run, letter.source)
            elif order["t"] == "session" and self._sessions is not None:
                self._sessions.obey(order, letter.source)
            elif order["t"] == "cancel" and run in self._jobs:
                self._jobs[run].cancel()
        except (ValueError, LookupError, TypeError) as error:
            self._refuse(letter.source, f"this is no order for a node: {error!r:.200}")

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        """A submitter has left: nobody owns its runs any more."""
        self.gone(destination, (), why)

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        """A submitter has left: nobody owns its runs any more. Or the bus has: without it this is no node."""
        if address == self._name:
            print(f"partyctl: {self._name}: the bus is gone: {why}", file=sys.stderr, flush=True)
            self._host.close()
        for job in self._jobs.values():
            if job.order.submitter == address:
                job.cancel()

    def link_lost(self, why: str) -> None:
        """The broker is being started again; conductors hear it for themselves and end their runs."""

    # --- runs ---

    def _take(self, order: Map, run: str, submitter: str) -> None:
        assert self._bus is not None
        assert self._mailbox is not None
        if run in self._jobs:
            raise ValueError(f"run {run} is under way already")
        name = order.get("name")
        program = Program(str(order["path"]), str(order["digest"]), str(order["cwd"]), str(order["config"]))
        wanted = Order(run, str(name) if name else None, submitter, str(order.get("resume", "")))
        origin = Origin(program.path, wanted.name or "", program.config, program.cwd)

        def record(wished: str | None, protocol: str) -> tuple[str, Record]:
            archive = self._archive()
            run_id = archive.new_id() if wished is None else wished
            opened = archive.open(run_id, protocol, about=origin.about())
            self._spawn(self._happened("run_started", run_id, program.path))
            return run_id, opened

        job = self._jobs[run] = Job(
            wanted,
            self._bus,
            self,
            self._mailbox,
            lambda: self._code.lend(program),
            record,
            self._archive,
            self._report,
        )
        task = job.start()
        self._running.add(task)
        task.add_done_callback(lambda task: self._ended(run, task))

    def _archive(self) -> Archive:
        """Where runs are recorded; opened when the first one is, so that a full disk ends runs and not the node."""
        if self._journal is None:
            self._journal = recorded(self._party) if self._party else MemoryJournal()
        return self._journal

    def _ended(self, run: str, task: "asyncio.Task[None]") -> None:
        job = self._jobs.pop(run)
        self._running.discard(task)
        self._spawn(self._happened("run_failed" if job.failure else "run_ended", job.run, job.failure))

    async def _happened(self, kind: str, subject: str, cause: str, fields: Map | None = None) -> None:
        await self._tell({"t": "event", "kind": kind, "subject": subject, "cause": cause, "fields": fields or {}})

    def _report(self, kind: str, subject: str, cause: str, fields: Map) -> None:
        self._spawn(self._happened(kind, subject, cause, fields))

    def _say(self, submitter: str, message: Map) -> None:
        """Say something to a submitter, shortened if no letter carries it; one that has left, or does not read, hears
        nothing."""
        if self._mailbox is not None:
            with contextlib.suppress(BusError):
                try:
                    self._mailbox.send(submitter, pack(message))
                except LetterRefused:
                    self._mailbox.send(submitter, pack(shortened(message)))

    def _refuse(self, submitter: str, why: str) -> None:
        assert self._mailbox is not None
        with contextlib.suppress(BusError):
            self._mailbox.send(submitter, pack({"event": "failed", "error": why, "code": 1}))

    # --- code hosts ---

    async def _start_code(self, program: Program) -> CodeHost:
        principal = self._ids.new_id("code")
        try:
            admission = await self._admitted(principal)
            about: Map = {"endpoint": self._endpoint, "principal": principal, "secret": admission["secret"]}
            return await CodeHost.start(await self.client(), program, about)
        except BaseException:
            self._spawn(self._tell({"t": "dismiss", "name": principal}))
            raise

    async def _admitted(self, principal: str) -> Map:
        admission: asyncio.Future[Map] = asyncio.get_running_loop().create_future()
        self._admissions[principal] = admission
        try:
            async with asyncio.timeout(ADMIT_LIMIT):
                await self._tell({"t": "principal", "name": principal, "claims": ["run/*"]})
                return await admission
        except TimeoutError:
            raise HostError("the host admitted no code host", why=f"no answer within {ADMIT_LIMIT:.0f} s") from None
        finally:
            del self._admissions[principal]

    async def _end_code(self, host: CodeHost) -> None:
        await host.end()
        await self._tell({"t": "dismiss", "name": host.principal})
