"""The yardstick of the broker: three processes on bare pyzmq over ipc, and no guarantee whatever.

    python -m benchmarks.yardsticks.forwarding_loop loop|far|near ENDPOINT

`loop` is a ROUTER that swaps two frames; it drops what is for nobody, never refuses, and keeps without a bound what a
slow reader leaves. The ends are DEALERs that pack and unpack a ten-field msgpack envelope around 200 bytes. `far` sends
every request back, and counts what is one way. `near` measures, and is told what by its standard input.
"""

import sys
import time

import msgpack
import zmq

from benchmarks.errands import PAYLOAD, obey


def fields(kind: str, sequence: int, exchange: int = 0) -> dict[str, object]:
    """Ten fields, as an actor system would send them."""
    begin = {"v": 1, "kind": kind, "id": sequence, "cause": sequence, "source": "near", "destination": "far"}
    return begin | {"run": exchange, "step": sequence, "trace": b"t" * 16, "payload": PAYLOAD}


def loop(endpoint: str) -> None:
    """Swap destination and source, for ever."""
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.setsockopt(zmq.SNDHWM, 0)  # without this it loses what comes faster than it is read
    socket.bind(endpoint)
    while True:
        message = socket.recv_multipart()
        message[0], message[1] = message[1], message[0]
        socket.send_multipart(message)


def dealer(endpoint: str, name: bytes) -> "zmq.Socket[bytes]":
    """A connected DEALER of that name."""
    socket: zmq.Socket[bytes] = zmq.Context().socket(zmq.DEALER)
    socket.setsockopt(zmq.ROUTING_ID, name)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(endpoint)
    return socket


def far(endpoint: str) -> None:
    """Unpack, pack, send back, for ever. One way: count, and say how many when the last one is there."""
    socket = dealer(endpoint, b"far")
    count = 0
    while True:
        source, packed = socket.recv_multipart()
        request = msgpack.unpackb(packed)
        if request["kind"] == "one way":
            count += 1
            if request["step"]:
                continue
            request["id"], count = count, 0
        socket.send_multipart([source, msgpack.packb(request)])


class Near:
    """The end that measures."""

    def __init__(self, endpoint: str) -> None:
        self._socket = dealer(endpoint, b"near")
        while True:  # the loop drops what comes before the other end is there
            self._send(fields("request", 0))
            if self._socket.poll(200):
                break
        while self._socket.poll(300):
            self._socket.recv_multipart()

    def _send(self, message: dict[str, object]) -> None:
        self._socket.send_multipart([b"far", msgpack.packb(message)])

    def _receive(self) -> "dict[str, int]":
        if not self._socket.poll(60_000):
            raise SystemExit("the yardstick lost a message")
        message: dict[str, int] = msgpack.unpackb(self._socket.recv_multipart()[1])
        return message

    def trips(self, count: int) -> list[float]:
        """The milliseconds of each of `count` round trips, one after the other."""
        times: list[float] = []
        for number in range(count):
            start = time.perf_counter()
            self._send(fields("request", number))
            self._receive()
            times.append((time.perf_counter() - start) * 1000)
        return times

    def one_way(self, count: int) -> float:
        """The seconds until the other end has counted `count` messages."""
        start = time.perf_counter()
        for number in range(count - 1, -1, -1):
            self._send(fields("one way", number))
        arrived = self._receive()["id"]
        assert arrived == count, f"{arrived} of {count} arrived"
        return time.perf_counter() - start

    def exchanges(self, count: int, steps: int) -> float:
        """The seconds that `count` exchanges of `steps` requests and replies take at once."""
        start = time.perf_counter()
        for exchange in range(count):
            self._send(fields("request", 0, exchange))
        left = count * steps
        while left:
            reply = self._receive()
            left -= 1
            if reply["step"] + 1 < steps:
                self._send(fields("request", reply["step"] + 1, reply["run"]))
        return time.perf_counter() - start


if __name__ == "__main__":
    role, where = sys.argv[1:]
    if role == "near":
        obey(Near(where))
    else:
        {"loop": loop, "far": far}[role](where)
