import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl_broker import wire
from partyctl_broker.stream import (
    KEEP,
    PAUSE_FIRST,
    PAUSE_LAST,
    QUIET_TICKS,
    WINDOW,
    WINDOW_BYTES,
    Ends,
    InStream,
    OutStream,
    Verdict,
)
from partyctl_broker.wire import Kind


def out_stream(letters=0, life=1, size=1):
    stream = OutStream(77, b"to\0from", life)
    for number in range(1, letters + 1):
        stream.add(number, 0, bytes(size))
    return stream


def sequences(envelopes):
    return [wire.unseal(envelope).sequence for envelope in envelopes]


class TestOut:
    def test_letters_are_numbered_from_one_and_leave_at_once(self):
        stream = out_stream()
        sealed = [wire.unseal(stream.add(number, 5, b"x")) for number in (10, 11)]
        assert [(each.kind, each.stream, each.sequence, each.correlation) for each in sealed] == [
            (Kind.DATA, 77, 1, 5),
            (Kind.DATA, 77, 2, 5),
        ]

    def test_the_window_in_letters_opens_with_receipts(self):
        stream = out_stream(WINDOW)
        assert stream.add(0, 0, b"") is None
        assert list(stream.flow(1)) == []
        stream.received(2)
        assert sequences(stream.flow(1)) == [WINDOW + 1]

    def test_the_window_in_bytes_opens_with_receipts_and_lets_one_large_letter_through(self):
        stream = OutStream(77, b"", 1)
        assert stream.add(1, 0, bytes(WINDOW_BYTES)) is not None
        assert stream.add(2, 0, b"x") is None
        stream.received(1)
        assert sequences(stream.flow(1)) == [2]

    def test_what_it_keeps_is_bounded(self):
        stream = out_stream(KEEP - 1)
        assert not stream.is_full
        stream.add(0, 0, b"")
        assert stream.is_full

    def test_a_receipt_for_what_was_never_sent_is_none(self):
        stream = out_stream(3, life=0)
        assert not stream.received(3)
        stream.go_on()
        list(stream.flow(1))
        assert stream.received(100)
        assert (stream.base, len(stream.letters), stream.size, stream.flight) == (4, 0, 0, 0)

    def test_a_refused_letter_stops_the_stream_longer_each_time_until_a_receipt_comes(self):
        stream, pauses = out_stream(5), []
        for _ in range(9):
            stream.go_back(3, 100.0)
            pauses.append(stream.due - 100.0)
            assert list(stream.flow(1)) == []
            stream.go_on()
            assert sequences(stream.flow(1)) == [3, 4, 5]
        assert pauses == pytest.approx([min(PAUSE_FIRST * 2**number, PAUSE_LAST) for number in range(9)])
        stream.received(1)
        stream.go_back(3, 100.0)
        assert stream.due == pytest.approx(100.0 + PAUSE_FIRST)

    def test_after_a_loss_all_without_a_receipt_is_sent_again_and_the_first_letter_says_since_when(self):
        stream = out_stream(3, life=7)
        stream.lost()
        stream.go_on()
        sent = [wire.unseal(envelope) for envelope in stream.flow(8)]
        assert [(each.sequence, each.since) for each in sent] == [(1, 7), (2, 0), (3, 0)]

    def test_a_first_letter_that_never_left_is_as_old_as_the_broker_it_goes_to(self):
        stream = out_stream(1, life=0)
        stream.go_on()
        assert [wire.unseal(envelope).since for envelope in stream.flow(8)] == [0]

    def test_when_the_other_end_goes_what_was_under_way_is_unknown_and_the_rest_is_not_delivered(self):
        stream = out_stream(WINDOW + 2)
        stream.received(WINDOW - 1)
        assert stream.over() == Ends((WINDOW,), (WINDOW + 1, WINDOW + 2))

    def test_when_nobody_has_the_address_only_what_was_under_way_before_a_loss_is_unknown(self):
        assert out_stream(2).refuse() == Ends((), (1, 2))
        stream = out_stream(2)
        stream.lost()
        stream.add(3, 0, b"")
        assert stream.refuse() == Ends((1, 2), (3,))

    def test_what_waits_for_an_acknowledgement_is_unknown_although_it_has_a_receipt(self):
        stream = OutStream(77, b"", 1)
        stream.add(5, 0, b"", Kind.ASSURED)
        stream.received(1)
        assert stream.over() == Ends((5,), ())

    @given(st.lists(st.tuples(st.sampled_from(["add", "receipt", "back", "lost"]), st.integers(1, 40)), max_size=60))
    def test_its_sums_are_right_and_what_is_under_way_is_within_the_window(self, events):
        stream = OutStream(77, b"", 1)
        for event, number in events:
            if event == "add":
                stream.add(number, 0, bytes(number * 40_000))
            elif event == "receipt":
                stream.received(number)
            elif event == "back":
                stream.go_back(number, 0.0)
            else:
                stream.lost()
            stream.go_on()
            list(stream.flow(1))
            sizes = [len(envelope) for _, envelope in stream.letters]
            assert (stream.size, stream.flight) == (sum(sizes), sum(sizes[: stream.sent]))
            assert stream.sent <= 1 or stream.flight <= WINDOW_BYTES


class TestIn:
    def taken(self, count):
        stream = InStream("from", "to", lambda letter: None)
        for number in range(1, count + 1):
            assert stream.judge(7, number, may_begin=True) is Verdict.TAKE
        return stream

    def test_it_takes_the_next_letter_and_no_other(self):
        stream = self.taken(3)
        assert stream.judge(7, 3, may_begin=True) is Verdict.DUPLICATE
        assert stream.judge(7, 5, may_begin=True) is Verdict.GAP
        assert stream.judge(7, 4, may_begin=True) is Verdict.TAKE

    def test_another_stream_begins_with_its_first_letter_if_it_may(self):
        stream = self.taken(3)
        assert stream.judge(8, 4, may_begin=True) is Verdict.FOREIGN
        assert stream.judge(8, 1, may_begin=False) is Verdict.FOREIGN
        assert stream.judge(0, 1, may_begin=True) is Verdict.FOREIGN
        assert stream.judge(8, 1, may_begin=True) is Verdict.TAKE
        assert stream.judge(7, 4, may_begin=True) is Verdict.FOREIGN

    def test_a_receipt_is_due_when_the_road_is_quiet_or_has_not_been_for_long(self):
        stream = self.taken(2)
        assert [stream.tick(), stream.tick()] == [False, True]
        assert stream.receipt() == 2
        ticks = 0
        due = False
        while not due:
            stream.judge(7, stream.expected, may_begin=True)
            due = stream.tick()
            ticks += 1
        assert ticks == QUIET_TICKS
