"""Twenty sessions at once in one program, each with a worker and so with a private host of its own."""

import asyncio

import partyctl as ap

Asker, Answerer = ap.roles("Asker", "Answerer")


class Question(ap.Message):
    text: str


class Answer(ap.Message):
    text: str


def session(number: int) -> ap.Session:
    answer = ap.Agent(
        "scripted",
        permissions=ap.NativePermissions.bypass(),
        approvals=ap.ApprovalPolicy.DENY,
        options={"script": [[{"say": {"label": "Answer", "payload": {"text": f"answer {number}"}}}]]},
    )
    return ap.Session(
        ap.Protocol(ap.send(Asker, Answerer, Question), ap.send(Answerer, Asker, Answer)),
        {Asker: ap.Script([Question(f"question {number}")]), Answerer: answer},
    )


async def main() -> None:
    transcripts = await asyncio.gather(*(session(number).arun() for number in range(20)))
    for transcript in transcripts:
        print(*(envelope.message.text for envelope in transcript))


if __name__ == "__main__":
    asyncio.run(main())
