#!/usr/bin/env python3
"""A scripted stand-in for the `claude` CLI in stream-json mode, frames shaped by recordings of 2.1.332.

It starts in 40 ms instead of 800, needs no service, and misbehaves on demand. Conversations are kept as files in
$HOME/.fake-claude, so `--resume` works across processes. The newest line of the prompt that has directives decides:

  [[say:TEXT]]  [[recall]] (earlier answers, joined by " | ")  [[env:NAME]]  [[argv]]  answer with that
  [[json:TEXT]]         answer with what this JSON text stands for
  [[fail:STATUS]]       an API error result         [[error:TEXT]] the same without a status
  [[stall]]             wait for an interrupt       [[ignore]] stall and take no notice of interrupts
                        [[ignore:result]] but for the reply; [[ignore:reply]] but for the result
  [[crash:STATUS]]      exit in mid-turn; [[crash:SIGKILL]] by a signal
  [[noise:N]]           N lines that are not frames [[stderr:BYTES]] flood stderr before the answer
  [[long:BYTES]]        an answer that large        [[split]] write the answer byte by byte
  [[unknown]]           frames of kinds nobody knows
  [[ask]]               a can_use_tool request; the answer tells what was replied. [[ask:SUBTYPE]] another request
  [[denied]]            a result with a permission denial
  [[holder:SECONDS]]    a grandchild that keeps stdout open that long (with [[crash]]: longer than the CLI);
                        its pid is in $HOME/holder.pid
  [[deaf]]              never read stdin again, and say nothing more
  [[shut]]              answer, and never read stdin again
  [[flood:MIB]]         say that much before the answer
  [[later:SECONDS]]     after the result, with no turn running, send a can_use_tool request and note the reply

Words in $FAKE_CLAUDE act from the start: `hang` (no answer to initialize), `deaf` (never reads), `die` (exit 3),
`noise`, `flood` (stderr without end), `ignore_term`, `exit_0` (SIGTERM and an interrupt end it with status 0), `stay`
(does not end at end of input), `busy` (starts alone in its $HOME, or fails).
Without a directive, the prompt of an agent in a cast is answered with an offered message, anything else with "ok".
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any, NoReturn

from cast_author import author, directives

Frame = dict[str, Any]


class Cli:
    def __init__(self, argv: list[str]) -> None:
        self.words = os.environ.get("FAKE_CLAUDE", "").split()
        self.argv = argv
        self.queued: list[Frame] = []
        self.prompts: list[str] = []
        self.exit_status = 0
        resumed = [word.partition("=")[2] for word in argv if word.startswith("--resume=")]
        self.session = resumed[0] if resumed else str(uuid.uuid4())
        self.store = Path(os.environ["HOME"], ".fake-claude", self.session)
        if resumed and not self.store.exists():
            self.refuse_resume()
        self.answers: list[str] = json.loads(self.store.read_text()) if resumed else []

    def refuse_resume(self) -> NoReturn:
        text = f"No conversation found with session ID: {self.session}"
        print(text, file=sys.stderr, flush=True)
        self.result(subtype="error_during_execution", is_error=True, num_turns=0, errors=[text])
        sys.exit(1)

    # -- frames ------------------------------------------------------------
    def write(self, **frame: object) -> None:
        self.write_bytes(json.dumps(frame).encode() + b"\n")

    def write_bytes(self, data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]

    def result(self, **fields: object) -> None:
        # As in the recordings, "type" is not always the first key.
        frame = {
            "session_id": self.session,
            "total_cost_usd": 0.01 * (len(self.answers) if hasattr(self, "answers") else 0),
            "usage": {
                "input_tokens": 100,
                "output_tokens": 10,
                "cache_creation_input_tokens": 20,
                "cache_read_input_tokens": 30,
            },
            "permission_denials": [],
            "is_error": False,
            "num_turns": 1,
            "subtype": "success",
            "terminal_reason": "completed",
            "api_error_status": None,
            "duration_ms": 5,
            "type": "result",
        }
        frame.update(fields)
        self.exit_status = int(bool(frame["is_error"]))
        self.write(**frame)

    def assistant(self, content: list[Frame], **fields: object) -> None:
        message = {"id": "msg_1", "role": "assistant", "model": "fake", "content": content, "stop_reason": None}
        self.write(type="assistant", message=message, parent_tool_use_id=None, session_id=self.session, **fields)

    def read(self) -> Frame:
        """The next frame of the client; ends the process at end of input, as the CLI does."""
        line = sys.stdin.buffer.readline()
        if not line:
            if "stay" in self.words:
                time.sleep(3600)
            sys.exit(self.exit_status)
        try:
            frame: Frame = json.loads(line)
        except ValueError:
            print("Error parsing streaming input line", file=sys.stderr, flush=True)
            sys.exit(1)
        return frame

    def reply(self, request: Frame, **response: object) -> None:
        inner = {"subtype": "success", "request_id": request["request_id"], "response": response}
        self.write(type="control_response", response=inner)

    # -- life --------------------------------------------------------------
    def run(self) -> NoReturn:
        if "ignore_term" in self.words:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if "exit_0" in self.words:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        if "noise" in self.words:
            self.write_bytes(b"Warning: something on the wrong stream\n\xff\xfe\n[1, 2]\n\n")
        if "flood" in self.words:
            threading.Thread(target=self.flood, daemon=True).start()
        if "die" in self.words:
            print("fake claude: cannot start", file=sys.stderr, flush=True)
            sys.exit(3)
        if "busy" in self.words:
            self.start_alone()
        if "deaf" in self.words:
            time.sleep(3600)
        while True:
            frame = self.queued.pop(0) if self.queued else self.read()
            if frame.get("type") == "control_request":
                self.control(frame)
            elif frame.get("type") == "user":
                self.turn(frame)

    def start_alone(self) -> None:
        lock = Path(os.environ["HOME"]) / "lock"
        try:
            lock.mkdir()
        except FileExistsError:
            sys.exit("SqliteError: database is locked")
        time.sleep(0.03)
        lock.rmdir()

    def flood(self) -> None:
        while True:
            os.write(2, b"complaint " * 800 + b"\n")

    def control(self, frame: Frame) -> None:
        subtype = frame["request"]["subtype"]
        if subtype == "initialize" and "hang" not in self.words:
            self.reply(frame, pid=os.getpid(), claude_code_version="2.1.332", session_state="idle")
        elif subtype == "interrupt":
            self.reply(frame, still_queued=[])
        elif subtype != "initialize":
            fault = {"subtype": "error", "request_id": frame["request_id"], "error": f"Unsupported: {subtype}"}
            self.write(type="control_response", response=fault)

    def turn(self, frame: Frame) -> None:
        text = frame["message"]["content"]
        asked = directives(text)
        self.prompts.append(text)
        for state in ("queued", "started"):
            self.write(type="command_lifecycle", command_uuid=frame["uuid"], state=state, session_id=self.session)
        self.write(type="system", subtype="init", session_id=self.session, model="fake", tools=["Bash"])
        self.store.parent.mkdir(parents=True, exist_ok=True)
        self.store.write_text(json.dumps(self.answers))
        self.disturb(asked)
        if "fail" in asked or "error" in asked:
            self.api_error(asked.get("fail"), asked.get("error", "Overloaded"))
        elif "stall" in asked or "ignore" in asked:
            self.stall(asked.get("ignore"))
        else:
            denials = [{"tool_name": "Bash", "tool_use_id": "toolu_9", "tool_input": {"command": "rm x"}}]
            self.answer(self.text(asked, text), "split" in asked, denials if "denied" in asked else [])
        self.write(type="command_lifecycle", command_uuid=frame["uuid"], state="completed", session_id=self.session)
        if "shut" in asked:
            time.sleep(3600)
        if "later" in asked:
            time.sleep(float(asked["later"]))
            Path(os.environ["HOME"], "later.json").write_text(json.dumps(self.ask("can_use_tool")))

    def disturb(self, asked: dict[str, str]) -> None:
        """What goes wrong between the start of a turn and its answer."""
        self.write_bytes(b"debug: not a frame\n" * int(asked.get("noise") or 0))
        if "stderr" in asked:
            sys.stderr.write("e" * int(asked["stderr"]) + "\nlast words\n")
            sys.stderr.flush()
        if "unknown" in asked:
            self.write(type="hologram", shape="cube")
            self.write(type="system", subtype="mood", mood="sunny")
            self.write(type=None, message=7)
            self.write(type="assistant", message="not an object")
            self.write(type="user", message={"content": [None, {"type": "tool_result"}]})
        if "holder" in asked:
            child = subprocess.Popen(["sleep", asked["holder"]], start_new_session=True)
            Path(os.environ["HOME"], "holder.pid").write_text(str(child.pid))
        if "crash" in asked:
            print("fake claude: crashing", file=sys.stderr, flush=True)
            if asked["crash"].startswith("SIG"):
                os.kill(os.getpid(), getattr(signal, asked["crash"]))
            os._exit(int(asked["crash"] or 1))
        if "deaf" in asked:
            time.sleep(3600)
        for _ in range(int(asked.get("flood") or 0) * 16):
            self.assistant([{"type": "text", "text": "x" * 65536}])

    def text(self, asked: dict[str, str], prompt: str) -> str:
        if "recall" in asked:
            return " | ".join(self.answers)
        if "env" in asked:
            return os.environ.get(asked["env"], "unset")
        if "argv" in asked:
            return json.dumps(self.argv)
        if "ask" in asked:
            return json.dumps(self.ask(asked["ask"] or "can_use_tool"))
        if "json" in asked:
            return str(json.loads(asked["json"]))
        if "long" in asked:
            return "x" * int(asked["long"])
        return asked.get("say") or author(prompt, self.prompts) or "ok"

    def answer(self, text: str, split: bool, denials: list[Frame]) -> None:
        self.answers.append(text)
        self.store.write_text(json.dumps(self.answers))
        if split:
            inner = {"content": [{"type": "text", "text": text}]}
            for byte in json.dumps({"type": "assistant", "message": inner}).encode() + b"\n":
                os.write(1, bytes([byte]))
        else:
            self.assistant([{"type": "text", "text": text}])
        self.result(result=text, permission_denials=denials)

    def ask(self, subtype: str) -> Frame:
        """Send a request to the client and wait for its answer."""
        number = f"ask-{uuid.uuid4().hex[:8]}"
        request = {"subtype": subtype, "tool_name": "Bash", "input": {"command": "rm x"}, "tool_use_id": "toolu_1"}
        self.write(type="control_request", request_id=number, request=request)
        while True:
            frame = self.read()
            if frame.get("type") == "control_response" and frame["response"]["request_id"] == number:
                response: Frame = frame["response"]
                return response
            self.queued.append(frame)

    def api_error(self, status: str | None, text: str) -> None:
        number = int(status) if status else None
        kinds = {401: "authentication_failed", 429: "rate_limit", 500: "server_error", 529: "server_error"}
        said = f"API Error: {number} {text}" if number else text
        self.assistant([{"type": "text", "text": said}], error=kinds.get(number or 0, "unknown"))
        self.result(is_error=True, result=said, api_error_status=number, terminal_reason="api_error")

    def stall(self, ignores: str | None) -> None:
        """Work until interrupted; other input waits in the queue, as in the CLI. `ignores`: what it withholds then."""
        self.assistant([{"type": "text", "text": "partial"}])
        while True:
            frame = self.read()
            if frame.get("type") != "control_request" or frame["request"]["subtype"] != "interrupt":
                self.queued.append(frame)
                continue
            if "exit_0" in self.words:
                sys.exit(0)
            if ignores in (None, "result"):
                self.reply(frame, still_queued=[])
            if ignores in (None, "reply"):
                break
        interrupted = [{"type": "text", "text": "[Request interrupted by user]"}]
        self.write(type="user", message={"role": "user", "content": interrupted}, session_id=self.session)
        self.result(subtype="error_during_execution", is_error=True, terminal_reason="aborted_streaming", errors=["x"])


if __name__ == "__main__":
    if "--version" in sys.argv:
        print("2.1.332 (Claude Code)")
    else:
        Cli(sys.argv[1:]).run()
