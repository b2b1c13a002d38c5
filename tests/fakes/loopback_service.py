"""What the fakes of web APIs share: a service on loopback that answers in JSON. Standard library only."""

import json
import os
import threading
from collections.abc import Hashable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class JsonHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def reply(self, status: int, value: object, headers: dict[str, str] | None = None) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def failure(self, asked: dict[str, str]) -> dict[str, str]:
        """The headers of a failure that was asked for."""
        return {"retry-after": asked["retryafter"]} if "retryafter" in asked else {}


class LoopbackService(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, handler: type[JsonHandler]) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.lock = threading.Lock()
        self._tries: dict[Hashable, int] = {}

    def handle_error(self, *_: object) -> None:
        """A client that was killed or gave up resets its connection; that is what these fakes are about."""

    def is_among(self, tries: str, key: Hashable) -> bool:
        """Whether this request still counts among the first `tries` with its key; no number: always."""
        if not tries:
            return True
        with self.lock:
            self._tries[key] = self._tries.get(key, 0) + 1
            return self._tries[key] <= int(tries)

    def write_port(self, path: str) -> None:
        """Write the port to a file, whole or not at all."""
        with open(f"{path}.new", "w", encoding="ascii") as file:
            file.write(str(self.server_address[1]))
        os.replace(f"{path}.new", path)
