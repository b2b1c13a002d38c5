from partyctl.host.drain import Drain, Survey


def test_a_drain_with_nothing_to_wait_for_is_over() -> None:
    assert Drain(10.0, 10.0).step(Survey(), 0.0) == (None, [])


def test_what_is_waited_for_is_told_once() -> None:
    drain, lines = Drain(10.0, 10.0).step(Survey(("run-1",), ("node/1",)), 0.0)
    assert lines == ["waiting for run run-1", "waiting for node/1, which does not answer"]
    assert drain is not None
    drain, lines = drain.step(Survey(("run-1", "run-2"), ("node/1",)), 1.0)
    assert lines == ["waiting for run run-2"]
    assert drain is not None
    assert drain.step(Survey(), 2.0) == (None, [])


def test_a_silent_node_is_not_taken_for_one_without_runs() -> None:
    drain, _ = Drain(10.0, 10.0).step(Survey(silent=("node/0",)), 0.0)
    assert drain is not None


def test_turns_of_agent_sessions_are_waited_for_and_counted() -> None:
    drain, lines = Drain(10.0, 10.0).step(Survey(sessions=("essay",)), 0.0)
    assert (drain is not None, lines) == (True, ["waiting for a turn of session essay"])
    over, lines = Drain(10.0, 7.0).step(Survey(sessions=("essay", "other")), 10.0)
    assert (over, lines[-1]) == (None, "cut off after 7 s: 0 runs, and 2 turns of agent sessions")


def test_at_its_deadline_a_drain_says_what_it_cuts_off() -> None:
    drain, lines = Drain(10.0, 7.0).step(Survey(("run-1",), ("node/1",)), 10.0)
    assert drain is None
    assert lines[-1] == "cut off after 7 s: 1 run, and those of 1 silent node"
