"""Who gets through the handshake: ZeroMQ asks before a connection may send anything (ZAP, ZeroMQ RFC 27).

On ipc the mechanism is PLAIN: the user name is the principal, the password its secret in hexadecimal. On tcp it is
CURVE, and the key names the principal. A stranger's connection ends here, and nothing it sends is ever a message.

ZeroMQ keeps the pipe between a connection and whoever answered for as long as the connection lives, 9 KiB each
(measured with 2,000). So the socket that answers is replaced whenever a number of connections have come through and
none is waiting.
"""

import contextlib
from collections.abc import Container, Sequence
from typing import Final, NamedTuple

import zmq

from partyctl_broker.auth import Roll

DOMAIN: Final = b"partyctl"
ENDPOINT: Final = "inproc://zeromq.zap.01"
RENEW_AFTER: Final = 64
"""Handshakes after which the socket is replaced."""
LINGER: Final = 100
"""Milliseconds that a socket which is replaced goes on sending its answers."""
REFUSED: Final = 400
"""The status that a peer hears if nobody vouches for it."""
LATER: Final = 500
"""The status that a peer hears if it may try again: the broker has no descriptor left, or has shown its principal out a
moment ago. ZeroMQ passes nothing on but the status, and of the statuses it knows the peer would hang on 300."""
_VERSION: Final = b"1.0"
_WAIT_NOT: Final = int(zmq.NOBLOCK)


class Verdict(NamedTuple):
    """The answer to a handshake: a status, why, and the principal it is let in as."""

    status: int
    why: str
    principal: str = ""


def judge(request: Sequence[bytes], roll: Roll, *, crowded: bool, banned: Container[str] = ()) -> Verdict:
    """Let in or not; pure.

    Args:
        request: the frames: version, request id, domain, address, routing id, mechanism, credentials.
        roll: the principals.
        crowded: whether there is no room for anybody.
        banned: the principals that were shown out a moment ago.
    """
    if len(request) < 6 or request[0] != _VERSION:
        return Verdict(REFUSED, "malformed")
    mechanism, credentials = request[5], request[6:]
    name = None
    if mechanism == b"PLAIN" and len(credentials) == 2:
        name = roll.by_password(credentials[0], credentials[1])
    elif mechanism == b"CURVE" and len(credentials) == 1:
        name = roll.by_key(credentials[0])
    if name is None:
        return Verdict(REFUSED, "principal")
    if name in banned:
        return Verdict(LATER, "shown out")
    return Verdict(LATER, "descriptors") if crowded else Verdict(200, "", name)


def reply(request: Sequence[bytes], verdict: Verdict) -> list[bytes]:
    """The frames of an answer."""
    number = request[1] if len(request) > 1 else b""
    return [_VERSION, number, b"%d" % verdict.status, verdict.why.encode(), verdict.principal.encode(), b""]


class Gate:
    """The socket that ZeroMQ asks.

    Args:
        context: that of the sockets whose connections are asked for.
        roll: the principals.
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", roll: Roll) -> None:
        self._context, self._roll = context, roll
        self._served = 0
        self._socket = self._open()

    def fileno(self) -> int:
        """The descriptor that tells of questions; another one after each `renew`."""
        return int(self._socket.getsockopt(zmq.FD))

    @property
    def is_worn(self) -> bool:
        """Whether it has served so many that it is worth replacing."""
        return self._served >= RENEW_AFTER

    def answer(self, *, crowded: bool, banned: Container[str]) -> list[Verdict]:
        """Answer all questions that are there; the verdicts."""
        return self._answer(self._socket, crowded, banned)

    def renew(self, *, crowded: bool, banned: Container[str]) -> list[Verdict]:
        """Replace the socket, which frees what it kept for each connection; the verdicts of the last questions."""
        former = self._socket
        # Between these two lines ZeroMQ finds nobody to ask, and refuses a connection; its peer tries again.
        former.unbind(ENDPOINT)
        self._socket, self._served = self._open(), 0
        verdicts = self._answer(former, crowded, banned)
        former.close(LINGER)
        return verdicts

    def close(self) -> None:
        """Close the socket."""
        self._socket.close(0)

    def _open(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.REP)
        socket.bind(ENDPOINT)
        return socket

    def _answer(self, socket: zmq.Socket[bytes], crowded: bool, banned: Container[str]) -> list[Verdict]:
        verdicts = []
        with contextlib.suppress(zmq.Again):
            while True:
                request = socket.recv_multipart(_WAIT_NOT)
                verdict = judge(request, self._roll, crowded=crowded, banned=banned)
                socket.send_multipart(reply(request, verdict), _WAIT_NOT)
                verdicts.append(verdict)
                self._served += 1
        return verdicts
