"""The launcher's loop: one thread, no secret, and nobody it waits for.

It hears its host, its clients, its workers' output and their deaths. Requests for workers wait in line and a few are
met in each turn of the loop, so that a burst of them holds up nothing else. A client that does not read loses its
workers, and so does one that is gone; those of agent sessions wait a while for another one (see `kept`). When the host
stops it, closes its channel or dies, it kills all its children with their trees, until there is none, and ends.
"""

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Callable
from typing import Final

from partyctl_base.channel import Channel, ChannelClosed, ChannelFault, Received
from partyctl_confinement import messages, requests
from partyctl_confinement.deaths import ChildDeaths
from partyctl_confinement.errors import SpawnRefused
from partyctl_confinement.forward import Backlog
from partyctl_confinement.kept import UNATTACHED_MAX, AttachRefused, Kept
from partyctl_confinement.nursery import Nursery, Worker
from partyctl_confinement.outbox import Outbox
from partyctl_confinement.reaper import sweep_children
from partyctl_confinement.requests import Attach, BadRequest, Expect, Kill, Leave, ListWorkers, NewClient, Spawn, Stop
from partyctl_confinement.waiting import Waiting

STOP_MAX: Final = 3.0
"""Seconds in which all workers must be gone when the launcher stops, before a last sweep."""

_SOON: Final = 0.003
"""Seconds until the next look while something is dying."""

_TICK: Final = 1.0
"""Seconds between looks for children that came without a signal (a worker's clone with CLONE_PARENT)."""

WORKERS_MAX: Final = 1024
"""Living workers of one launcher, unless its host says otherwise."""

FORKS_AT_ONCE: Final = 4
"""Workers forked in one turn of the loop. A fork takes about a millisecond, and nobody is heard meanwhile."""

_CROWDED: Final = 0.05
"""Seconds until the next look for room when as many workers are starting as may."""

_HOST_BYTES: Final = 16 * 1024 * 1024
_REQUESTS_AT_ONCE: Final = 64
"""Requests of one client before the others have their turn."""


class Peer:
    """A channel that somebody else holds the other end of: the host or a client."""

    def __init__(self, name: str, channel: Channel, outbox: Outbox) -> None:
        self.name = name
        self.channel = channel
        self.outbox = outbox
        self.gone = False


