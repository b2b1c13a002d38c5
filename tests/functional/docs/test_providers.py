"""docs/providers.md has every hook, member of the contract, kind, event, step and option, and no other."""

import inspect
import re
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest
from support.documents import Document

import partyctl.plugins
from partyctl_plugins import errors, events, hookspecs
from partyctl_plugins.claude.command import StreamOptions
from partyctl_plugins.contract import Conversation, FailureKind, SteerableConversation, Transport
from partyctl_plugins.errors import ProviderOptionsError
from partyctl_plugins.events import AgentEvent
from partyctl_plugins.scripted import script
from partyctl_plugins.scripted.transport import ScriptedTransport

PAGE = Document("docs/providers.md")
UNKNOWN = "zzzzzzzz"

OF_A_TRANSPORT = {
    "TurnFailedError", "CliExitError", "SessionResumeError", "TurnTimeoutError", "ProviderCapabilityError",
    "ProviderOptionsError", "SessionStateError", "NoRunningTurnError",
}  # fmt: skip
"""The errors that a transport has a reason to raise itself."""


def own_names(cls: type) -> set[str]:
    """The public members that a class itself declares."""
    return {name for name in vars(cls) if not name.startswith("_")}


def test_every_hook_has_a_heading_with_its_arguments() -> None:
    specs = inspect.getmembers(hookspecs, lambda value: hasattr(value, "partyctl_spec"))
    signatures = [f"{name}({', '.join(inspect.signature(spec).parameters)})" for name, spec in specs]
    assert signatures
    assert sorted(heading for heading in PAGE.headings if heading.startswith("partyctl_")) == sorted(signatures)


def test_every_member_of_the_contract_has_a_row() -> None:
    rows = [(row[0].strip("`"), row[1].strip("`").partition("(")[0]) for row in PAGE.rows("The contract")]
    for cls in (Transport, Conversation, SteerableConversation):
        assert {member for name, member in rows if name == cls.__name__} == own_names(cls)


def test_every_kind_of_failure_has_a_row() -> None:
    assert sorted(PAGE.first_cells("Kinds of failure")[1:]) == sorted(kind.value for kind in FailureKind)


def told(cls: type) -> str:
    """The docstrings of a class and of what it declares."""
    return " ".join(inspect.getdoc(each) or "" for each in (cls, *(vars(cls)[name] for name in own_names(cls))))


def arguments(call: type) -> str:
    """What a class is made with, without what every error takes: a name that may be left out is followed by `=`."""
    found, star = [], False
    for each in inspect.signature(call).parameters.values():
        if each.name in ("where", "why", "fix"):
            continue
        if each.kind is each.KEYWORD_ONLY and not star:
            found.append("*")
            star = True
        found.append(each.name if each.default is each.empty else f"{each.name}=")
    return ", ".join(found)


def test_every_event_has_a_row_with_its_fields() -> None:
    rows = PAGE.rows("Events")[2:]
    assert [row[0].strip("`") for row in rows] == [event.__name__ for event in get_args(AgentEvent)]
    for row in rows:
        assert row[1].strip("`") == arguments(getattr(events, row[0].strip("`"))), row[0]


def test_every_value_of_a_transport_has_its_fields() -> None:
    rows = PAGE.rows("Values of a transport")[2:]
    given = [cls.__name__ for cls in get_type_hints(Transport.open).values() if cls is not Conversation]
    given += [cls.__name__ for cls in get_type_hints(Conversation.turn).values() if isinstance(cls, type)]
    assert {*given, "ProviderProfile"} <= {row[0].strip("`") for row in rows}
    for row in rows:
        assert row[1].strip("`") == arguments(getattr(partyctl.plugins, row[0].strip("`"))), row[0]


def test_every_error_of_a_transport_has_its_arguments() -> None:
    rows = PAGE.rows("Errors of a transport")[2:]
    raised = {
        error for error in vars(errors).values() if isinstance(error, type) and error.__module__ == errors.__name__
    }
    told = {getattr(errors, row[0].strip("`")) for row in rows}
    assert told == {error for error in raised if error.__name__ in OF_A_TRANSPORT}
    for row in rows:
        assert row[1].strip("`") == arguments(getattr(errors, row[0].strip("`"))), row[0]


def test_what_a_transport_raises_is_what_its_module_says_it_may() -> None:
    named = {
        name
        for cls in (Transport, Conversation, SteerableConversation)
        for name in re.findall(r"\b\w+Error\b", told(cls))
    }
    assert named - {"PluginError"} <= OF_A_TRANSPORT


def test_every_step_of_the_scripted_provider_has_a_row() -> None:
    with pytest.raises(ProviderOptionsError) as refused:
        script.read([[{UNKNOWN: 1}]], "/")
    steps = refused.value.fix.removeprefix("The steps are ").split(", ")
    assert PAGE.first_cells("Steps of `scripted`") == steps


def test_every_option_of_the_scripted_provider_has_a_row() -> None:
    with pytest.raises(ProviderOptionsError) as refused:
        ScriptedTransport({UNKNOWN: 1})
    assert PAGE.first_cells("Options of `scripted`") == refused.value.fix.removeprefix("Its options are ").split(
        " and "
    )


def test_every_option_of_the_claude_provider_has_a_row_with_its_default() -> None:
    told = {row[0].strip("`"): row[1].strip("`") for row in PAGE.rows("Options of `claude`") if row[0].startswith("`")}
    assert told == {option.name: str(option.default) for option in fields(StreamOptions)}
