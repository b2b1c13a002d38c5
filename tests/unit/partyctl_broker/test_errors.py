import inspect
import re

import partyctl_broker
from partyctl_base.errors import PartyError
from partyctl_broker import errors


def kinds():
    return [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.BusError)]


def test_every_error_has_one_root():
    assert issubclass(errors.BusError, PartyError)


def test_the_tree_at_the_head_of_the_module_names_every_error():
    drawn = set(re.findall(r"\b[A-Z]\w+", (errors.__doc__ or "").split("\n", 2)[2]))
    assert {kind.__name__ for kind in kinds()} <= drawn


def test_every_error_that_can_leave_the_package_is_public():
    inner = {"Malformed", "VersionMismatch"}
    assert {kind.__name__ for kind in kinds()} - inner <= set(partyctl_broker.__all__)