class Launcher:
    """The loop over a control channel.

    Args:
        control: the launcher's end of the host's channel.
        host: a pidfd of the host.
        nursery: the children.
        max_workers: how many may be alive or waiting for their turn.
        output: what workers printed, and how they died, on its way to the host; None: the host does not want it.
        unattached_max: seconds that the worker of an agent session may be without a client.
    """

    def __init__(
        self,
        control: Channel,
        host: int,
        nursery: Nursery,
        *,
        max_workers: int = WORKERS_MAX,
        output: Backlog | None = None,
        unattached_max: float = UNATTACHED_MAX,
    ) -> None:
        self._host = Peer("host", control, Outbox(control, max_records=1024, max_bytes=_HOST_BYTES))
        self._host_pidfd = host
        self._nursery = nursery
        self._max_workers = max_workers
        self._output = output
        self._kept = Kept(unattached_max)
        self._waiting: Waiting[Peer] = Waiting()
        self._selector = selectors.DefaultSelector()
        self._stop_by: float | None = None
        self._died = False
        self._crowded = False

    def run(self) -> None:
        """Serve until the host stops this launcher or is gone, and no child is left."""
        self._watch(self._host.channel.fileno(), lambda events: self._serve(self._host, events))
        self._watch(self._host_pidfd, lambda _: self._stop())
        deaths = ChildDeaths()
        self._watch(deaths.fileno(), lambda _: self._mourn(deaths))
        self._say(self._host, messages.ready(os.getpid()))
        while not self._finished():
            self._await_room()
            pause = self._pause()
            ready = self._selector.select(pause)
            for key, events in ready:
                key.data(events)
            if self._died or self._nursery.busy or (pause and not ready):
                self._died = False
                self._collect()
            self._start_waiting()
            self._end_unattached()
            self._forward()
        sweep_children((), timeout=STOP_MAX)

    def _watch(self, fd: int, call: Callable[[int], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, call)

    def _pause(self) -> float | None:
        if len(self._waiting):
            return _CROWDED if self._crowded else 0.0
        if self._nursery.busy:
            return _SOON
        if not len(self._nursery) and self._stop_by is None:
            return None
        due = self._kept.due()
        return _TICK if due is None else min(_TICK, max(_SOON, due - time.monotonic()))

    def _finished(self) -> bool:
        if self._stop_by is None:
            return False
        return (not len(self._nursery) and not self._nursery.busy) or time.monotonic() > self._stop_by

    def _stop(self) -> None:
        """Begin to end: no more workers, and every worker is killed."""
        if self._stop_by is None:
            self._stop_by = time.monotonic() + STOP_MAX
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._host_pidfd)
            for client in self._waiting.clients():
                for request in self._waiting.drop(client):
                    self._refuse(client, request, "the launcher is stopping")
            for worker in self._nursery:
                self._nursery.kill(worker, "stop")

    # What peers send

    def _serve(self, peer: Peer, events: int) -> None:
        if peer.gone:
            return
        if events & selectors.EVENT_WRITE:
            self._flush(peer)
        if events & selectors.EVENT_READ and not peer.gone:
            try:
                received = peer.channel.receive_ready(_REQUESTS_AT_ONCE)
            except ChannelFault:
                received = None
            if received is None:
                self._lose(peer)
            for message in received or ():
                if not peer.gone:
                    self._obey(peer, message)
                else:
                    _close(message.fds)

    def _obey(self, peer: Peer, message: Received) -> None:
        if peer is self._host:
            self._obey_host(message)
            return
        _close(message.fds)  # no request of a client carries any
        request = requests.parse_client(message.data)
        if isinstance(request, Spawn):
            self._queue(peer, request)
        elif isinstance(request, Kill):
            self._kill(peer, request)
        elif isinstance(request, Attach):
            self._attach(peer, request)
        elif isinstance(request, Expect):
            self._kept.expect(request.label, request.text, time.monotonic())
        elif isinstance(request, Leave):
            self._lose(peer, is_leaving=True)
        else:
            self._say(peer, messages.refused(request))

    def _obey_host(self, message: Received) -> None:
        request = requests.parse_host(message.data)
        if isinstance(request, NewClient) and len(message.fds) == 1:
            self._welcome(request.name, message.fds[0])
            return
        _close(message.fds)
        if isinstance(request, Stop):
            self._stop()
        elif isinstance(request, ListWorkers):
            self._say(self._host, messages.workers([_row(worker) for worker in self._nursery]))
        elif isinstance(request, NewClient):
            bad = BadRequest("a new client needs exactly one descriptor", request="client")
            self._say(self._host, messages.refused(bad))
        else:
            self._say(self._host, messages.refused(request))

    def _welcome(self, name: str, fd: int) -> None:
        try:
            sock = socket.socket(fileno=fd)
        except OSError:
            _close((fd,))
            sock = None
        if sock is None or sock.type != socket.SOCK_SEQPACKET:
            if sock is not None:
                sock.close()
            bad = BadRequest("the new client's descriptor is no seqpacket socket", request="client")
            self._say(self._host, messages.refused(bad))
            return
        channel = Channel(sock, max_message=requests.REQUEST_MAX)
        client = Peer(name, channel, Outbox(channel))
        self._watch(channel.fileno(), lambda events: self._serve(client, events))

    def _queue(self, client: Peer, request: Spawn) -> None:
        alive, waiting = len(self._nursery), len(self._waiting)
        if self._stop_by is not None:
            why = "the launcher is stopping"
        elif request.id in self._waiting:
            why = "a worker of this id is about to start"
        elif alive + waiting >= self._max_workers:
            why = (
                f"there are {alive} workers, {waiting} are about to start, and {self._max_workers} may be; "
                "wait until some end, or raise limits.workers in party.toml"
            )
        else:
            why = self._nursery.impossible(request) or self._waiting.put(client, request)
        if why:
            self._refuse(client, request, why)

    def _start_waiting(self) -> None:
        """Meet a few of the requests that wait."""
        for _ in range(min(FORKS_AT_ONCE, len(self._waiting))):
            if not self._nursery.starting.has_room(time.monotonic()):
                return
            taken = self._waiting.take()
            if taken is not None:
                self._spawn(*taken)

    def _await_room(self) -> None:
        """Watch for workers that come to their main, only while requests wait for it: each wakes the launcher up."""
        starting = self._nursery.starting
        crowded = len(self._waiting) > 0 and not starting.has_room(time.monotonic())
        if crowded and not self._crowded:
            self._watch(starting.fileno(), lambda _: None)
        elif self._crowded and not crowded:
            self._selector.unregister(starting.fileno())
        self._crowded = crowded

    def _spawn(self, client: Peer, request: Spawn) -> None:
        try:
            worker, end = self._nursery.spawn(request, client)
        except SpawnRefused as refusal:
            self._refuse(client, request, str(refusal))
            return
        self._watch(worker.output, lambda _: self._drain(worker))
        try:
            self._kept.add(worker, end)
        except OSError as error:
            os.close(end)
            worker.client = None
            self._nursery.kill(worker, "killed")
            self._refuse(client, request, error.strerror or str(error))
            return
        self._say(client, messages.spawned(worker.id, worker.pid), (end,))

    def _refuse(self, client: Peer, request: Spawn, why: str) -> None:
        self._say(client, messages.refused(BadRequest(why, request.id, "spawn")))

    def _attach(self, client: Peer, request: Attach) -> None:
        try:
            attached = self._kept.attach(request.session, request.epoch, client)
        except (AttachRefused, OSError) as refusal:
            self._say(client, messages.refused(BadRequest(str(refusal), request.id, "attach")))
            return
        if attached is None:
            self._say(client, messages.unknown(request.id))
            return
        worker = attached.worker
        if isinstance(attached.previous, Peer):
            self._say(attached.previous, messages.taken(worker.id))
        self._say(client, messages.attached(request.id, worker.id, worker.pid), (attached.end,))
        if attached.is_gone:
            self._tell_end(client, worker)

    def _end_unattached(self) -> None:
        for worker in self._kept.overdue(time.monotonic()):
            self._nursery.kill(worker, "unattached")

    def _kill(self, client: Peer, request: Kill) -> None:
        if self._waiting.withdraw(client, request.id):
            bad = BadRequest("its client took it back before it was started", request.id, "spawn")
            self._say(client, messages.refused(bad))
            return
        worker = self._nursery.get(request.id)
        if worker is None or worker.client is not client:
            bad = BadRequest("this client has no such worker", request.id, "kill")
            self._say(client, messages.refused(bad))
        else:
            self._nursery.kill(worker, "killed")

    # What peers are told

    def _say(self, peer: Peer, data: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send or queue. A client with too much queued is lost; the host merely misses the message."""
        if peer.gone:
            _close(fds)
            return
        try:
            kept = peer.outbox.put(data, fds)
        except ChannelClosed:
            kept = False
        if kept:
            self._listen(peer)
        elif peer is not self._host:
            self._lose(peer)

    def _flush(self, peer: Peer) -> None:
        try:
            peer.outbox.flush()
        except ChannelClosed:
            self._lose(peer)
        else:
            self._listen(peer)

    def _listen(self, peer: Peer) -> None:
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.outbox.waiting else 0)
        key = self._selector.get_key(peer.channel.fileno())
        if key.events != wanted:
            self._selector.modify(key.fd, wanted, key.data)

    def _lose(self, peer: Peer, *, is_leaving: bool = False) -> None:
        """The peer is gone, or is treated so: its workers have nobody to work for, or wait for somebody else."""
        if peer.gone:
            return
        peer.gone = True
        self._selector.unregister(peer.channel.fileno())
        peer.outbox.close()
        peer.channel.close()
        self._waiting.drop(peer)
        if peer is self._host:
            self._stop()
        for worker in self._nursery:
            if worker.client is not peer:
                continue
            ends = is_leaving or self._stop_by is not None or worker.cause != "exit"
            if ends or not self._kept.detach(worker, time.monotonic()):
                self._nursery.kill(worker, "client-gone")

    # What workers do

    def _mourn(self, deaths: ChildDeaths) -> None:
        deaths.take()
        self._died = True

    def _drain(self, worker: Worker) -> None:
        if worker.output >= 0 and not self._nursery.drain(worker):
            self._forget_output(worker)

    def _forward(self) -> None:
        """Hand the host what workers printed, as far as its socket has room: nothing of it waits before an answer."""
        while self._output and not self._host.gone and not self._host.outbox.waiting:
            message = self._output.take()
            if message is not None:
                self._say(self._host, message)

    def _forget_output(self, worker: Worker) -> None:
        if worker.output >= 0:
            self._selector.unregister(worker.output)
            self._nursery.close_output(worker)

    def _collect(self) -> None:
        for worker in self._nursery.collect():
            self._forget_output(worker)
            self._kept.ended(worker)
            if self._output is not None and worker.wait_status and worker.cause == "exit":
                about = (worker.id, worker.request.name, worker.request.labels, worker.pid)
                self._output.died(worker.id, messages.died(*about, worker.wait_status, worker.hit))
            if isinstance(worker.client, Peer):
                self._tell_end(worker.client, worker)

    def _tell_end(self, client: Peer, worker: Worker) -> None:
        if worker.wait_status is not None:
            told = (worker.id, worker.pid, worker.wait_status, worker.tail.bytes(), worker.cause, worker.hit)
            self._say(client, messages.exited(*told))


def _row(worker: Worker) -> messages.WorkerRow:
    client = worker.client.name if isinstance(worker.client, Peer) else ""
    request = worker.request
    return messages.WorkerRow(worker.id, request.name, worker.pid, client, worker.started, request.labels)


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)
