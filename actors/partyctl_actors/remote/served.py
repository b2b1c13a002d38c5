"""A role that is served: waits to be invited into runs, and plays it in each with a player of its own.

It plays by its own projection, with the role actor that plays roles everywhere. Only `run/<id>/<Role>/deputy` may
invite, for the role that is served: the broker vouches for that address.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from partyctl_actors.errors import ProtocolMismatch
from partyctl_actors.participants.conformity import Checked
from partyctl_actors.participants.interface import Participant, Seat, WorkerSource
from partyctl_actors.protocol.definition import load
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role
from partyctl_actors.remote.invitation import INVITING, Invitation
from partyctl_actors.runs import messages
from partyctl_actors.runs.addresses import conductor_address, deputy_address, role_address
from partyctl_actors.runs.contained import bound, contained
from partyctl_actors.runs.reports import report
from partyctl_actors.runs.role_actor import RoleActor
from partyctl_broker.errors import BusError
from partyctl_broker.port import Letter, Mailbox, Receiver

_log = logging.getLogger("partyctl.remote")

LOADED = 16
"""Protocols that are kept, so that one is not loaded anew for each run."""


class Served:
    """The receiver of a mailbox at which a role can be had. It is told by `opened` once that is open.

    Args:
        role: the role.
        participant: who plays it, in each run as if in the only one.
        protocol: what every run must follow; None for whatever it follows, with message classes of its own.
        workers: where worker processes come from.

    Attributes:
        over: resolved when the mailbox is closed for good, with the reason.
    """

    def __init__(
        self, role: Role, participant: Participant, *, protocol: Protocol | None, workers: WorkerSource | None
    ) -> None:
        self.role = role
        self.mailbox: Mailbox | None = None
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._participant = participant
        self._protocol = protocol
        self._workers = workers
        self._loaded: dict[str, Protocol] = {}
        self._plays: dict[str, _Play] = {}
        self._early: list[Letter] = []

    def opened(self, mailbox: Mailbox) -> None:
        """Its mailbox is open."""
        self.mailbox = mailbox
        early, self._early = self._early, []
        for letter in early:
            self.letter(letter)

    @property
    def runs(self) -> list[str]:
        """The ids of the runs that it plays in now."""
        return [play.run for play in self._plays.values()]

    async def close(self) -> None:
        """Leave all runs."""
        acting = [play.acting for play in self._plays.values()]
        for task in acting:
            task.cancel()
        if acting:
            await asyncio.wait(acting)

    # --- what the bus tells ---

    def letter(self, letter: Letter) -> None:
        """See `Receiver`."""
        if self.mailbox is None:
            # A letter may be here before whoever opens the mailbox has it in hand.
            self._early.append(letter)
            return
        if letter.correlation != INVITING:
            play = self._plays.get(letter.source)
            if play is not None:
                play.side.told(letter.payload)
            return
        try:
            self._begin(letter.source, Invitation.decode(letter.payload))
        # Whatever goes wrong is the business of this run alone: a protocol that cannot be loaded, a participant's own
        # code when it is bound.
        except BaseException as raised:
            error = contained(raised)
            _log.warning("%s cannot play in %s: %s", self.role, letter.source, error)
            self._send(letter.source, messages.encode(report(error, 0)))

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        """See `Receiver`."""
        self.gone(destination, (), why)

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        """See `Receiver`."""
        mine = self.mailbox is not None and address == self.mailbox.address
        for source, play in list(self._plays.items()):
            if mine or source == address:
                play.lose(why)
        if mine and not self.over.done():
            self.over.set_result(why)

    def link_lost(self, why: str) -> None:
        """See `Receiver`. Nothing said is lost by it."""

    # --- runs ---

    def _begin(self, source: str, invitation: Invitation) -> None:
        if invitation.role != self.role.name or source != deputy_address(invitation.run, self.role):
            raise ProtocolMismatch(
                f"Here {self.role} is served",
                where=source,
                why=f"invited was {invitation.role[:80]} of run {invitation.run[:80]}",
                fix="Name the process that serves the role",
            )
        protocol = self._followed(invitation)
        if isinstance(self._participant, Checked):
            self._participant.check(protocol, self.role)
        seat = Seat(invitation.run, self.role, protocol, self._workers)
        side = _Side(invitation.run, self.role, lambda payload: self._send(source, payload))
        view = protocol.view(self.role)
        player = bound(self._participant, seat)
        actor = RoleActor(_Road(side), invitation.run, self.role, protocol, player, meter=seat.meter, view=view)
        before = self._plays.get(source)
        if before is not None:
            # Its deputy begins anew, so it has nobody to speak to.
            before.side.close()
            before.acting.cancel()
        acting = asyncio.get_running_loop().create_task(actor.run(), name=f"{self.role} of run {invitation.run}")
        play = self._plays[source] = _Play(invitation.run, side, acting)
        acting.add_done_callback(lambda task: self._ended(source, play, task))

    def _followed(self, invitation: Invitation) -> Protocol:
        protocol = self._protocol or self._loaded.get(invitation.protocol)
        if protocol is None:
            protocol = load(invitation.definition)
            if len(self._loaded) >= LOADED:
                self._loaded.clear()
            self._loaded[protocol.id] = protocol
        if protocol.id != invitation.protocol:
            raise ProtocolMismatch(
                f"{self.role} is served for another protocol",
                where=f"run {invitation.run[:80]}",
                why=f"its protocol is {protocol.id}, the run's is {invitation.protocol[:80]}",
                fix="Start both from the same source",
            )
        return protocol

    def _ended(self, source: str, play: _Play, task: asyncio.Task[None]) -> None:
        if self._plays.get(source) is play:
            del self._plays[source]
        if not task.cancelled() and task.exception() is not None:
            _log.warning("%s left run %s", self.role, play.run, exc_info=task.exception())

    def _send(self, destination: str, payload: bytes) -> None:
        # Who cannot be told anything any more is gone, and the bus says that by itself.
        if self.mailbox is None:
            return
        try:
            self.mailbox.send(destination, payload)
        except BusError as error:
            play = self._plays.get(destination)
            if play is not None:
                play.lose(str(error))


@dataclass(frozen=True, slots=True)
class _Play:
    run: str
    side: _Side
    acting: asyncio.Task[None]

    def lose(self, why: str) -> None:
        """Its deputy is gone."""
        if not self.side.lost(why):
            self.acting.cancel()


class _Side:
    """The only mailbox of a bus of its own: a role actor's road to the deputy, which stands for its conductor."""

    def __init__(self, run: str, role: Role, post: Callable[[bytes], None]) -> None:
        self.address = role_address(run, role)
        self.receiver: Receiver | None = None
        self._conductor = conductor_address(run)
        self._post: Callable[[bytes], None] | None = post

    def told(self, payload: bytes) -> None:
        """The deputy said something; it does so only once the role has joined."""
        if self.receiver is not None:
            self.receiver.letter(Letter(self._conductor, self.address, payload))

    def lost(self, why: str) -> bool:
        """The deputy is gone; whether the role has heard it."""
        self.close()
        if self.receiver is None:
            return False
        self.receiver.gone(self._conductor, (), why)
        return True

    def send(self, destination: str, payload: bytes, correlation: int = 0, *, confirm: bool = False) -> int:
        """See `Mailbox.send`."""
        if self._post is not None:
            self._post(payload)
        return 0

    async def room(self, destination: str) -> None:
        """See `Mailbox.room`."""

    def acknowledge(self, letter: Letter) -> None:
        """See `Mailbox.acknowledge`."""

    def close(self) -> None:
        """See `Mailbox.close`."""
        self._post = None


class _Road:
    """The bus of a `_Side`."""

    def __init__(self, side: _Side) -> None:
        self._side = side

    async def open(self, address: str, receiver: Receiver) -> Mailbox:
        """See `Bus.open`."""
        self._side.receiver = receiver
        return self._side

    async def close(self) -> None:
        """See `Bus.close`."""
