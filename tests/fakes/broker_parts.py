"""What the parts of a broker's shell have to do with, without a socket."""

from partyctl_broker.bans import Bans
from partyctl_broker.liveness import Liveness
from partyctl_broker.words import Words


class FakeSending:
    """Queues that take all, but for those that were told to answer something else.

    Attributes:
        sent: (target, frames) in order, letters and words.
        answers: what a target's queue says: `full` or `gone`.
    """

    def __init__(self):
        self.sent, self.answers = [], {}
        self.words = Words(self._send)

    def letter(self, target, frames):
        return self._send(target, frames)

    def is_reachable(self, connection):
        return self.answers.get(connection) != "gone"

    def _send(self, target, frames):
        answer = self.answers.get(target, "")
        if not answer:
            self.sent.append((target, list(frames)))
        return answer


class FakeLookout:
    """Connections that are ended on paper.

    Attributes:
        ended: who, in order: (connection, whether at once).
        told: what the host was told.
        looks: how often the monitor was read.
        fresh: the descriptors of new connections.
    """

    def __init__(self):
        self.liveness, self.bans = Liveness(), Bans()
        self.ended, self.told, self.looks, self.fresh = [], [], 0, set()

    def read_monitor(self, now):
        self.looks += 1

    def ban(self, principal, process_name, why, now):
        self.told.append((principal, why))
        return self.bans.add(principal, why, now)

    def cut(self, connection, now):
        self.ended.append((connection, False))

    def cut_at_once(self, connection, descriptor, now):
        self.ended.append((connection, True))
