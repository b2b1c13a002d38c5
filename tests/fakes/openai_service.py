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
import time
import uuid
from typing import Any

from cast_author import author, directives
from loopback_service import JsonHandler, LoopbackService


class Handler(JsonHandler):
    server: LoopbackService

    def error(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.reply(status, {"error": {"message": f"fake error {status}", "type": "fake", "code": None}}, headers)

    def do_POST(self) -> None:  # noqa: N802
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
        if status and self.server.is_among(tries, asked["fail"]):
            return self.error(int(status), self.failure(asked))
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


def main() -> None:
    parser = argparse.ArgumentParser(description="A fake of the OpenAI Responses API on loopback.")
    parser.add_argument("--port-file", required=True)
    chosen = parser.parse_args()
    service = LoopbackService(0, Handler)
    service.write_port(chosen.port_file)
    service.serve_forever()


if __name__ == "__main__":
    main()
