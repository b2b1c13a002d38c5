"""The conductor under random protocols and random rows of events."""

from __future__ import annotations

from random import Random

from fakes.conducting import asking, ending, plan, run
from fakes.protocols import accepted
from fakes.runs import rally
from hypothesis import given, settings
from hypothesis import strategies as st

from partyctl_actors.payloads import pack
from partyctl_actors.protocol import End, Interaction
from partyctl_actors.runs import messages
from partyctl_actors.runs.conductor import begin, step
from partyctl_actors.runs.run_state import (
    CancelAsked,
    Deliver,
    Event,
    Failed,
    Finish,
    Garbled,
    Joined,
    Left,
    Phase,
    Record,
    Sent,
    Stopped,
    Tick,
    Unrecorded,
)
from partyctl_actors.runs.verdict import Ending

TEXT = pack({"text": "hi"})


EVENTS = st.one_of(
    st.builds(Joined, st.sampled_from("ABX"), st.sampled_from([rally.id, "other"]), st.just(0.0)),
    st.builds(
        Sent,
        st.sampled_from("ABX"),
        st.integers(-1, 4),
        st.sampled_from("ABX"),
        st.sampled_from(["Ping", "Pong", "Stop", "?"]),
        st.sampled_from([TEXT, pack({}), b"\xc1"]),
        st.integers(-1, 5),
        st.just(0.0),
        st.none(),
    ),
    st.builds(Failed, st.sampled_from("ABX"), st.just(messages.Failed(1, "E", "e", "", "", "", "")), st.just(0.0)),
    st.builds(Garbled, st.sampled_from("ABX"), st.just("?"), st.just(0.0)),
    st.builds(Left, st.sampled_from(["A", "B", "X", None]), st.just("?"), st.just(0.0)),
    st.builds(Stopped, st.sampled_from("ABX"), st.just(0.0)),
    st.builds(Unrecorded, st.just("?"), st.just(0.0)),
    st.builds(CancelAsked, st.just("?"), st.just(0.0)),
    st.builds(Tick, st.floats(0, 10)),
)


@given(st.lists(EVENTS, max_size=25), st.booleans())
def test_no_row_of_events_raises_hangs_or_delivers_what_was_not_recorded(events: list[Event], open_first: bool) -> None:
    state = asking(rally) if open_first else begin(plan(rally))
    done = 0
    for event in events:
        state, commands = step(state, event)
        recorded = [command.decision for command in commands if isinstance(command, Record)]
        delivered = [command.decision for command in commands if isinstance(command, Deliver)]
        assert delivered == recorded
        done += sum(isinstance(command, Finish) for command in commands)
    assert done == (state.phase is Phase.DONE)
    # Whatever happened, a cancelled run is over as soon as everybody confirms, or else at the limit.
    state, _ = run(state, CancelAsked("end of test", 20.0), Tick(1000.0))
    assert state.phase is Phase.DONE


class Course:
    """One run of a random protocol: mostly what is legal, sometimes anything."""

    def __init__(self, random: Random, mischief: float) -> None:
        self.random = random
        self.mischief = mischief
        self.protocol = accepted(random)
        self.names = [role.name for role in self.protocol.roles]
        self.state = begin(plan(self.protocol, steps=30))
        self.at = 0.0

    def next(self) -> Event:
        self.at += self.random.random()
        if self.random.random() < self.mischief:
            return self.anything()
        if self.state.phase is Phase.OPENING:
            return Joined(self.random.choice(sorted(self.state.waiting)), self.protocol.id, self.at)
        if self.state.phase is Phase.STOPPING:
            return Stopped(self.random.choice(sorted(self.state.waiting)), self.at)
        if self.state.phase is Phase.DONE:
            return Tick(self.at)
        asked = self.random.choice(list(self.state.asked.values()))
        grant, label = asked.grant, self.random.choice(list(asked.node.arms))
        return Sent(grant.role, grant.turn, grant.receiver, label, pack({}), 0, self.at)

    def anything(self) -> Event:
        """Something out of place."""
        role, other = self.random.choice([*self.names, "X"]), self.random.choice([*self.names, "X"])
        label = self.random.choice(["Ping", "Pong", "Stop", "Notice", "?"])
        turn = self.state.turn + self.random.choice([-1, 0, 0, 0, 1])
        payload = self.random.choice([pack({}), pack({"text": 5}), b"\xc1"])
        events: list[Event] = [
            Sent(role, turn, other, label, payload, self.random.choice([0, -1]), self.at),
            Joined(role, self.random.choice([self.protocol.id, "other"]), self.at),
            Garbled(role, "?", self.at),
            Left(role, "?", self.at),
            Stopped(role, self.at),
            Tick(self.at),
        ]
        return self.random.choice(events)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.05, 0.5]))
def test_a_random_protocol_ends_whatever_happens_and_only_legal_messages_are_delivered(
    seed: int, mischief: float
) -> None:
    course = Course(Random(seed), mischief)
    node = course.protocol.flow.states[course.protocol.flow.start]
    for _ in range(200):
        course.state, commands = step(course.state, course.next())
        for command in commands:
            if isinstance(command, Deliver):
                assert isinstance(node, Interaction)
                decision = command.decision
                assert (decision.sender, decision.receiver) == (node.sender.name, node.receiver.name)
                node = course.protocol.flow.states[node.arms[decision.label].next]
        if course.state.phase is Phase.DONE:
            break
    assert course.state.phase is Phase.DONE
    verdict = ending(course.state)
    if mischief == 0:
        assert verdict.ending in (Ending.COMPLETE, Ending.ALLOWANCE)
    if verdict.ending is Ending.COMPLETE:
        assert isinstance(node, End)
    if verdict.ending in (Ending.ILLEGAL, Ending.CONTENT, Ending.LOST, Ending.MISMATCH):
        assert verdict.role in course.names
