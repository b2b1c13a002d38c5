"""Bytes in, frames out: framing, noise, the ceiling; and the frames we write."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl_plugins.claude import frames
from partyctl_plugins.claude.frames import NOISE_SAMPLES, FrameReader, LineTooLong, Noise


@given(st.lists(st.dictionaries(st.text(), st.text()), max_size=6), st.integers(1, 9))
def test_frames_are_the_same_however_the_bytes_are_cut(sent: list[dict[str, str]], size: int) -> None:
    data = b"".join(json.dumps(frame, ensure_ascii=False).encode() + b"\n" for frame in sent)
    reader = FrameReader()
    found = [frame for at in range(0, len(data), size) for frame in reader.feed(data[at : at + size])]
    assert found == sent
    assert reader.noise == 0


def test_an_unfinished_line_is_kept_until_it_ends() -> None:
    reader = FrameReader()
    assert reader.feed(b'{"a"') == []
    assert reader.feed(b": 1}\n{") == [{"a": 1}]


def test_the_last_line_counts_without_its_line_end() -> None:
    reader = FrameReader()
    assert reader.feed(b'{"a": 1}') == []
    assert reader.finish() == [{"a": 1}]
    assert reader.finish() == []


@pytest.mark.parametrize("line", [b"debug: hello", b"[1]", b"7", b"\xff\xfe", b"{" * 100_000, b'{"a":'])
def test_a_line_that_is_no_object_is_noise(line: bytes) -> None:
    reader = FrameReader()
    (noise, frame) = reader.feed(line + b'\n{"a": 1}\n')
    assert isinstance(noise, Noise)
    assert frame == {"a": 1}
    assert reader.noise == 1


def test_blank_lines_are_nothing() -> None:
    reader = FrameReader()
    assert reader.feed(b"\n \n\r\n") == []
    assert reader.noise == 0


def test_noise_is_counted_without_end_and_kept_within_bounds() -> None:
    reader = FrameReader()
    samples = reader.feed(b"x" * 5000 + b"\n" + b"more\n" * 1000)
    assert len(samples) == NOISE_SAMPLES
    assert reader.noise == 1001
    assert all(isinstance(sample, Noise) and len(sample.text) <= frames.NOISE_SAMPLE_BYTES for sample in samples)


def test_a_line_beyond_the_ceiling_is_an_error_before_it_ends() -> None:
    reader = FrameReader(max_line=10)
    assert reader.feed(b"123456789\n") != []
    reader.feed(b"123456789")
    with pytest.raises(LineTooLong, match="10 bytes"):
        reader.feed(b"01")


@pytest.mark.parametrize("text", ["two\nlines\r\u2028", "\ud800 lone", "\x00", "ünïcode 🎭"])
def test_a_prompt_is_one_line_of_ascii_and_survives(text: str) -> None:
    line = frames.user_message(text, "u-1")
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line)["message"] == {"role": "user", "content": text}
    assert json.loads(line)["uuid"] == "u-1"


def test_a_field_of_the_wrong_type_reads_as_absent() -> None:
    odd = {"text": 1, "object": "x", "objects": [1, {"a": 1}], "count": True, "number": "1"}
    assert frames.text_of(odd, "text") == ""
    assert frames.object_of(odd, "object") == {}
    assert frames.objects_of(odd, "objects") == [{"a": 1}]
    assert frames.objects_of(odd, "text") == []
    assert frames.count_of(odd, "count") == 0
    assert frames.number_of(odd, "number") is None
