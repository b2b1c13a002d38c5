"""The actor that plays one role of one run, in whichever process its participant lives.

It follows the role's own projection and lets nothing pass that the projection does not allow, in either direction: what
the conductor delivers, and what the participant says.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect

from partyctl_actors.errors import ConformanceError, DeadlineExceeded, SelectionError, SessionError
from partyctl_actors.participants.interface import BasePlayer, Meter, Offer, Player
from partyctl_actors.payloads import pack, unpack
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.projection import EndState, ReceiveState, SendState, View, project
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role
from partyctl_actors.runs import messages
from partyctl_actors.runs.addresses import conductor_address, role_address
from partyctl_actors.runs.contained import contained, guarded
from partyctl_actors.runs.limits import Limits
from partyctl_actors.runs.lines import DirectLines, PostToConductor, ToConductor, Ways
from partyctl_actors.runs.reports import report
from partyctl_actors.runs.settle import settle, settled
from partyctl_actors.transcript import Envelope
from partyctl_broker.errors import BusError
from partyctl_broker.exchange import check_payload
from partyctl_broker.port import Letter
from partyctl_broker.wire import PAYLOAD_MAX

# How the time that a player has to stop is shared out; each part is followed by its grace.
_AUTHOR, _CANCEL, _CLOSE, _GRACE = 0.15, 0.3, 0.4, 0.05


class RoleActor:
    """Plays one role. The conductor must be open before `run`.

    Args:
        bus: how the conductor is reached.
        run_id: the run.
        role: the role.
        protocol: what is run.
        player: who decides what the role says.
        meter: what the player reports its tokens to (`Seat.meter`); None if it reports none.
        view: the role's projection, if the caller has it already.
        limits: how long it waits for its player.
    """

    def __init__(
        self,
        bus: Ways,
        run_id: str,
        role: Role,
        protocol: Protocol,
        player: Player,
        *,
        meter: Meter | None = None,
        view: View | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.role = role
        self.failure: BaseException | None = None
        """Why the role could not go on, as the very object that was raised; None if it could."""
        self._bus = bus
        self._run_id = run_id
        self._protocol = protocol
        self._player = player
        self._hears = getattr(type(player), "hear", None) is not BasePlayer.hear
        self._meter = meter or Meter()
        self._view = view or project(protocol, role)
        self._limits = limits or Limits()
        self._conductor = conductor_address(run_id)
        self._position = self._view.start
        self._turn = 0
        self._line: ToConductor | None = None
        self._authoring: asyncio.Future[Message] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._within = 0.0
        self._offers: dict[int, Offer] = {}

    async def run(self) -> None:
        """Play the role until the run ends, is cancelled or fails; `failure` tells.

        Raises:
            BusError: the role's address cannot be had.
        """
        self._loop = asyncio.get_running_loop()
        # Resolved with the reason to stop early, or None at the end of the run.
        self._over: asyncio.Future[str | None] = self._loop.create_future()
        self._told_to_stop = False
        reason: str | None = "its process was stopped"
        try:
            if isinstance(self._bus, DirectLines):
                self._line = self._bus.role(self.role.name, self)
            else:
                mailbox = await self._bus.open(role_address(self._run_id, self.role), self)
                self._line = PostToConductor(mailbox, self._conductor)
            self._send(messages.Join(self._protocol.id))
            # Shielded, or a cancelled task would settle it.
            reason = await asyncio.shield(self._over)
        except asyncio.CancelledError:
            self._fail(SessionError("The role was stopped", where=self._place(), why=reason or ""))
            raise
        finally:
            await self._leave(reason)

    # --- what the conductor tells ---

    def letter(self, letter: Letter) -> None:
        """See `Receiver`."""
        if letter.source != self._conductor:
            return
        try:
            message = messages.decode(letter.payload)
        except messages.Malformed as error:
            self._fail(error)
        else:
            self.told(message)

    def told(self, message: messages.RunMessage) -> None:
        """The conductor said something."""
        if self._over.done():
            return
        try:
            if isinstance(message, messages.Deliver):
                self._hear(message)
            elif isinstance(message, messages.Grant):
                self._ask(message.turn, message.within)
            elif isinstance(message, messages.Recalled):
                self._recall(message)
            elif isinstance(message, messages.Cancel):
                self._told_to_stop = True
                self._stop(message.reason)
            elif isinstance(message, messages.End):
                self._end()
            elif not isinstance(message, messages.Welcome):
                raise self._refusal(f"sent what only a role sends: {type(message).__name__}")
        # Whatever goes wrong in taking a letter ends this role and is reported; nothing of it may reach the bus.
        except BaseException as error:
            self._fail(contained(error))

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        """See `Receiver`."""
        self.gone(destination, (), why)

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        """See `Receiver`."""
        if address == self._conductor:
            self.lost(why)
        elif address == role_address(self._run_id, self.role):
            self._fail(SessionError("The link to the conductor is lost", where=self._place(), why=why))

    def link_lost(self, why: str) -> None:
        """See `Receiver`. Nothing said is lost by it, so the role goes on."""

    def lost(self, why: str) -> None:
        """The conductor is gone."""
        self._fail(SessionError("The conductor of the run is gone", where=self._place(), why=why))

    def _hear(self, delivery: messages.Deliver) -> None:
        self._turn = delivery.turn
        state = self._view.states[self._position]
        if (
            not isinstance(state, ReceiveState)
            or state.sender.name != delivery.sender
            or delivery.label not in state.arms
        ):
            raise self._refusal(f"delivered {delivery.label} from {delivery.sender}")
        message = delivery.message
        if message is None:
            message = self._protocol.messages[delivery.label].from_wire(unpack(delivery.payload))
        self._position = state.arms[delivery.label]
        if self._hears:
            self._player.hear(Envelope(state.sender, self.role, message))
        if delivery.granted:
            self._ask(delivery.turn + 1, delivery.within)

    def _recall(self, recalled: messages.Recalled) -> None:
        self._turn = recalled.turn
        state = self._view.states[self._position]
        if (
            not isinstance(state, SendState)
            or state.receiver.name != recalled.receiver
            or recalled.label not in state.arms
        ):
            raise self._refusal(f"recalled {recalled.label} to {recalled.receiver}")
        message = self._protocol.messages[recalled.label].from_wire(unpack(recalled.payload))
        self._position = state.arms[recalled.label]
        self._player.recall(Envelope(self.role, state.receiver, message))

    def _end(self) -> None:
        if not isinstance(self._view.states[self._position], EndState) or self._authoring is not None:
            raise self._refusal("ended the run")
        self._stop(None)

    def _ask(self, turn: int, within: float | None) -> None:
        self._turn = turn
        state = self._view.states[self._position]
        if not isinstance(state, SendState) or self._authoring is not None:
            raise self._refusal("granted the turn")
        began = None if within is None else self._loop.time()
        authored = self._player.author(self._offer(state))
        if isinstance(authored, Message):
            # A player that answers at once cannot be interrupted, so its time is checked afterwards.
            if within is not None and began is not None and self._loop.time() - began > within:
                raise self._overdue(within)
            self._say(authored)
        elif inspect.isawaitable(authored):
            self._authoring = asyncio.ensure_future(guarded(self.role, authored))
            self._authoring.add_done_callback(self._authored)
            if within is not None:
                self._within = within
                self._timer = self._loop.call_later(within, self._expire)
        else:
            self._say(authored)

    # --- what the player says ---

    def _authored(self, authoring: asyncio.Future[Message]) -> None:
        timer = self._timer
        self._disarm()
        if authoring is not self._authoring or self._over.done():
            # Told to stop meanwhile; what it raises on its way out concerns nobody.
            _ = authoring.cancelled() or authoring.exception()
            return
        self._authoring = None
        try:
            if authoring.cancelled():
                raise SessionError("The participant cancelled its own work", where=self._place())
            message = authoring.result()
            # A player that blocks the loop has its answer ready before the timer can ring.
            if timer is not None and self._loop.time() > timer.when():
                raise self._overdue(self._within)
            self._say(message)
        except BaseException as error:
            self._fail(contained(error))

    def _say(self, message: object) -> None:
        state = self._view.states[self._position]
        assert isinstance(state, SendState)
        offer = self._offer(state)
        if not isinstance(message, Message) or type(message) not in offer.messages:
            raise SelectionError(
                f"{self.role} said what was not on offer",
                where=self._place(),
                why=f"it said {message!r:.200}, on offer to {state.receiver}: {_labels(offer)}",
                fix=_namesake(message, offer),
            )
        self._position = state.arms[message.label]
        payload = pack(message.to_wire())
        if len(payload) > PAYLOAD_MAX:
            check_payload(payload, self._conductor)
        assert self._line is not None
        shared = message if message.is_plain else None
        tokens = self._meter.take()
        self._line.send(messages.Sent(self._turn, state.receiver.name, message.label, payload, tokens, shared))

    def _offer(self, state: SendState) -> Offer:
        offer = self._offers.get(self._position)
        if offer is None:
            kinds = tuple(self._protocol.messages[label] for label in state.arms)
            offer = self._offers[self._position] = Offer(self.role, state.receiver, kinds)
        return offer

    def _expire(self) -> None:
        self._timer = None
        self._fail(self._overdue(self._within))

    def _overdue(self, within: float) -> DeadlineExceeded:
        state = self._view.states[self._position]
        assert isinstance(state, SendState)
        return DeadlineExceeded(
            f"{self.role} did not speak in time",
            where=self._place(),
            why=f"it had {within:g} s to say {_labels(self._offer(state))}",
            fix="Give the step a longer within=",
        )

    # --- the way out ---

    def _fail(self, error: BaseException) -> None:
        if self._over.done():
            return
        self.failure = error
        failed = report(error, self._turn)
        error.add_note(f"raised by {self.role}, {self._place()}{f', at {failed.at}' if failed.at else ''}")
        # If it cannot be sent, the conductor hears from the bus that this role is gone.
        with contextlib.suppress(BusError):
            self._send(failed)
        self._stop(f"{self.role} failed: {failed.text or failed.error}")

    def _stop(self, reason: str | None) -> None:
        if not self._over.done():
            self._over.set_result(reason)

    async def _leave(self, reason: str | None) -> None:
        """End the player's work, confirm, and close the mailbox."""
        who = f"the participant of {self.role}"
        limit, grace = self._limits.player, self._limits.player * _GRACE
        self._disarm()
        if not self._over.done():
            self._over.set_result(reason)
        if self._authoring is not None and not self._authoring.done():
            self._authoring.cancel()
            await settle([self._authoring], limit * _AUTHOR, who, grace=grace)
        if reason is not None:
            await settled(guarded(self.role, self._player.cancel(reason)), limit * _CANCEL, who, grace=grace)
        await settled(guarded(self.role, self._player.close()), limit * _CLOSE, who, grace=grace)
        if self._line is None:
            return
        if self._told_to_stop:
            # If it cannot be sent, nobody is left to be told.
            with contextlib.suppress(BusError):
                self._send(messages.Cancelled())
        self._line.close()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self, message: messages.ToConductor) -> None:
        assert self._line is not None
        self._line.send(message)

    def _refusal(self, did: str) -> ConformanceError:
        return ConformanceError(
            "The conductor left the protocol as this role sees it",
            where=self._place(),
            why=f"it {did}; this role expects: {self._view.states[self._position]!r:.300}",
        )

    def _place(self) -> str:
        return f"run {self._run_id}, step {self._turn}" if self._turn else f"run {self._run_id}"


def _labels(offer: Offer) -> str:
    return ", ".join(kind.label for kind in offer.messages)


def _namesake(message: object, offer: Offer) -> str:
    """The advice for a message whose class only has the name of one on offer."""
    if type(message).__name__ in [kind.label for kind in offer.messages]:
        return f"Use the class {type(message).__name__} that the protocol was made with; this is another of that name"
    return ""
