"""The policy under random rows of events: what must hold whatever happens, in whatever order.

2,000 rows each; `PARTYCTL_POLICY_EXAMPLES` for another number.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partyctl_actors.supervision.policy import TABLE, SessionPolicy
from partyctl_actors.supervision.policy_commands import (
    AdoptVerdict,
    ClearCheckpoint,
    Command,
    Decided,
    Execute,
    Fail,
    Finish,
    Open,
    Prepared,
    Reason,
    Refusal,
    Refuse,
    SaveCheckpoint,
    Steer,
    Wait,
)
from partyctl_actors.supervision.policy_config import PolicyConfig
from partyctl_actors.supervision.policy_events import (
    AdoptAsked,
    Broke,
    ContinueAsked,
    Died,
    Event,
    Failed,
    Found,
    InterruptAsked,
    Lost,
    Opened,
    Outcome,
    Phase,
    PrepareAsked,
    Restored,
    RunAsked,
    SteerAsked,
    Succeeded,
    Waited,
)
from partyctl_actors.supervision.policy_failures import RESET_MAX, SAME_ID_DELAY
from partyctl_actors.supervision.policy_state import SessionState, from_plain, to_plain
from partyctl_plugins.contract import RenewalBudget, RetryPolicy

EXAMPLES = int(os.environ.get("PARTYCTL_POLICY_EXAMPLES", "2000"))

SEEDS = st.integers(0, 2**32 - 1)
STEPS = st.integers(1, 40)
RESETS = (None, None, 0.0, 1200.0, 1e12, math.inf, math.nan)


class Fate:
    """Draws what happens next, mostly something that fits: hardly any wholly random row comes to a second attempt."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.config = self._config()
        self.start = self.rng.choice([None, "a", "b"])
        self._tickets = 0

    def _config(self) -> PolicyConfig:
        rng = self.rng
        delays = tuple(float(rng.randrange(60)) for _ in range(rng.randrange(4)))
        retry = RetryPolicy(delays, rng.choice(["retry", "fail"]), rng.choice([None, 1, 2]))
        renewal = rng.choice([None, None, RenewalBudget(max_turns=2), RenewalBudget(max_turn_input_tokens=9)])
        return PolicyConfig(retry, renewal, rng.random() < 0.8, rng.random() < 0.5, rng.choice([None, 0, 50]))

    def next(self, state: SessionState) -> Event:
        kinds = FITTING[state.phase] if self.rng.random() < 0.75 else EVENTS
        return self.event(self.rng.choice(kinds), state)

    def event(self, kind: type[Event], state: SessionState) -> Event:
        rng, at = self.rng, float(self.rng.randrange(200))
        ours = [None, state.conversation_id, "a", "b"]
        if state.turn is not None:
            ours += [state.turn.expected] * 3
        conversation_id, flag = rng.choice(ours), rng.random() < 0.3
        serial = state.serial - rng.choice([0, 0, 0, 0, 0, 0, 1, 2])
        if kind is PrepareAsked:
            self._tickets += 1
            expect = rng.choice([None, None, state.conversation_id, "a"])
            return PrepareAsked(at, f"t{self._tickets}", expect, flag)
        ticket = rng.choice([f"t{self._tickets}"] * 5 + ["t1", f"t{self._tickets - 1}"])
        made: dict[type, Callable[[], Event]] = {
            RunAsked: lambda: RunAsked(at, ticket),
            InterruptAsked: lambda: InterruptAsked(at, rng.choice([None, ticket])),
            AdoptAsked: lambda: AdoptAsked(at, rng.choice(["a", "b"])),
            Opened: lambda: Opened(at, serial, conversation_id),
            Succeeded: lambda: Succeeded(at, serial, conversation_id, rng.randrange(10), 1, flag),
            Failed: lambda: self._failed(at, serial, conversation_id),
            Died: lambda: Died(at, rng.choice([state.connection or 0, serial])),
            Lost: lambda: Lost(at, conversation_id),
            Broke: lambda: Broke(at, conversation_id),
            Waited: lambda: Waited(at, serial, flag),
            Restored: lambda: Restored(at, rng.choice(list(Found))),
        }
        return made[kind]() if kind in made else kind(at)  # type: ignore[call-arg]

    def _failed(self, at: float, serial: int, conversation_id: str | None) -> Failed:
        rng = self.rng
        often = [Outcome.TRANSIENT, Outcome.RESUME_REFUSED] * 4
        tool_ran, progressed, died, dead = (rng.random() < chance for chance in (0.2, 0.3, 0.3, 0.6))
        outcome, resets_at = rng.choice([*often, *Outcome]), rng.choice(RESETS)
        return Failed(at, serial, outcome, conversation_id, tool_ran, progressed, died, dead, resets_at, 100.0)


