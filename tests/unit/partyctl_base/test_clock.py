from partyctl_base.clock import StopSignal, SystemClock


def test_a_wait_that_is_longer_than_the_machine_can_count_ends_with_its_signal() -> None:
    stop = StopSignal()
    stop.set()
    assert SystemClock().wait(1e300, stop)
