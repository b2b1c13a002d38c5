"""The way of messages through the broker: those whose lane is known go on as they came, the rest is asked of the table.

Most of what the broker ever does is the loop in `drain`, so it makes no call that it does not need.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, cast

import zmq

from partyctl_broker import wire
from partyctl_broker.backlog import Backlog
from partyctl_broker.commands import Commands
from partyctl_broker.frames import Envelope, head, read_rest, whole
from partyctl_broker.large import LARGE, LargeLetters
from partyctl_broker.liveness import Liveness
from partyctl_broker.offences import GRAVE, Offences
from partyctl_broker.router import Table
from partyctl_broker.sending import Sending, refusal
from partyctl_broker.shares import ASKED, HELLO_BYTES, LETTER, PAIR, PER_KIB, Shares
from partyctl_broker.sockets import unread_by_peer
from partyctl_broker.steps import Arrived, Unsent
from partyctl_broker.strangers import Strangers

SLICE: Final = 1000
"""Microseconds of work for one connection after which the loop looks at its other descriptors, if that work was more
than to send letters on."""
BURST: Final = 4
"""Messages of one batch after which more are expected."""

# Plain numbers: each use of an enum member in an expression, or as an argument of the C socket, costs 1 to 2 us.
_WAIT_NOT = int(zmq.NOBLOCK)
_MORE = int(zmq.SNDMORE | zmq.NOBLOCK)
_RCVMORE = int(zmq.RCVMORE)
_READABLE = int(zmq.POLLIN)
_EVENTS = int(zmq.EVENTS)


class Forwarding:
    """Reads the ROUTER.

    Args:
        router: the socket.
        table: knows the lanes.
        sending: sends.
        commands: ask the table.
        strangers: hear those that the table does not know.
        liveness: knows descriptors.
        offences: what is held against whom.
        shares: whose work it is, and who writes to whom.
        large: the large letters.
        counts: where what is dropped is counted, by reason.
    """

    def __init__(
        self,
        router: "zmq.Socket[bytes]",
        table: Table,
        sending: Sending,
        commands: Commands,
        strangers: Strangers,
        liveness: Liveness,
        offences: Offences,
        shares: Shares,
        large: LargeLetters,
        counts: Counter[str],
    ) -> None:
        self._router, self._lanes, self._sending, self._commands = router, table.lanes, sending, commands
        self._strangers, self._liveness, self._offences = strangers, liveness, offences
        self._shares, self._large, self._counts = shares, large, counts
        self._spent, self._senders, self._waiting = shares.spent, large.senders, sending.words.waiting
        self._backlog = Backlog(self._lanes, unread_by_peer)
        self.read = 0
        """Messages read since somebody set this back, but for those after which the socket was empty."""
        self.forwarded = 0
        """Pairs that went on along a lane."""
        # The bare methods of the C socket: the public ones add a Python call and a type check per frame.
        self._receive: Callable[..., bytes] = router.recv
        self._option = cast(Callable[[int], int], router.getsockopt)
        self._send = sending.frame

    def drain(self, most: int) -> bool:
        """Route what is there, so many messages at most; whether the socket was seen empty."""
        receive, option, send, lanes = self._receive, self._option, self._send, self._lanes
        spent, waiting, wrote, senders = self._spent, self._waiting, self._shares.wrote, self._senders
        number = 0
        for number in range(1, most + 1):
            # Finding nothing raises, which costs 8 us, and asking 2 us. So a short burst asks, a long one does not.
            if 1 < number <= BURST and not option(_EVENTS) & _READABLE:
                return True
            try:
                origin = receive(_WAIT_NOT)
            except zmq.Again:
                return True
            spent[origin] = spent.get(origin, 0) + LETTER
            lane = lanes.get(origin)
            if lane is None:
                self._strangers.hear(origin)
            else:
                frame = receive(_WAIT_NOT)
                if not option(_RCVMORE):
                    self._counts["malformed"] += 1
                    self._offences.note(origin, GRAVE)
                    continue
                envelope = receive(_WAIT_NOT, origin not in senders)
                target = lane.get(frame)
                if option(_RCVMORE):
                    self._route_many(origin, lane, [frame, whole(envelope)])
                elif target is None:
                    self._ask(origin, frame, whole(envelope))
                elif target in waiting or (len(envelope) > LARGE and not self._fits(target, len(envelope), origin)):
                    self._refuse(origin, frame, envelope, "full")
                else:
                    try:
                        send(target, _MORE)
                        send(frame, _MORE)
                        send(envelope, _WAIT_NOT)
                        self.forwarded += 1
                        if target not in wrote.get(origin, ()):
                            wrote.setdefault(origin, set()).add(target)
                        continue
                    except zmq.ZMQError as error:
                        self._refuse(origin, frame, envelope, refusal(error))
            if spent[origin] > SLICE:
                break
            option(_EVENTS)  # that took a while: makes ZeroMQ notice whose mail has come
        self.read += number
        return False

    def _ask(self, origin: bytes, frame: bytes, envelope: bytes) -> None:
        self._large.note(origin, len(envelope))
        self._shares.charge(origin, ASKED if frame != wire.TO_BROKER else ASKED + len(envelope) // HELLO_BYTES)
        self._commands.step(Arrived(origin, frame, envelope))

    def _refuse(self, origin: bytes, frame: bytes, envelope: Envelope, code: str) -> None:
        self._shares.charge(origin, ASKED)
        if code == "full" and len(envelope) > LARGE:
            self._offences.refuse(origin, frame, len(envelope))
        self._commands.step(Unsent(origin, frame, head(envelope), code))

    def _fits(self, target: bytes, size: int, origin: bytes) -> bool:
        """Whether so much may go to a peer."""
        self._shares.charge(origin, size * PER_KIB // 1024)
        self._large.note(origin, size)
        return self._backlog.fits(target, self._liveness.descriptor(target), size)

    # --- messages of several pairs

    def _route_many(self, origin: bytes, lane: dict[bytes, bytes], begun: list[bytes]) -> None:
        """Route a message of which the first pair has been read; what goes to one connection leaves in one message."""
        frames = read_rest(self._router, begun, self._counts)
        self._spent[origin] += PAIR * (len(frames) // 2 if frames else wire.PAIRS_MAX)
        if frames is None:
            self._offences.note(origin, GRAVE)
            return
        groups: dict[bytes, list[bytes]] = {}
        self._commands.keeps_words = True
        for index in range(0, len(frames), 2):
            frame = frames[index]
            target = lane.get(frame)
            if target is None:
                # It may change the table, so what came before it leaves first.
                if groups:
                    self._send_groups(origin, groups)
                    groups = {}
                self._ask(origin, frame, frames[index + 1])
                continue
            group = groups.get(target)
            if group is None:
                groups[target] = frames[index : index + 2]
            else:
                group += frames[index : index + 2]
        self._send_groups(origin, groups)
        self._commands.keeps_words = False
        self._sending.words.send()

    def _send_groups(self, origin: bytes, groups: dict[bytes, list[bytes]]) -> None:
        self._sending.words.send()
        self._shares.wrote.setdefault(origin, set()).update(groups)
        for target, group in groups.items():
            size = sum(map(len, group))
            code = (
                "full" if size > LARGE and not self._fits(target, size, origin) else self._sending.letter(target, group)
            )
            if not code:
                self.forwarded += len(group) // 2
                continue
            for index in range(0, len(group), 2):
                self._refuse(origin, group[index], group[index + 1], code)
