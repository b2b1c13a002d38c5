"""The form of a JSON-lines record, at every byte."""

from __future__ import annotations

import json
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl_actors.journals import lines
from partyctl_actors.journals.interface import Decision
from partyctl_actors.payloads import pack

HEAD = lines.head_line("run-1", "p", {"file": "review.py"})
WORDS = st.text(st.characters(exclude_categories=()), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
PAYLOADS = st.dictionaries(WORDS, VALUES, max_size=3).map(pack) | st.binary(max_size=8)
DECISIONS = st.builds(Decision, st.integers(1), WORDS, WORDS, WORDS, PAYLOADS, st.integers(0))


@given(DECISIONS)
def test_a_decision_comes_back_as_it_was_whatever_its_text_holds(decision: Decision) -> None:
    line = lines.decision_line(decision, HEAD)
    assert line.isascii()
    assert line.index(b"\n") == len(line) - 1
    assert len(line.decode().splitlines()) == 1
    assert lines.read(HEAD + line).decisions == [decision]


def test_a_line_can_be_read_by_anybody() -> None:
    decision = Decision(3, "A", "B", "Ping", pack({"text": "a\nb\u2028c", "n": 1.0}), 5)
    body = json.loads(lines.decision_line(decision, HEAD))
    del body["crc"]
    fields = {"text": "a\nb\u2028c", "n": 1.0}
    assert body == {"turn": 3, "sender": "A", "receiver": "B", "label": "Ping", "fields": fields, "tokens": 5}


def test_the_head_and_the_ending_come_back() -> None:
    contents = lines.read(HEAD + lines.ending_line("it broke\n", HEAD))
    assert contents[:5] == ("run-1", "p", {"file": "review.py"}, [], "it broke\n")
    ended = lines.whole("run-1", "p", ending="it broke")
    assert lines.read(b"".join([*ended, lines.decision_line(SAID[0], ended[-1])])).ending == ""


SAID = [Decision(n, "A", "B", "Ping", pack({"text": "\u2028" * n}), n) for n in (1, 2, 3)]
_, *SAMPLE = lines.whole("run-1", "p", SAID, {"file": "review.py"})
WHOLE = HEAD + b"".join(SAMPLE)


@pytest.mark.parametrize("order", [(1, 2), (0, 2), (1, 0, 2), (0, 0, 1, 2), (0, 2, 1)])
def test_whole_lines_that_are_missing_or_stand_elsewhere_are_damage(order: tuple[int, ...]) -> None:
    assert lines.read(WHOLE).decisions == SAID
    with pytest.raises(lines.Damage, match="a line before it is gone"):
        lines.read(HEAD + b"".join(SAMPLE[place] for place in order))


@pytest.mark.parametrize("lost", [b"", b"\0\0\0", b"\0\0\n"])
def test_a_record_torn_at_any_byte_holds_what_was_written_whole(lost: bytes) -> None:
    for cut in range(len(WHOLE) + 1):
        contents = lines.read(WHOLE[:cut] + lost)
        whole = [end for end in _ends() if end <= cut]
        assert len(contents.decisions) == max(0, len(whole) - 1)
        assert contents.sound == (whole[-1] if whole else 0)


@given(st.integers(0, len(WHOLE) - len(SAMPLE[-1]) - 1), st.integers(1, 255))
def test_a_byte_that_changed_before_the_last_line_is_damage_with_its_line(place: int, change: int) -> None:
    data = bytearray(WHOLE)
    data[place] ^= change
    line = WHOLE[:place].count(b"\n") + 1
    with pytest.raises((lines.Damage, lines.Foreign)) as caught:
        lines.read(bytes(data))
    if isinstance(caught.value, lines.Damage):
        assert str(caught.value).startswith(f"line {line}: ")
    else:
        assert line == 1


@pytest.mark.parametrize("data", [b"# notes\n", b"{}\n", b"x", b"\0ELF", b'{"partyctl":"journal/2",'])
def test_a_file_that_never_was_a_record_is_foreign(data: bytes) -> None:
    with pytest.raises(lines.Foreign):
        lines.read(data)


@pytest.mark.parametrize("body", [b'{"turn":1', b'{"turn":"1","tokens":0,"fields":{}', b"[1", b"{"])
def test_a_line_that_means_nothing_is_damage_though_its_checksum_fits(body: bytes) -> None:
    with pytest.raises(lines.Damage, match="line 2"):
        lines.read(HEAD + b'%s,"crc":"%08x"}\n' % (body, crc32(body, int(HEAD[-11:-3], 16))) + SAMPLE[0])


def _ends() -> list[int]:
    return [place + 1 for place, byte in enumerate(WHOLE) if byte == ord("\n")]
