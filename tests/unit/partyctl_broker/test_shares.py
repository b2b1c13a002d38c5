import pytest

from partyctl_broker.shares import ENOUGH, REST, REST_MAX, WINDOW, Shares

FLOOD, A, B, FAR = b"flood", b"a", b"b", b"far"
WRITES = {FLOOD: FLOOD, A: B, B: A, FAR: FLOOD}
MUCH, LITTLE = int(WINDOW * 0.5e6), int(WINDOW * 0.02e6)


@pytest.fixture
def shares():
    """Shares that have seen one window of nothing."""
    made = Shares()
    made.note(100.0)
    return made


def after(shares, *windows):
    """Who is busy after windows with so much work."""
    for number, spent in enumerate(windows):
        note(shares, spent, 100.0 + WINDOW * (number + 1))
    return shares.busy


def note(shares, spent, now):
    """Each wrote to whom it always writes to."""
    for connection in spent:
        shares.wrote.setdefault(connection, set()).add(WRITES[connection])
        shares.charge(connection, spent[connection])
    shares.note(now)


def test_who_sends_much_is_in_the_way_of_those_who_send_little(shares):
    assert after(shares, {FLOOD: MUCH, A: LITTLE, B: LITTLE}) == {FLOOD}


def test_who_is_alone_is_in_nobodys_way(shares):
    assert after(shares, {FLOOD: MUCH}) == set()


def test_the_two_ends_of_a_stream_are_not_in_each_others_way(shares):
    assert after(shares, {FLOOD: MUCH, FAR: LITTLE}) == set()


def test_whom_somebody_wrote_to_long_ago_does_not_count(shares):
    shares.wrote[FAR] = {A}
    assert after(shares, {}, {FLOOD: MUCH, FAR: LITTLE}) == set()


def test_a_letter_now_and_then_makes_nobody_wait(shares):
    assert after(shares, {FLOOD: MUCH, A: 10}) == set()


def test_what_others_wanted_a_moment_ago_still_counts_and_then_no_more(shares):
    quiet = [{FLOOD: MUCH}] * 4
    assert after(shares, {A: LITTLE}, *quiet) == {FLOOD}
    assert after(shares, *[{FLOOD: MUCH}] * 9) == set()


def test_who_waits_is_busy_as_long_as_it_sends_at_all(shares):
    little = {FLOOD: LITTLE, A: LITTLE}
    assert after(shares, little) == set()
    assert after(shares, {}, {FLOOD: MUCH, A: LITTLE}, little) == {FLOOD}
    assert after(shares, {}, {}, {}, {A: LITTLE}) == set()


def test_work_is_counted_over_the_whole_window(shares):
    for part in range(1, 5):
        note(shares, {FLOOD: MUCH // 4, A: LITTLE}, 100.0 + WINDOW * part / 4)
    assert shares.busy == {FLOOD}


def test_several_times_as_much_rest_is_owed_as_there_was_work_within_a_limit(shares):
    shares.rest(50, 7.0)
    assert shares.wait(7.0) == pytest.approx(0.00005 * REST)
    assert shares.wait(7.00014) == pytest.approx(0.00005 * REST - 0.00014)
    assert shares.wait(7.1) == 0.0
    for _ in range(3):
        shares.rest(1000, 8.0)
    assert shares.wait(8.0) == pytest.approx(REST_MAX)


def test_the_end_of_a_window_is_not_waited_for_when_there_is_enough_to_judge(shares):
    note(shares, {A: LITTLE, B: LITTLE}, 100.001)
    note(shares, {FLOOD: ENOUGH - 1}, 100.002)
    assert shares.busy == set()
    note(shares, {FLOOD: 1}, 100.002)
    assert shares.busy == {FLOOD}


def test_who_did_much_is_judged_as_soon_as_somebody_else_wants_something(shares):
    note(shares, {FLOOD: MUCH}, 100.001)
    note(shares, {FLOOD: 10, A: 10}, 100.002)
    assert shares.busy == set()
    note(shares, {A: LITTLE}, 100.003)
    note(shares, {FLOOD: 10}, 100.003)
    assert shares.busy == {FLOOD}


def test_the_two_ends_of_a_stream_are_not_judged_early_either(shares):
    note(shares, {A: MUCH, B: MUCH}, 100.001)
    assert shares.busy == set()
