"""docs/command-line.md has every verb, option, exit code and environment variable, and no other."""

import re

import click
import pytest
from support.documents import Document

from partyctl.cli.root import partyctl
from partyctl.cli.verbs import VERBS
from partyctl.config import FILE_VARIABLE
from partyctl.errors import EXIT_CODES
from partyctl_base.paths import RUNTIME_VARIABLE

PAGE = Document("docs/command-line.md")
FROM_USAGE_AND_SIGNALS = {0, 2, 6, 130, 143}


def options(command: click.Command) -> set[str]:
    """Every way to spell each option that is shown in the command's help, and in that of its own verbs."""
    own = command.commands.values() if isinstance(command, click.Group) and command is not partyctl else ()
    params = [param for each in (command, *own) for param in each.params]
    shown = [each for each in params if isinstance(each, click.Option) and not each.hidden]
    return {spelling for each in shown for spelling in each.opts}


def documented(section: str) -> set[str]:
    """The options in the tables of a section."""
    return {word for row in PAGE.rows(section) for word in re.findall(r"`(--?[a-z][a-z-]*)`", row[0])}


def verb(name: str) -> click.Command:
    found = partyctl.get_command(click.Context(partyctl), name)
    assert found is not None
    return found


def test_every_verb_has_a_heading() -> None:
    verbs = [heading.removeprefix("partyctl ") for heading in PAGE.headings if heading.startswith("partyctl ")]
    assert sorted(verbs) == sorted(VERBS)


@pytest.mark.parametrize("name", VERBS)
def test_every_option_of_a_verb_has_a_row(name: str) -> None:
    assert documented(f"`partyctl {name}`") == options(verb(name))


def test_every_option_of_the_command_itself_has_a_row() -> None:
    assert documented("`partyctl`") == options(partyctl) | {"--help", "-h"}


def test_every_exit_code_has_a_row() -> None:
    assert set(map(int, PAGE.first_cells("Exit codes"))) == {*EXIT_CODES.values(), *FROM_USAGE_AND_SIGNALS}


@pytest.mark.parametrize("name", VERBS)
def test_the_exit_codes_of_a_verb_are_those_of_its_manual_page(name: str) -> None:
    manual = verb(name).help or ""
    told = re.search(r"Exit codes:(.*)", manual, re.DOTALL)
    section = re.search(r"^Exit codes?: (.*)$", PAGE.section(f"`partyctl {name}`"), re.MULTILINE)
    assert section is not None
    assert told is None or set(re.findall(r"\d+", told[1])) <= set(re.findall(r"\d+", section[1]))


def test_our_own_environment_variables_have_a_row() -> None:
    assert {FILE_VARIABLE, RUNTIME_VARIABLE} <= set(PAGE.first_cells("Files and environment variables"))
