"""A run of three roles, one of them played by the provider that the environment names."""

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
            os.environ["PROVIDER"],
            permissions=ap.NativePermissions.bypass(),
            approvals=ap.ApprovalPolicy.DENY,
            options={"answer": '{"label": "Answer", "payload": {"text": "yes"}}'},
        ),
    },
)
