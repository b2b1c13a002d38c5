"""Fifty turns of an agent whose tools leave processes behind; then the asker takes its time."""

import asyncio

import partyctl as ap

TURNS = 50

Asker, Answerer = ap.roles("Asker", "Answerer")


class Question(ap.Message):
    text: str


class Answer(ap.Message):
    text: str


questions = iter(range(TURNS))


async def ask(*_: object) -> Question:
    if next(questions, None) is None:
        await asyncio.sleep(60)
    return Question("Again?")


turns = [step for _ in range(TURNS) for step in (ap.send(Asker, Answerer, Question), ap.send(Answerer, Asker, Answer))]
session = ap.Session(
    ap.Protocol(*turns, ap.send(Asker, Answerer, Question)),
    {
        Asker: ask,
        Answerer: ap.Agent("forks", permissions=ap.NativePermissions.bypass(), approvals=ap.ApprovalPolicy.DENY),
    },
)
