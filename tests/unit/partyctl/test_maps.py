from __future__ import annotations

from partyctl.maps import WHOLE_MAX, pack, shortened, unpack


def test_what_no_utf_8_can_carry_is_replaced() -> None:
    assert unpack(pack({"a\ud800": ["b\udcff", {"c": "\ud800"}]})) == {"a?": ["b?", {"c": "?"}]}


def test_a_long_text_is_cut_and_other_long_values_are_left_out() -> None:
    long = "é" * WHOLE_MAX
    short = shortened({"answer": long, "structured": [1] * (WHOLE_MAX + 1), "turn": "turn-1", "usage": {"tokens": 5}})
    assert short["answer"] == f"{'é' * (WHOLE_MAX // 8)} ... ({WHOLE_MAX} characters)"
    assert (short["structured"], short["turn"], short["usage"]) == (None, "turn-1", {"tokens": 5})
    assert short["shortened"] == ["answer", "structured"]
    assert len(pack(short)) < WHOLE_MAX
