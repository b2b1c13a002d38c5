#!/usr/bin/env python3
"""A stand-in for the `claude` CLI in stream-json mode that answers every message at once, with "done"."""

import json
import sys

SESSION = "instant-claude"


def say(**frame: object) -> None:
    print(json.dumps({"session_id": SESSION, **frame}), flush=True)


def main() -> None:
    if "--help" in sys.argv or "--version" in sys.argv:
        print("2.1.304 (Claude Code)")
        return
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["type"] == "control_request":
            response = {"subtype": "success", "request_id": frame["request_id"], "response": {}}
            say(type="control_response", response=response)
        elif frame["type"] == "user":
            say(type="system", subtype="init")
            say(type="assistant", message={"id": "m", "model": "m", "content": [{"type": "text", "text": "done"}]})
            say(
                type="result", subtype="success", is_error=False, result="done", num_turns=1, duration_ms=1,
                usage={"input_tokens": 1, "output_tokens": 1}, total_cost_usd=0.0,
            )  # fmt: skip


if __name__ == "__main__":
    main()