EVENTS: tuple[type[Event], ...] = Event.__args__
FITTING: dict[Phase, tuple[type[Event], ...]] = {
    Phase.IDLE: (PrepareAsked,),
    Phase.PREPARED: (RunAsked,),
    Phase.OPENING: (Opened, Opened, Failed),
    Phase.RUNNING: (Succeeded, Failed),
    Phase.WAITING: (Waited, Waited, Died, ContinueAsked),
}

ASKS = (PrepareAsked, RunAsked, AdoptAsked, SteerAsked)
ANSWERS = (Prepared, Refuse, AdoptVerdict, Open, Execute, Steer, Fail)


Step: TypeAlias = tuple[SessionState, Event, SessionState, list[Command]]


def walk(seed: int, steps: int) -> tuple[PolicyConfig, list[Step]]:
    """The steps of a row of events, with the state before and after each."""
    fate = Fate(seed)
    policy = SessionPolicy(fate.config)
    state = policy.begin(fate.start)
    made: list[Step] = []
    for _ in range(steps):
        event = fate.next(state)
        after, commands = policy.step(state, event)
        made.append((state, event, after, commands))
        state = after
    return fate.config, made


def told(commands: list[Command], kind: type) -> list[Command]:
    return [command for command in commands if isinstance(command, kind)]


@settings(max_examples=EXAMPLES)
@given(SEEDS, STEPS)
def test_no_state_is_illegal_and_every_transition_is_in_the_table(seed: int, steps: int) -> None:
    config, made = walk(seed, steps)
    for before, event, after, commands in made:
        legal(config, after)
        leads = {
            target
            for row in TABLE
            if before.phase in row.phases and row.event in (type(event), Failed if isinstance(event, Died) else None)
            for target in row.to or (before.phase,)
        }
        assert after.phase in leads | {before.phase}
        under_way = told(commands, Open) + told(commands, Execute) + told(commands, Wait)
        assert len(under_way) <= 1
        if under_way:
            kind = {Open: Phase.OPENING, Execute: Phase.RUNNING, Wait: Phase.WAITING}[type(under_way[0])]
            assert (after.phase, after.serial) == (kind, under_way[0].serial)  # type: ignore[union-attr]
        if isinstance(event, ASKS):
            assert len(told(commands, ANSWERS)) == 1  # type: ignore[arg-type]


def legal(config: PolicyConfig, state: SessionState) -> None:
    turn = state.turn
    assert not (state.phase is Phase.RUNNING and not state.live and not state.closed)
    assert not (state.phase is Phase.OPENING and state.live)
    assert not (state.closed and state.phase is Phase.PREPARED)
    assert not (state.closed and state.live)
    assert config.supports_resume or state.live or state.conversation_id is None
    assert turn is None or state.cancelled is None
    assert turn is None or turn.serial <= state.serial
    assert turn is None or not (turn.resumed and turn.replaced)
    assert turn is None or not (turn.keeps and turn.replaced and turn.expected)


@settings(max_examples=EXAMPLES)
@given(SEEDS, STEPS)
def test_a_turn_that_keeps_its_conversation_never_loses_it(seed: int, steps: int) -> None:
    config, made = walk(seed, steps)
    for before, event, after, commands in made:
        turn = before.turn
        if turn is None or not turn.keeps or turn.expected is None or isinstance(event, PrepareAsked):
            continue
        assert not told(commands, ClearCheckpoint)
        gone = not config.supports_resume and not after.live
        assert after.conversation_id == turn.expected or gone
        for command in commands:
            if isinstance(command, Open):
                assert command.conversation_id == turn.expected
            if isinstance(command, SaveCheckpoint):
                assert command.conversation_id == turn.expected
            if isinstance(command, Finish):
                assert command.conversation_id == turn.expected
                assert command.continuity.value == "continued"


