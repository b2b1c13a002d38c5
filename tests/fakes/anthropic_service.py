#!/usr/bin/env python3
"""A fake of the Anthropic Messages API on loopback, for runs of the real `claude` without network.

Standard library only. A directive in the newest line of the prompt that has any decides the behaviour, so the service
keeps no scenario; without one, the prompt of an agent in a cast is answered with an offered message (cast_author.py),
anything else with "ok".

  [[say:TEXT]]           answer TEXT
  [[recall]]             answer with every earlier answer in this conversation, joined by " | "
  [[chunks:N:SECONDS]]   N text deltas, one every SECONDS
  [[delay:SECONDS]]      wait before the response headers
  [[stall:SECONDS]]      send the start of the answer, then wait with the stream open, then answer
  [[stall:SECONDS:N]]    the same for the first N requests with this line, the rest are answered at once
  [[fail:STATUS]]        HTTP STATUS with an Anthropic error body; [[fail:STATUS:N]] for the first N requests only
  [[retryafter:SECONDS]] a retry-after header on the failures
  [[midfail]], [[cut]]   one delta, then an SSE overloaded_error / a closed socket (529 without "stream")
  [[tool:NAME:JSON]]     one tool_use block; its tool_result is answered with "tool said: RESULT"
  [[label:NAME]]         which label an agent in a cast chooses

Usage: anthropic_service.py [--port 0] [--port-file FILE] [--log FILE.jsonl]
It prints its URL, writes its port to FILE (whole or not at all) and runs until it is ended.
"""

import argparse
import json
import time
import uuid
from typing import Any, TextIO

from cast_author import author, directives
from loopback_service import JsonHandler, LoopbackService

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
MESSAGES = {401: "invalid x-api-key", 429: "This request would exceed your rate limit.", 529: "Overloaded"}


def blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def newest_user(body: dict[str, Any]) -> tuple[str, list[str]]:
    """The newest prompt and tool results: everything of the user since the last answer, reminders left out."""
    texts: list[str] = []
    results: list[str] = []
    for message in reversed(body.get("messages", [])):
        if message["role"] == "assistant":
            break
        if message["role"] != "user":
            continue
        part = []
        for block in blocks(message):
            if block["type"] == "text":
                # A steered message arrives inside a reminder.
                if not block["text"].lstrip().startswith("<system-reminder>") or "[[" in block["text"]:
                    part.append(block["text"])
            elif block["type"] == "tool_result":
                inner = block.get("content", "")
                if isinstance(inner, list):
                    inner = "".join(item.get("text", "") for item in inner)
                results.append(inner)
        texts = part + texts
    return "\n".join(texts), results


def earlier_answers(body: dict[str, Any]) -> list[str]:
    said = [message for message in body.get("messages", []) if message["role"] == "assistant"]
    return [block["text"] for message in said for block in blocks(message) if block["type"] == "text"]


def earlier_prompts(body: dict[str, Any]) -> list[str]:
    said = [message for message in body.get("messages", []) if message["role"] == "user"]
    return [block["text"] for message in said for block in blocks(message) if block["type"] == "text"]


