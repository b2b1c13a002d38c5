import re

import pytest

from partyctl_actors.errors import ProjectionError, ProtocolError
from partyctl_actors.protocol import Message, Protocol, Role, Step, choose, loop, par, render, repeat, roles, send, stop

A, B, C, D = roles("A", "B", "C", "D")


class X(Message):
    pass


class Y(Message):
    pass


def told(kind: type[Message]) -> list[Step]:
    return [send(A, C, kind), send(A, D, kind)]


def everything() -> Protocol:
    turning = choose(A, B, {X: [told(X), repeat("r")], Y: [told(Y), stop()]})
    return Protocol(loop(par([send(A, B, X)], [send(C, D, X)]), turning, name="r"))


def test_text_shows_every_word_of_the_language() -> None:
    assert render(everything()).splitlines() == [
        "loop r",
        "  par",
        "    branch",
        "      A -> B: X",
        "    branch",
        "      C -> D: X",
        "  A -> B: one of",
        "    X",
        "      A -> C: X",
        "      A -> D: X",
        "      repeat r",
        "    Y",
        "      A -> C: Y",
        "      A -> D: Y",
        "      stop",
    ]


def test_the_text_of_a_role_shows_what_it_says_and_hears() -> None:
    protocol = Protocol(loop(send(A, B, X), choose(B, A, {X: repeat(), Y: []})))
    assert render(protocol, role=A) == "A, from 0\n0: !B X -> 1\n1: ?B X -> 0\n1: ?B Y -> 2\n2: done"


def test_a_sequence_diagram_has_a_block_for_every_word() -> None:
    lines = [line.strip() for line in render(everything(), "mermaid-sequence").splitlines()]
    assert lines == [
        "sequenceDiagram",
        *[f"participant r{number} as {role}" for number, role in enumerate("ABCD")],
        "loop r",
        "par",
        "r0->>r1: X",
        "and",
        "r2->>r3: X",
        "end",
        "alt X",
        "r0->>r1: X",
        "r0->>r2: X",
        "r0->>r3: X",
        "Note over r0,r3: repeat r",
        "else Y",
        "r0->>r1: Y",
        "r0->>r2: Y",
        "r0->>r3: Y",
        "Note over r0,r3: stop",
        "end",
        "end",
    ]


def test_the_sequence_diagram_of_a_role_shows_its_own_part() -> None:
    text = render(everything(), "mermaid-sequence", C)
    assert re.findall(r"r\d->>r\d: \w", text) == ["r2->>r3: X", "r0->>r2: X", "r0->>r2: Y"]
    assert "participant r1" not in text
    assert "par\n" not in text


def test_a_state_diagram_forks_and_joins() -> None:
    lines = [line.strip() for line in render(everything(), "mermaid-state").splitlines()]
    assert lines[:3] == ["stateDiagram-v2", "[*] --> s0", "state s0 <<fork>>"]
    assert "state s3 <<join>>" in lines
    assert "s4 --> s5: X" in lines
    assert lines[-1].endswith("--> [*]")


def test_the_state_diagram_of_a_role_tells_saying_from_hearing() -> None:
    text = render(everything(), "mermaid-state", C)
    assert "v0: speaks to D" in text
    assert "v0 --> v1: !X" in text
    assert "v1 --> v0: ?X" in text


def test_names_with_signs_of_mermaid_are_written_in_codes() -> None:
    one, other = Role('a;b#"c'), Role("B")
    text = render(Protocol(send(one, other, X)), "mermaid-sequence")
    assert "participant r0 as a#59;b#35;#34;c" in text


@pytest.mark.parametrize("form", ["text", "mermaid-sequence"])
def test_a_declaration_that_is_long_when_written_out_is_cut_and_its_blocks_closed(form: str) -> None:
    step = send(A, B, X)
    for _ in range(40):
        step = choose(A, B, {X: [step], Y: [step]})
    lines = render(Protocol(step), form).splitlines()  # type: ignore[arg-type]
    assert len(lines) < 5_100
    if form != "text":
        opened = sum(line.split()[0] in ("alt", "loop", "par") for line in lines)
        assert opened == sum(line.strip() == "end" for line in lines)


def test_an_unknown_form_or_role_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"no such form.*mermaid-state"):
        render(everything(), "svg")  # type: ignore[arg-type]
    with pytest.raises(ProjectionError, match="no role E"):
        render(everything(), role=Role("E"))
