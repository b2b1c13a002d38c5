import copy
import inspect
from collections.abc import Callable

import pytest

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol import Message, Protocol, Role, check, definition, explore, load, patterns, project, send
from partyctl_actors.protocol.graph import Interaction
from partyctl_actors.protocol.patterns import Pattern

MADE: dict[str, Callable[[], Pattern]] = {
    "request_reply": lambda: patterns.request_reply("A", "B"),
    "review_loop": lambda: patterns.review_loop("A", "B", "C"),
    "approval_gate": lambda: patterns.approval_gate("A", "B", "C"),
    "pipeline": lambda: patterns.pipeline("A", {"B": Raw, "C": Clean}),
    "triage": lambda: patterns.triage("A", "R", {"back office": "papers", "shop": "goods"}),
    "swarm": lambda: patterns.swarm("A", ["B", "C", "D"]),
    "best_of": lambda: patterns.best_of("A", ["B", "C"], "J"),
    "map_reduce": lambda: patterns.map_reduce("A", ["B", "C"], "R"),
    "debate": lambda: patterns.debate("A", "B", "C", "J"),
}


class Raw(Message):
    text: str


class Clean(Message):
    text: str


def test_every_pattern_is_tried_here() -> None:
    made = {name for name in patterns.__all__ if inspect.isfunction(getattr(patterns, name))}
    assert made == MADE.keys()


@pytest.mark.parametrize("name", MADE)
def test_a_pattern_is_a_protocol_that_ends_and_that_nobody_is_stuck_in(name: str) -> None:
    pattern = MADE[name]()
    report = check(pattern)
    assert report.ok
    assert report.findings == ()
    assert explore([project(pattern, role) for role in pattern.roles]).sound
    assert load(definition(pattern)) == pattern


@pytest.mark.parametrize("name", MADE)
def test_the_documented_messages_are_attributes_and_no_others(name: str) -> None:
    pattern = MADE[name]()
    documented = inspect.getdoc(getattr(patterns, name)) or ""
    for attribute, kind in pattern.named.items():
        assert getattr(pattern, attribute) is kind
        assert f"`{attribute}`" in documented or attribute.startswith("Route") or name == "pipeline"
        assert kind.intent or name == "pipeline"
    assert set(pattern.messages) == {kind.label for kind in pattern.named.values()}


def test_an_unknown_message_is_an_attribute_error_with_the_nearest_name() -> None:
    with pytest.raises(AttributeError, match="no message Drafts; did you mean Draft"):
        _ = MADE["review_loop"]().Drafts


def test_a_message_class_of_ones_own_takes_the_place_of_a_made_one() -> None:
    pattern = patterns.request_reply(Role("A"), "B", answer=Clean)
    assert pattern.Answer is Clean
    assert pattern.messages["Clean"] is Clean


def test_a_pattern_may_be_a_step_of_another_protocol() -> None:
    inner = MADE["request_reply"]()
    protocol = Protocol(inner, send(Role("B"), Role("C"), Raw))
    assert protocol == Protocol(*inner.steps, send(Role("B"), Role("C"), Raw))


def test_a_pattern_can_be_copied() -> None:
    pattern = MADE["request_reply"]()
    assert copy.copy(pattern).Ask is pattern.Ask


def test_without_a_judge_the_requester_gets_the_candidates() -> None:
    assert list(patterns.best_of("A", ["B", "C"]).named) == ["Task", "Candidate"]


def test_the_routes_are_named_after_the_desks_and_say_what_they_are_for() -> None:
    pattern = MADE["triage"]()
    assert pattern.RouteBackOffice.intent == "papers"
    with pytest.raises(ProtocolError, match="same message"):
        patterns.triage("A", "R", {"back office": "", "BackOffice": ""})


@pytest.mark.parametrize("size", [10, 50])
def test_a_swarm_is_linear_in_its_agents(size: int) -> None:
    pattern = patterns.swarm("A", [f"S{i}" for i in range(size)])
    assert sum(isinstance(state, Interaction) for state in pattern.flow.states) == 4 * size


@pytest.mark.parametrize(
    "misuse",
    [
        lambda: patterns.request_reply("A", "A"),
        lambda: patterns.review_loop("A", "B", "A"),
        lambda: patterns.pipeline("A", {}),
        lambda: patterns.pipeline("A", [Raw]),  # type: ignore[arg-type]
        lambda: patterns.swarm("A", ["B"]),
        lambda: patterns.swarm("A", ["B", "A"]),
        lambda: patterns.best_of("A", []),
        lambda: patterns.map_reduce("A", ["B"], "B"),
        lambda: patterns.triage("A", "R", {}),
        lambda: patterns.triage("A", "R", {"!": "?"} | {"?": "!"}),
    ],
)
def test_misuse_is_refused(misuse: Callable[[], object]) -> None:
    with pytest.raises(ProtocolError):
        misuse()
