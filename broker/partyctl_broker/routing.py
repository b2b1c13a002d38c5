"""How the broker reads and writes its ROUTER socket: messages whose lane is known go on as they came, the rest is asked
of the table, whose commands are carried out here. Who keeps the broker busy waits for others (shares.py).
"""

import errno
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, cast

import zmq

from partyctl_broker import wire
from partyctl_broker.frames import Envelope, head, whole
from partyctl_broker.lookout import Lookout, Suspicion, cut_off, hung_up, unread_by_peer
from partyctl_broker.offences import GRAVE, STRANGE, STRANGE_BYTES, Offences
from partyctl_broker.router import Table
from partyctl_broker.shares import ASKED, HELLO_BYTES, LETTER, PAIR, PER_KIB, Shares
from partyctl_broker.steps import Arrived, Check, Command, Count, Cut, Event, Forward, Lost, Tell, Unsent
from partyctl_broker.words import Words

BATCH: Final = 256
"""Messages routed before the loop looks at its other descriptors."""
SLICE: Final = 1000
"""Microseconds of work for one connection after which the loop looks at its other descriptors, if that work was more
than to send letters on."""
OFFENDS: Final = "it does not keep to the wire"
STRETCH: Final = 100
"""Microseconds of work for busy ones in a row, while others have mail too."""
HEAVY: Final = 2 * STRETCH
"""The same for work that is done at once."""
RETRY: Final = 0.05
"""Seconds after which a full queue is tried again, should ZeroMQ not tell that there is room."""
NOTICE: Final = 0.02
"""Seconds that ZeroMQ is given to notice the end of a connection that the kernel knows of already."""
BURST: Final = 4
"""Messages of one batch after which more are expected."""

LARGE: Final = 4 * 1024
"""Bytes of an envelope, or of the further ones of a message, over which it is counted what waits for a peer; ZeroMQ's
queues count messages alone."""
HUGE: Final = 256 * 1024
"""Bytes of an envelope over which the next ones of its sender are not copied on their way. That saves 640 us with
4 MiB, and costs 0.4 with a small letter."""
FORGOTTEN: Final = 1.0
"""Seconds after which that is over."""
QUEUE_BYTES: Final = 8 * 1024 * 1024
"""Bytes that wait for a peer that does not read, before their senders get a NACK."""
QUEUE_STEP: Final = 1024 * 1024
"""Bytes after which it is looked whether a peer has read all."""

# Plain numbers: each use of an enum member in an expression, or as an argument of the C socket, costs 1 to 2 us.
_WAIT_NOT = int(zmq.NOBLOCK)
_MORE = int(zmq.SNDMORE | zmq.NOBLOCK)
_RCVMORE = int(zmq.RCVMORE)
_READABLE = int(zmq.POLLIN)
_EVENTS = int(zmq.EVENTS)