class Handler(JsonHandler):
    server: "Service"

    def error(self, status: int, headers: dict[str, str] | None = None) -> None:
        fault = {"type": ERRORS.get(status, "api_error"), "message": MESSAGES.get(status, f"fake error {status}")}
        self.reply(status, {"type": "error", "error": fault}, headers)

    def do_HEAD(self) -> None:  # noqa: N802
        self.reply(200, {})

    def do_GET(self) -> None:  # noqa: N802
        self.server.note({"event": "request", "method": "GET", "path": self.path})
        self.error(404)

    def do_POST(self) -> None:  # noqa: N802
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.loads(raw or b"{}")
        path = self.path.split("?")[0]
        prompt, results = newest_user(body) if "messages" in body else ("", [])
        self.server.note({"event": "request", "path": path, "prompt": prompt[-2000:], "tool_results": results})
        if path == "/v1/messages/count_tokens":
            self.reply(200, {"input_tokens": max(1, len(raw) // 4)})
        elif path != "/v1/messages":
            self.error(404)
        else:
            try:
                self.messages(body, prompt, results, len(raw))
            except (BrokenPipeError, ConnectionResetError):
                self.server.note({"event": "client_closed", "prompt": prompt[-2000:]})
                self.close_connection = True

    def messages(self, body: dict[str, Any], prompt: str, results: list[str], size: int) -> None:
        asked = directives(prompt)
        if results and not asked:
            asked = {"say": "tool said: " + " | ".join(text.strip() for text in results)}
        if "delay" in asked:
            time.sleep(float(asked["delay"]))
        status, _, tries = asked.get("fail", "").partition(":")
        if status and self.server.within("fail", asked, prompt, tries):
            return self.error(int(status), self.failure(asked))
        if not body.get("stream") and ("midfail" in asked or "cut" in asked):
            return self.error(529)
        start, deltas, block = self.answer(asked, body, prompt)
        counted = {"input_tokens": max(1, size // 4), "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        message = {
            "id": f"msg_{uuid.uuid4().hex[:24]}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "fake"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": dict(counted, output_tokens=1),
        }
        end = {
            "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
            "usage": dict(counted, output_tokens=max(1, len(json.dumps(block)) // 4)),
        }
        # The CLI asks again without a stream after one that broke.
        if not body.get("stream"):
            return self.reply(200, dict(message, content=[block], **end))
        return self.stream(asked, prompt, message, start, deltas, end)

    def answer(
        self, asked: dict[str, str], body: dict[str, Any], prompt: str
    ) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
        """The content block as it starts, its deltas, and as a whole."""
        if "tool" in asked:
            name, _, argument = asked["tool"].partition(":")
            whole = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:22]}", "name": name}
            given = json.loads(argument or "{}")
            delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
            return dict(whole, input={}), [delta], dict(whole, input=given)
        if "chunks" in asked:
            parts = [f"part{n} " for n in range(int(asked["chunks"].partition(":")[0]))]
        elif "recall" in asked:
            parts = [" | ".join(earlier_answers(body))]
        else:
            parts = [asked.get("say") or author(prompt, earlier_prompts(body)) or "ok"]
        deltas = [{"type": "text_delta", "text": part} for part in parts]
        return {"type": "text", "text": ""}, deltas, {"type": "text", "text": "".join(parts)}

    def stream(
        self,
        asked: dict[str, str],
        prompt: str,
        message: dict[str, Any],
        start: dict[str, Any],
        deltas: list[dict[str, Any]],
        end: dict[str, Any],
    ) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        self.sse("message_start", {"message": message})
        seconds, _, tries = asked.get("stall", "").partition(":")
        if seconds and self.server.within("stall", asked, prompt, tries):
            self.server.note({"event": "stalled", "prompt": prompt[-2000:]})
            until = time.monotonic() + float(seconds)
            while (left := until - time.monotonic()) > 0:
                time.sleep(min(0.25, left))
                self.sse("ping", {})  # also how the service notices that the client went away
        self.sse("content_block_start", {"index": 0, "content_block": start})
        pause = float(asked.get("chunks", "").partition(":")[2] or 0)
        for number, delta in enumerate(deltas):
            time.sleep(pause if number else 0)
            self.sse("content_block_delta", {"index": 0, "delta": delta})
            if "midfail" in asked:
                return self.sse("error", {"error": {"type": "overloaded_error", "message": "Overloaded"}})
            if "cut" in asked:
                return None
        self.sse("content_block_stop", {"index": 0})
        delta = {"stop_reason": end["stop_reason"], "stop_sequence": None}
        self.sse("message_delta", {"delta": delta, "usage": end["usage"]})
        return self.sse("message_stop", {})

    def sse(self, kind: str, data: dict[str, Any]) -> None:
        self.wfile.write(f"event: {kind}\ndata: {json.dumps(dict(data, type=kind))}\n\n".encode())
        self.wfile.flush()


class Service(LoopbackService):
    def __init__(self, port: int = 0, log: TextIO | None = None) -> None:
        super().__init__(port, Handler)
        self._log = log

    def within(self, kind: str, asked: dict[str, str], prompt: str, tries: str) -> bool:
        """Whether this request still counts among the first `tries` with its line."""
        # Newest line only, as for the directives: a failed prompt comes again joined with the next.
        mark = f"[[{kind}:{asked[kind]}]]"
        return self.is_among(tries, (kind, next(text for text in reversed(prompt.split("\n")) if mark in text)))

    def note(self, row: dict[str, object]) -> None:
        """One line of the log; written at once, so that a test can wait for it."""
        if self._log is not None:
            with self.lock:
                self._log.write(json.dumps(row) + "\n")
                self._log.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description="A fake of the Anthropic Messages API on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-file")
    parser.add_argument("--log")
    chosen = parser.parse_args()
    log = open(chosen.log, "a", encoding="utf-8") if chosen.log else None  # noqa: SIM115 - open as long as the service
    service = Service(chosen.port, log)
    if chosen.port_file:
        service.write_port(chosen.port_file)
    print(f"http://127.0.0.1:{service.server_address[1]}", flush=True)
    service.serve_forever()


if __name__ == "__main__":
    main()
