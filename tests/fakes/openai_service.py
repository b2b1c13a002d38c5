#!/usr/bin/env python3
"""A fake of the OpenAI Responses API on loopback. Standard library only, no streams.

A directive in the newest line of the newest prompt that has any decides the behaviour; without one, the prompt of an
agent in a cast is answered with an offered message (cast_author.py), anything else with "ok".

  [[say:TEXT]]           answer TEXT
  [[refuse:TEXT]]        a refusal
  [[delay:SECONDS]]      wait before the response headers
  [[fail:STATUS]]        HTTP STATUS with an OpenAI error body; [[fail:STATUS:N]] for the first N requests only
  [[retryafter:SECONDS]] a retry-after header on the failures
  [[broken]]             an answer with status "failed"
  [[label:NAME]]         which label an agent in a cast chooses

Every answer costs 7 tokens in and 5 out. Usage: openai_service.py [--port-file FILE]
"""

import argparse
import json
import os
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cast_author import author, directives


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Service"

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
        self.wfile.write(raw)

    def error(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.reply(status, {"error": {"message": f"fake error {status}", "type": "fake", "code": None}}, headers)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        if self.path != "/v1/responses":
            return self.error(404)
        if self.headers.get("authorization") != "Bearer right":
            return self.error(401)
        prompts = [turn["content"] for turn in body["input"] if turn["role"] == "user"]
        asked = directives(prompts[-1])
        if "delay" in asked:
            time.sleep(float(asked["delay"]))
        status, _, tries = asked.get("fail", "").partition(":")
        if status and self.server.within(asked["fail"], tries):
            return self.error(int(status), {"retry-after": asked["retryafter"]} if "retryafter" in asked else {})
        return self.reply(200, response(body, asked, prompts))


def response(body: dict[str, Any], asked: dict[str, str], prompts: list[str]) -> dict[str, Any]:
    text = asked.get("say") or author(prompts[-1], prompts[:-1]) or "ok"
    content = {"type": "output_text", "text": text, "annotations": []}
    if "refuse" in asked:
        content = {"type": "refusal", "refusal": asked["refuse"]}
    failed = "broken" in asked
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [content]}
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "model": body["model"],
        "status": "failed" if failed else "completed",
        "error": {"code": "server_error", "message": "it broke"} if failed else None,
        "output": [] if failed else [message],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 7,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 12,
        },
    }


class Service(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._lock = threading.Lock()
        self._tries: dict[str, int] = {}

    def handle_error(self, *_: object) -> None:
        """A client that gave up resets its connection; that is what these tests are about."""

    def within(self, directive: str, tries: str) -> bool:
        """Whether this request still counts among the first `tries`; no number: always."""
        if not tries:
            return True
        with self._lock:
            self._tries[directive] = self._tries.get(directive, 0) + 1
            return self._tries[directive] <= int(tries)


def main() -> None:
    parser = argparse.ArgumentParser(description="A fake of the OpenAI Responses API on loopback.")
    parser.add_argument("--port-file", required=True)
    chosen = parser.parse_args()
    service = Service()
    with open(f"{chosen.port_file}.new", "w", encoding="ascii") as file:
        file.write(str(service.server_address[1]))
    os.replace(f"{chosen.port_file}.new", chosen.port_file)
    service.serve_forever()


if __name__ == "__main__":
    main()
