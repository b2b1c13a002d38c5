from partyctl_broker.crowd import HANDSHAKE_LIMIT, LIMIT_MIN, MONITOR_MAX, Crowd


def crowd_of(count, limit=1000):
    crowd = Crowd(limit)
    for descriptor in range(count):
        crowd.accepted(descriptor, 0.0)
    return crowd


def test_some_descriptors_stay_in_reserve():
    assert Crowd(1000).most == 1000 - 1000 // 4
    assert Crowd(100).most == 100 - 64


def test_over_the_first_mark_nobody_is_let_in_and_over_the_second_the_doors_are_shut():
    marks = [(crowd.is_full, crowd.is_overrun) for crowd in map(crowd_of, (750, 751, 781, 782))]
    assert marks == [(False, False), (True, False), (True, False), (True, True)]


def test_those_who_leave_make_room():
    crowd = crowd_of(751)
    crowd.closed(3)
    crowd.closed(3)
    assert not crowd.is_full
    assert len(crowd) == len(crowd.descriptors) == 750


def test_it_is_quiet_when_no_handshake_is_under_way_or_the_last_must_be_over():
    crowd = crowd_of(2)
    assert not crowd.is_quiet(1.0)
    crowd.settled()
    assert not crowd.is_quiet(1.0)
    assert crowd.is_quiet(HANDSHAKE_LIMIT + 0.1)
    crowd.settled()
    crowd.settled()
    assert crowd.is_quiet(1.0)


def test_the_doors_are_shut_early_enough_for_all_that_the_monitor_has_not_told_yet():
    crowd = Crowd(LIMIT_MIN)
    descriptor = 0
    while not crowd.is_overrun:
        crowd.accepted(descriptor, 0.0)
        descriptor += 1
    assert descriptor + MONITOR_MAX + 64 < LIMIT_MIN
