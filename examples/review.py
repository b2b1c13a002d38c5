"""A writer and a reviewer, each an agent in a worker process of its own, go on until the reviewer approves.

    partyctl run examples/review.py

The agents are played by the `scripted` provider, which reads its lines from the two files beside this one. To cast a
real agent, name its provider: Agent("claude", ...) instead of Agent("scripted", ...).
"""

from pathlib import Path

import partyctl as ap

HERE = Path(__file__).parent

Requester, Writer, Reviewer = ap.roles("Requester", "Writer", "Reviewer")


class Task(ap.Message):
    """What to write about."""

    text: str


class Draft(ap.Message):
    """An article, finished or not."""

    text: str


class Revise(ap.Message):
    """What is still wrong with the draft."""

    critique: str


class Approve(ap.Message):
    """The draft is good as it is."""


class Article(ap.Message):
    """The approved article."""

    text: str


protocol = ap.Protocol(
    ap.send(Requester, Writer, Task),
    ap.loop(
        ap.send(Writer, Reviewer, Draft),
        ap.choose(
            Reviewer,
            Writer,
            {
                Revise: [ap.repeat()],
                Approve: [ap.send(Writer, Requester, Article)],
            },
        ),
    ),
)


def agent(instructions: str, script: str) -> ap.Agent:
    return ap.Agent(
        "scripted",
        instructions,
        permissions=ap.NativePermissions.bypass(),
        approvals=ap.ApprovalPolicy.DENY,
        options={"script": str(HERE / script)},
    )


session = ap.Session(
    protocol,
    {
        Requester: ap.Script([Task("Why do people keep bees on city roofs?")]),
        Writer: agent("Write the article. Revise it to address any critique.", "writer.toml"),
        Reviewer: agent("Approve a draft only if it names its sources.", "reviewer.toml"),
    },
    allowance=ap.Allowance(unfoldings=5, wall_clock=120),
)

if __name__ == "__main__":
    print(session.run())
