"""The samples of "Sessions, execution, and limits", run as they are but for the name of the import."""

from __future__ import annotations

import pytest

HEADER = """
import asyncio
import partyctl as ap
"""

LIFECYCLE = """
Customer, Support = ap.roles('Customer', 'Support')


class Ticket(ap.Message):
    '''A support question.'''

    text: str


class Resolution(ap.Message):
    '''The support reply.'''

    text: str


protocol = ap.Protocol(
    ap.send(Customer, Support, Ticket),
    ap.send(Support, Customer, Resolution),
)
session = ap.Session(
    protocol,
    {
        Customer: ap.Script([Ticket('q')]),
        Support: ap.Agent(ap.replies([Resolution('ok')]), ''),
    },
)
first = session.run()
second = session.run()
assert first == second and len(second) == 2
"""

ASK = """
Reader, Writer = ap.roles('Reader', 'Writer')


class Question(ap.Message):
    '''The question.'''

    text: str


class Article(ap.Message):
    '''The answer.'''

    text: str


async def answer() -> Article:
    return await ap.Session(
        ap.Protocol(
            ap.send(Reader, Writer, Question),
            ap.send(Writer, Reader, Article),
        ),
        {Writer: ap.Agent(ap.replies([Article('done')]), '')},
    ).aask(Reader, Question('why?'), expect=Article)


article = asyncio.run(answer())
assert article == Article('done')
"""

START = """
Reporter, Approver = ap.roles('Reporter', 'Approver')


class Incident(ap.Message):
    '''A ticket to review.'''

    text: str


class Ship(ap.Message):
    '''Ship the ticket.'''


async def serve() -> None:
    desk = ap.Desk()
    run = ap.Session(
        ap.Protocol(
            ap.send(Reporter, Approver, Incident),
            ap.choose(Approver, Reporter, {Ship: []}),
        ),
        {Approver: ap.Human(desk)},
    ).start(Reporter, Incident('timeout'))
    while not desk.offered:
        await asyncio.sleep(0.001)
    await desk.submit(Ship())
    transcript = await run.result()
    assert transcript.messages == (Incident, Ship)
    assert transcript.ended_at == Reporter


asyncio.run(serve())
"""

ENVELOPE = """
User, Assistant = ap.roles('User', 'Assistant')


class Ping(ap.Message):
    '''A ping.'''

    text: str


class Pong(ap.Message):
    '''A pong.'''

    text: str


transcript = ap.Session(
    ap.Protocol(
        ap.send(User, Assistant, Ping),
        ap.send(Assistant, User, Pong),
    ),
    {
        User: ap.Script([Ping('hi')]),
        Assistant: ap.Agent(ap.replies([Pong('yo')]), ''),
    },
).run()

envelope = list(transcript)[-1]
assert (envelope.sender, envelope.receiver, envelope.message) == (Assistant, User, Pong('yo'))
"""

ALLOWANCE = """
User, Assistant = ap.roles('User', 'Assistant')


class Ping(ap.Message):
    '''A ping.'''


try:
    ap.Session(
        ap.Protocol(ap.send(User, Assistant, Ping)),
        {
            User: ap.Script([Ping()]),
            Assistant: ap.Script([]),
        },
        allowance=ap.Allowance(steps=0, wall_clock=10.0),
    ).run()
except ap.AllowanceExceeded as error:
    assert (error.limit, error.spent) == ('steps', 0)
else:
    raise AssertionError
"""

DEADLINE = """
from datetime import timedelta

Writer, Reviewer = ap.roles('Writer', 'Reviewer')


class Draft(ap.Message):
    '''A draft to review.'''

    text: str


protocol = ap.Protocol(
    ap.send(
        Writer,
        Reviewer,
        Draft,
        within=timedelta(seconds=5),
    )
)
"""

SAMPLES = {
    "lifecycle": LIFECYCLE,
    "ask": ASK,
    "start": START,
    "envelope": ENVELOPE,
    "allowance": ALLOWANCE,
    "deadline": DEADLINE,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_runs_as_it_is_written(name: str) -> None:
    exec(compile(HEADER + SAMPLES[name], name, "exec"), {"__name__": name})