class Routing:
    """The way of messages through the broker.

    Args:
        router: the socket.
        table: decides.
        lookout: knows the connections.
        counts: where what is dropped is counted, by reason.
    """

    def __init__(self, router: "zmq.Socket[bytes]", table: Table, lookout: Lookout, counts: Counter[str]) -> None:
        self._router, self._table, self._lookout, self._counts = router, table, lookout, counts
        self._liveness = lookout.liveness
        self._read = 0
        self._queued: dict[bytes, int] = {}
        self._spent: dict[bytes, int] = {}
        self.suspicion = Suspicion(lookout, self._spent)
        """What the guard of the memory needs."""
        self._shares = Shares()
        self._words = Words(self._push_word)
        self._is_many = False
        self._offences = Offences()
        self._large, self._larger = self.suspicion.large, set[bytes]()
        self._forgets = 0.0
        self.routed = 0
        """Pairs that went on."""
        # The bare methods of the C socket: the public ones add a Python call and a type check per frame.
        self._receive: Callable[..., bytes] = router.recv
        self._option = cast(Callable[[int], int], router.getsockopt)
        self._send: Callable[[bytes, int], object] = super(zmq.Socket, router).send
        self._handlers: dict[type[Command], Callable[..., None]] = {
            Forward: self._forward,
            Tell: self._tell,
            Check: self._check,
            Cut: self._cut,
            Count: self._count,
        }

    def turn(self, called: bool = True) -> float | None:
        """Route what is there, within bounds, and bury who is dead; for how many seconds there is nothing to do, None
        if that is until the socket calls.

        Args:
            called: the socket's descriptor is readable: somebody's first mail has come, or there is room in a queue.
        """
        liveness, words, shares = self._liveness, self._words, self._shares
        if liveness.suspects:
            liveness.probe(time.monotonic(), self._is_reachable)
        if words.waiting:
            words.retry()
        empty = self._drain(BATCH) if not shares.busy else self._drain_fairly(called)
        now = time.monotonic()
        # ZeroMQ gives every connection that has mail its turn, so so many messages later all have had theirs.
        self.suspicion.seen.update(self._spent)
        if empty or self._read > len(self._lookout.crowd):
            self._read = 0
            self.suspicion.rounds += 1
        shares.note(self._spent, now)
        self._spent.clear()
        if self._offences or self._large:
            self._judge(now)
        over = liveness.over(now, empty) if liveness.suspects else ()
        for connection in over:
            self.step(Lost(connection, "its connection is closed"))
        while words.deaf:
            deaf = words.deaf.pop()
            self._show_out(deaf, "it does not read")
            self._lookout.cut(deaf, now)
            empty = False
        if empty and not over:  # what was said of the dead may have eaten a call
            return RETRY if words.waiting else None
        return shares.wait(now) if shares.busy else 0.0

    def _drain_fairly(self, called: bool) -> bool:
        """Route what is there, little of it for those who keep the broker busy; whether the socket was seen empty."""
        shares = self._shares
        busy, spent = shares.busy, self._spent
        total: dict[bytes, int] = {}
        rests = shares.wait(time.monotonic()) > 0
        if rests and not called:
            return False
        stretch = 0 if rests else STRETCH
        # ZeroMQ takes all in turn, so after so many busy ones in a row nobody else has mail that it has noticed.
        row, rounds, worked = 0, len(busy) + 1, 0
        empty = False
        for number in range(1, BATCH + 1):
            self._option(_EVENTS)  # makes ZeroMQ notice whose mail has come; a receive does only now and then
            empty = self._drain(1)
            if empty:
                break
            row += 1
            for connection, cost in spent.items():
                total[connection] = total.get(connection, 0) + cost
                if connection in busy:
                    worked += cost
                else:
                    row = 0
            spent.clear()
            if worked >= stretch and (row >= rounds or (worked >= HEAVY and number >= rounds)):
                break
        spent.update(total)
        shares.rest(worked, time.monotonic())
        return empty

    def _judge(self, now: float) -> None:
        if now >= self._forgets:
            self._forgets = now + FORGOTTEN
            self._large &= self._larger
            self._larger.clear()
        for connection in self._offences.judge(now):
            if connection in self._table.lanes:
                self._lookout.read_monitor(now)
                self._expel(connection, self._liveness.descriptor(connection), self._table.principal(connection))

    def _expel(self, connection: bytes, descriptor: int | None, principal: str) -> None:
        now = time.monotonic()
        self._offences.drop(connection)
        self._show_out(connection, OFFENDS)
        self._lookout.bans.add(principal, now)
        self._lookout.cut_at_once(connection, descriptor, now)

    def _show_out(self, connection: bytes, why: str) -> None:
        self._counts[f"shown out: {why}"] += 1
        self.step(Lost(connection, why))
        self._words.drop(connection)

    # --- deaths

    def _is_reachable(self, connection: bytes) -> bool:
        self._option(_EVENTS)  # makes ZeroMQ look at what it has been told; a send looks only now and then
        return self._send_all(connection, (b"",)) != "gone"

    def _is_living(self, rival: bytes) -> bool:
        """Whether a rival is there, which the kernel may know before ZeroMQ does; that is given a moment to notice."""
        descriptor = self._liveness.descriptor(rival)
        deadline = time.monotonic() + NOTICE
        while self._is_reachable(rival):
            if descriptor is None or not hung_up(descriptor) or time.monotonic() > deadline:
                return True
            time.sleep(NOTICE / 100)
        return False

    def _check(self, command: Check) -> None:
        self._lookout.read_monitor(time.monotonic())
        for rival in command.rivals:
            if not self._is_living(rival):
                self._liveness.forget(rival)
                self.step(Lost(rival, "its connection is closed"))
        event = command.event
        self.step(Arrived(event.connection, event.frame, event.envelope, settled=True, vouched=event.vouched))

    def _cut(self, command: Cut) -> None:
        self._lookout.cut(command.connection, time.monotonic())

    # --- routing

    def _drain(self, most: int) -> bool:
        """Route what is there, so many messages at most; whether the socket was seen empty."""
        receive, option, send, lanes = self._receive, self._option, self._send, self._table.lanes
        spent, waiting, wrote, large = self._spent, self._words.waiting, self._shares.wrote, self._large
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
                self._hear_stranger(origin)
            else:
                frame = receive(_WAIT_NOT)
                if not option(_RCVMORE):
                    self._counts["malformed"] += 1
                    self._offences.note(origin, GRAVE)
                    continue
                envelope = receive(_WAIT_NOT, origin not in large)
                target = lane.get(frame)
                if option(_RCVMORE):
                    self._route_many(origin, lane, frame, whole(envelope))
                elif target is None:
                    self._ask(origin, frame, whole(envelope))
                elif target in waiting or (len(envelope) > LARGE and not self._fits(target, len(envelope), origin)):
                    self._refuse(origin, frame, envelope, "full")
                else:
                    try:
                        send(target, _MORE)
                        send(frame, _MORE)
                        send(envelope, _WAIT_NOT)
                        self.routed += 1
                        if target not in wrote.get(origin, ()):
                            wrote.setdefault(origin, set()).add(target)
                        continue
                    except zmq.ZMQError as error:
                        self._refuse(origin, frame, envelope, _code(error))
            if spent[origin] > SLICE:
                break
            option(_EVENTS)  # that took a while: makes ZeroMQ notice whose mail has come
        self._read += number
        return False

    def _ask(self, origin: bytes, frame: bytes, envelope: bytes) -> None:
        self._note_size(origin, len(envelope))
        cost = ASKED if frame != wire.TO_BROKER else ASKED + len(envelope) // HELLO_BYTES
        self._spent[origin] = self._spent.get(origin, 0) + cost
        self.step(Arrived(origin, frame, envelope))

    def _refuse(self, origin: bytes, frame: bytes, envelope: Envelope, code: str) -> None:
        self._spent[origin] = self._spent.get(origin, 0) + ASKED
        if code == "full" and len(envelope) > LARGE:
            self._offences.refuse(origin, frame, len(envelope))
        self.step(Unsent(origin, frame, head(envelope), code))

    def _note_size(self, origin: bytes, size: int) -> None:
        self.suspicion.bytes += size
        if size > HUGE:
            self._large.add(origin)
            self._larger.add(origin)

    def _fits(self, target: bytes, size: int, origin: bytes) -> bool:
        """Whether much may go to a peer: it reads, or little waits for it."""
        self._spent[origin] = self._spent.get(origin, 0) + size * PER_KIB // 1024
        self._note_size(origin, size)
        descriptor = self._liveness.descriptor(target)
        if descriptor is None:
            return True
        waiting = self._queued.get(target, 0)
        if waiting // QUEUE_STEP != (waiting + size) // QUEUE_STEP and not unread_by_peer(descriptor):
            waiting = 0
        if waiting and waiting + size > QUEUE_BYTES:
            return False
        if len(self._queued) > len(self._table.lanes):
            self._queued = {one: bytes_ for one, bytes_ in self._queued.items() if one in self._table.lanes}
        self._queued[target] = waiting + size
        return True

    def _route_many(self, origin: bytes, lane: dict[bytes, bytes], frame: bytes, envelope: bytes) -> None:
        """Route a message of several pairs; what goes to one connection leaves in one message."""
        frames = self._read_rest([frame, envelope])
        self._spent[origin] += PAIR * (len(frames) // 2 if frames else wire.PAIRS_MAX)
        if frames is None:
            self._offences.note(origin, GRAVE)
            return
        groups: dict[bytes, list[bytes]] = {}
        self._is_many = True
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
        self._is_many = False
        self._words.send()

    def _read_rest(self, frames: list[bytes]) -> list[bytes] | None:
        """The frames of the message that is being read, all of them; None if it has no form or is too long."""
        limit = 2 * wire.PAIRS_MAX
        count = len(frames)
        while self._option(_RCVMORE):
            frame = self._receive(_WAIT_NOT)
            count += 1
            if count <= limit:
                frames.append(frame)
        if count > limit or count % 2:
            self._counts["oversized" if count > limit else "malformed"] += 1
            return None
        return frames

    def _send_groups(self, origin: bytes, groups: dict[bytes, list[bytes]]) -> None:
        self._words.send()
        self._shares.wrote.setdefault(origin, set()).update(groups)
        for target, group in groups.items():
            size = sum(map(len, group))
            code = "full" if size > LARGE and not self._fits(target, size, origin) else self._push(target, group)
            if not code:
                self.routed += len(group) // 2
                continue
            for index in range(0, len(group), 2):
                self._refuse(origin, group[index], group[index + 1], code)

    def _hear_stranger(self, origin: bytes) -> None:
        """A message of one that has not said HELLO: read in frames that know the descriptor they came by."""
        first = self._router.recv(_WAIT_NOT, copy=False)
        descriptor = int(first.get(zmq.SRCFD))
        vouched = str(first.get("User-Id"))
        frames = self._read_rest([first.bytes])
        if self._lookout.is_leaving(origin):
            return
        if frames is None:
            self._offences.note(origin, GRAVE)
        elif not _is_automatic(origin):
            self._counts["chosen routing id"] += 1
            cut_off(descriptor)
            origin = vouched.encode()  # as each connection may choose another
            self._offences.note(origin, STRANGE)
        else:
            self._meet(origin, descriptor, frames, vouched)
        if self._offences.is_over(origin) and origin not in self._table.lanes:
            self._expel(origin, descriptor, vouched)

    def _meet(self, origin: bytes, descriptor: int, frames: list[bytes], vouched: str) -> None:
        lanes = self._table.lanes
        for index in range(0, len(frames), 2):
            cost = ASKED + len(frames[index + 1]) // HELLO_BYTES
            self._spent[origin] += cost
            self.step(Arrived(origin, frames[index], frames[index + 1], vouched=vouched))
            if origin not in lanes:  # what else it says is of no interest
                self._offences.note(origin, STRANGE + len(frames[index + 1]) // STRANGE_BYTES)
                break
        if origin in lanes:
            former = self._liveness.met(origin, descriptor)
            if former is not None:
                self._liveness.forget(former)
                self.step(Lost(former, "its connection is closed"))

    # --- commands of the table

    def step(self, event: Event) -> None:
        """Tell the table, and carry out what it says."""
        for command in self._table.step(event):
            self._handlers[type(command)](command)
            if isinstance(command, Count) and command.offence and isinstance(event, Arrived | Unsent):
                self._offences.note(event.connection, command.offence)
        if not self._is_many:
            self._words.send()

    def _forward(self, command: Forward) -> None:
        self._words.send()
        code = self._push(command.target, (command.frame, command.envelope))
        if code:
            self.step(Unsent(command.origin, command.frame, command.envelope, code))
        else:
            self.routed += 1
            self._shares.wrote.setdefault(command.origin, set()).add(command.target)

    def _tell(self, command: Tell) -> None:
        self._words.say(command.target, command.frame, command.envelope)

    def _push_word(self, target: bytes, frames: Sequence[bytes]) -> str:
        code = self._send_all(target, frames)
        if code and code != "full":
            self._counts[f"broker's word not delivered: {code}"] += len(frames) // 2
        return code

    def _count(self, command: Count) -> None:
        self._counts[command.what] += 1

    def _push(self, target: bytes, frames: Sequence[bytes]) -> str:
        """Send letters without waiting; the empty string, or why not. All frames or none are sent."""
        return "full" if target in self._words.waiting else self._send_all(target, frames)

    def _send_all(self, target: bytes, frames: Sequence[bytes]) -> str:
        send = self._send
        try:
            send(target, _MORE)
            for frame in frames[:-1]:
                send(frame, _MORE)
            send(frames[-1], _WAIT_NOT)
        except zmq.ZMQError as error:
            return _code(error)
        return ""


def _is_automatic(connection: bytes) -> bool:
    """Whether the ROUTER made this routing id itself. A peer that chose its own could wait for another's to be free."""
    return len(connection) == 5 and connection[0] == 0


def _code(error: zmq.ZMQError) -> str:
    return "full" if error.errno == errno.EAGAIN else "gone"
