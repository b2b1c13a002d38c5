"""The samples of "Sessions, execution, and limits", as the pages have them: only the name of the import is another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.documents import Document

SESSIONS, EMBEDDING = Document("docs/sessions.md"), Document("docs/embedding.md")
Names = dict[str, Any]


def sample(document: Document, word: str) -> str:
    """The block that says this."""
    (found,) = [block.text for block in document.blocks if word in block.text]
    return found


def ran(text: str) -> Names:
    names: Names = {"__name__": "sample"}
    exec(compile(text, "sample", "exec", dont_inherit=True), names)
    return names


def of_the_lifecycle(names: Names) -> None:
    assert names["first"] == names["second"]
    assert names["first"].messages == (names["Ticket"], names["Resolution"])


def of_ask(names: Names) -> None:
    assert names["article"] == names["Article"]("done")


def of_the_envelope(names: Names) -> None:
    envelope = names["envelope"]
    assert (envelope.sender, envelope.receiver) == (names["Assistant"], names["User"])
    assert envelope.message == names["Pong"]("yo")


def of_the_allowance(names: Names) -> None:
    assert "transcript" not in names


def of_the_deadline(names: Names) -> None:
    assert str(names["protocol"]) == "Writer -> Reviewer: Draft @5s"


def of_start(names: Names) -> None:
    assert callable(names["serve"])


SAMPLES: dict[str, tuple[Document, str, Callable[[Names], None], str]] = {
    "lifecycle": (SESSIONS, "first = session.run()", of_the_lifecycle, ""),
    "ask": (SESSIONS, "aask(", of_ask, ""),
    "start": (EMBEDDING, "Incident('timeout')", of_start, ""),
    "envelope": (SESSIONS, "envelope = list(transcript)[-1]", of_the_envelope, ""),
    "allowance": (SESSIONS, "Allowance(steps=0", of_the_allowance, "steps 0\n"),
    "deadline": (SESSIONS, "within=timedelta", of_the_deadline, ""),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_runs_as_it_is_written(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    document, word, holds, printed = SAMPLES[name]
    holds(ran(sample(document, word)))
    assert capsys.readouterr().out == printed


def test_the_run_of_the_embedded_sample_ends_with_the_reporter() -> None:
    text = sample(EMBEDDING, "Incident('timeout')").replace(
        "await run.result()", "await run.result()\n    return transcript"
    )
    names = ran(
        text.replace("asyncio.run(serve())", "transcript = asyncio.run(serve())").replace("-> None", "-> object")
    )
    assert names["transcript"].messages == (names["Incident"], names["Ship"])
    assert names["transcript"].ended_at == names["Reporter"]


def test_the_second_run_of_a_session_asks_its_participants_anew() -> None:
    text = sample(SESSIONS, "first = session.run()").replace("ap.replies([Resolution('ok')])", "ap.replies(answer)")
    head, session = text.split("protocol = ap.Protocol", 1)
    counted = "asked = []\n\n\ndef answer(offer):\n    asked.append(offer)\n    return Resolution('ok')\n\n\n"
    assert len(ran(head + counted + "protocol = ap.Protocol" + session)["asked"]) == 2
