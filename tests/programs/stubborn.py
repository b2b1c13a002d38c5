"""A run whose provider hangs, after leaving a child behind that does not want to die."""

import os

import partyctl as ap

Asker, Answerer = ap.roles("Asker", "Answerer")


class Question(ap.Message):
    text: str


class Answer(ap.Message):
    text: str


session = ap.Session(
    ap.Protocol(ap.send(Asker, Answerer, Question), ap.send(Answerer, Asker, Answer)),
    {
        Asker: ap.Script([Question("Are you there?")]),
        Answerer: ap.Agent(
            "stubborn",
            permissions=ap.NativePermissions.bypass(),
            approvals=ap.ApprovalPolicy.DENY,
            options={"pids": os.environ["STUBBORN_PIDS"]},
        ),
    },
)

if __name__ == "__main__":
    session.run()
