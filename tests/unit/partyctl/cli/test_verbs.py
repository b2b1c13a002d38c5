from importlib import import_module

import click
import pytest

from partyctl.cli.verbs import VERBS, summary


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_is_a_file_whose_first_line_is_its_summary(verb: str) -> None:
    module = import_module(f"partyctl.cli.{verb}")
    assert isinstance(module.command, click.Command)
    assert module.__doc__
    assert module.command.help
    assert module.command.help.splitlines()[0].rstrip(".") == summary(verb)


@pytest.mark.parametrize("verb", VERBS)
def test_each_option_explains_itself(verb: str) -> None:
    command = import_module(f"partyctl.cli.{verb}").command
    silent = [p.name for p in command.params if isinstance(p, click.Option) and not p.hidden and not p.help]
    assert not silent