@settings(max_examples=EXAMPLES)
@given(SEEDS, STEPS)
def test_retries_stay_within_their_budgets(seed: int, steps: int) -> None:
    config, made = walk(seed, steps)
    budget = config.retry
    tried = waited = forgiven = 0
    for before, event, after, commands in made:
        if isinstance(event, PrepareAsked) and told(commands, Prepared):
            tried = waited = forgiven = 0
        if isinstance(event, ContinueAsked):
            forgiven += 1
        tried += len(told(commands, Execute))
        fresh_waits = [] if isinstance(event, Restored) else told(commands, Wait)
        for command in fresh_waits:
            assert isinstance(command, Wait)
            waited += 1
            assert 0 <= command.seconds <= max([RESET_MAX, SAME_ID_DELAY, *budget.delays])
        per_budget = len(budget.delays) + 1
        assert waited <= per_budget * (forgiven + 1)
        # One attempt, one for each wait, one in a fresh conversation.
        assert tried <= 1 + waited + 1 + forgiven
        if before.turn is not None and after.turn is not None:
            assert not (before.turn.replaced and not after.turn.replaced and before.turn.turn_id == after.turn.turn_id)
            assert after.turn.retries <= len(budget.delays)
            assert after.turn.same_id <= 1


@settings(max_examples=EXAMPLES)
@given(SEEDS, STEPS, st.sampled_from(Outcome), st.booleans())
def test_every_run_ends_and_ends_once(seed: int, steps: int, outcome: Outcome, opens: bool) -> None:
    config, made = walk(seed, steps)
    running: str | None = None
    for before, event, after, commands in made:
        began = isinstance(event, RunAsked) and before.phase is Phase.PREPARED and not told(commands, Refuse)
        if began:
            running = event.turn_id  # type: ignore[union-attr]
        ends = told(commands, Finish) + told(commands, Fail)
        if ends and (began or not isinstance(event, RunAsked)):
            assert [end.turn_id for end in ends] == [running]  # type: ignore[union-attr]
            running = None
        assert (running is not None) is (after.phase in (Phase.OPENING, Phase.RUNNING, Phase.WAITING))
    # Whatever is under way then comes to an end by nothing but its own answers.
    state, answers = made[-1][2], 0
    while running is not None:
        state, commands = SessionPolicy(config).step(state, answer(state, outcome, opens))
        answers += 1
        assert answers < 30
        if told(commands, Finish) + told(commands, Fail):
            running = None
    assert state.phase in (Phase.IDLE, Phase.PREPARED)


def answer(state: SessionState, outcome: Outcome, opens: bool) -> Event:
    if state.phase is Phase.WAITING:
        return Waited(0, state.serial)
    if state.phase is Phase.OPENING and opens:
        return Opened(0, state.serial)
    return Failed(0, state.serial, outcome, predecessor_dead=False)


@settings(max_examples=EXAMPLES)
@given(SEEDS, STEPS)
def test_what_fails_says_why_and_what_is_not_asked_for_is_not_reported(seed: int, steps: int) -> None:
    for before, event, after, commands in walk(seed, steps)[1]:
        reports = told(commands, Decided)
        assert commands[: len(reports)] == reports
        assert sum(after.counts.values()) == sum(before.counts.values()) + len(reports)
        for command in commands:
            if isinstance(command, Fail) and not isinstance(event, RunAsked):
                assert reports
            if isinstance(command, Fail) and command.reason is Reason.CONTINUITY:
                assert command.expected != command.actual
            if isinstance(command, Fail) and command.in_flight:
                assert command.reason is Reason.LOST
                assert command.attempts > 0
            if isinstance(command, Refuse) and command.refusal is not Refusal.CANNOT_STEER:
                assert after == before


@settings(max_examples=EXAMPLES)
@given(SEEDS, STEPS)
def test_a_state_comes_back_from_its_plain_form_at_every_step(seed: int, steps: int) -> None:
    for _, _, after, _ in walk(seed, steps)[1]:
        assert from_plain(json.loads(json.dumps(to_plain(after)))) == after


def test_every_row_of_the_table_happens_in_these_rows_of_events() -> None:
    reached: set[int] = set()
    for seed in range(2000):
        config, made = walk(seed, 40)
        rows = (SessionPolicy(config).row(before, event) for before, event, _, _ in made)
        reached.update(TABLE.index(row) for row in rows if row is not None)
    missing = [row for number, row in enumerate(TABLE) if number not in reached]
    assert not missing


@pytest.mark.parametrize("phase", list(Phase))
def test_every_event_that_can_end_a_turn_has_a_last_row_without_a_condition(phase: Phase) -> None:
    for event in (PrepareAsked, RunAsked, SteerAsked, AdoptAsked):
        assert [row for row in TABLE if phase in row.phases and row.event is event][-1].when is None
    for event, phases in (
        (Opened, [Phase.OPENING]),
        (Succeeded, [Phase.RUNNING]),
        (Failed, [Phase.OPENING, Phase.RUNNING]),
        (Waited, [Phase.WAITING]),
    ):
        if phase in phases:
            assert [row for row in TABLE if phase in row.phases and row.event is event][-1].when is None
