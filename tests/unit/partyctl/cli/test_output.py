import io
import json

import pytest

from partyctl.cli.output import columns, duration, emit, emit_json, emit_text, printable, size


def test_columns_are_aligned_and_never_cut() -> None:
    long = "x" * 300
    assert columns(("A", "NAME"), [("1", long), ("22", "y")]) == f"A   NAME\n1   {long}\n22  y"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stdout", "shown"), [(io.StringIO(), "a\x1b[31mb\n\tc\u202e\n"), (Terminal(), "a\\x1b[31mb\n\tc\\u202e\n")]
)
def test_an_answer_is_given_as_it_is_and_steers_no_terminal(
    monkeypatch: pytest.MonkeyPatch, stdout: io.StringIO, shown: str
) -> None:
    monkeypatch.setattr("sys.stdout", stdout)
    emit_text("a\x1b[31mb\n\tc\u202e")
    assert stdout.getvalue() == shown


def test_what_could_steer_a_terminal_is_spelled_out() -> None:
    assert printable("a\x1b[31mb\nc\u202ed é") == "a\\x1b[31mb\\nc\\u202ed é"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (63.5, "1m 3s"), (3600, "1h 0m"), (90061, "1d 1h"), (None, "-")],
)
def test_durations_show_their_two_largest_parts(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_sizes_are_told_in_mebibytes() -> None:
    assert (size(20 * 1024 * 1024 + 104858), size(None)) == ("20.1 MiB", "-")


def test_a_document_is_json_whatever_numbers_an_answer_holds(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"structured": [float("nan"), {"a": float("-inf")}, 1.5], "odd": b"x"})
    assert "NaN" not in (out := capsys.readouterr().out)
    assert json.loads(out) == {"structured": [None, {"a": None}, 1.5], "odd": "b'x'"}


def test_what_the_encoding_of_stdout_does_not_have_is_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr("sys.stdout", stdout)
    emit("é\u6f22\udcff")
    emit_json({"odd": "é\U0001f600\udcff"})
    told, document = stdout.buffer.getvalue().decode("latin-1").split("\n", 1)  # type: ignore[attr-defined]
    assert told == "é\\u6f22\\udcff"
    assert json.loads(document) == {"odd": "é\U0001f600\udcff"}
