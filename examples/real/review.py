"""The review loop of `examples/review.py` with the Writer played by Claude Code, on a task read from a file.

    make demo-real          with a fake service on loopback: no key, no network
    partyctl run examples/real/review.py    with your own login

The file is `task.txt` beside this one, or the one that TASK_FILE names. CLAUDE_BINARY names the command if it is not
`claude` on PATH.
"""

import os
import sys
from pathlib import Path

import partyctl as ap

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from review import Requester, Reviewer, Task, Writer, agent, protocol  # noqa: E402

PASSED_ON = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "IS_SANDBOX", "CLAUDE_CODE_MAX_RETRIES", "HOME")

task = Path(os.environ.get("TASK_FILE", HERE / "task.txt")).read_text(encoding="utf-8").strip()

session = ap.Session(
    protocol,
    {
        Requester: ap.Script([Task(task)]),
        Writer: ap.Agent(
            "claude",
            "Write the article. Revise it to address any critique.",
            permissions=ap.NativePermissions.bypass(),
            approvals=ap.ApprovalPolicy.DENY,
            transport=ap.TransportKind.STREAM,
            options={"binary": os.environ["CLAUDE_BINARY"]} if "CLAUDE_BINARY" in os.environ else {},
            env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
        ),
        Reviewer: agent("Approve a draft only if it names its sources.", "reviewer.toml"),
    },
    allowance=ap.Allowance(unfoldings=5, wall_clock=300),
)

if __name__ == "__main__":
    print(session.run())
