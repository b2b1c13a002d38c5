from partyctl_broker.liveness import DRAIN_LIMIT, PROBES, Liveness


def dead(_connection):
    return False


def alive(_connection):
    return True


def met_and_disconnected():
    liveness = Liveness()
    liveness.met(b"a", 7)
    liveness.disconnected(7, now=0.0)
    return liveness


def test_a_proven_suspect_is_over_once_the_socket_was_empty():
    liveness = met_and_disconnected()
    liveness.probe(0.0, dead)
    assert liveness.over(0.0, empty=False) == []
    assert liveness.over(0.0, empty=True) == [b"a"]
    assert liveness.over(0.0, empty=True) == []
    assert len(liveness) == 0


def test_an_empty_socket_proves_nothing_about_a_suspect():
    liveness = met_and_disconnected()
    assert liveness.over(0.0, empty=True) == []


def test_a_socket_that_is_never_empty_does_not_hide_a_death_for_long():
    liveness = met_and_disconnected()
    liveness.probe(0.0, dead)
    assert liveness.over(DRAIN_LIMIT + 0.1, empty=False) == [b"a"]


def test_a_suspect_that_can_be_reached_is_probed_again_and_then_believed():
    liveness = met_and_disconnected()
    probes = []
    now = 0.0
    while liveness.suspects:
        liveness.probe(now, lambda connection: probes.append(connection) or True)
        now += liveness.wait(now) or 0.0
    assert probes == [b"a"] * (PROBES + 1)
    assert now < 0.2
    assert len(liveness) == 1


def test_a_suspect_is_not_probed_before_it_is_due():
    liveness = met_and_disconnected()
    liveness.probe(0.0, alive)
    liveness.probe(0.0, dead)
    assert liveness.over(0.0, empty=True) == []
    wait = liveness.wait(0.0)
    assert wait is not None
    liveness.probe(wait, dead)
    assert liveness.over(wait, empty=True) == [b"a"]


def test_a_descriptor_that_is_reused_names_the_connection_that_had_it():
    liveness = Liveness()
    assert liveness.met(b"a", 7) is None
    assert liveness.met(b"a", 7) is None
    assert liveness.met(b"b", 7) == b"a"
    liveness.forget(b"a")
    liveness.disconnected(7, now=0.0)
    liveness.probe(0.0, dead)
    assert liveness.over(0.0, empty=True) == [b"b"]


def test_a_descriptor_that_nobody_spoke_over_is_no_concern():
    liveness = Liveness()
    liveness.disconnected(7, now=0.0)
    assert not liveness.suspects
    assert liveness.wait(0.0) is None
