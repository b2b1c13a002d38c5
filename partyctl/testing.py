"""What a plugin, and code that drives sessions, is tested with, under one name.

The contracts and `InWorker` need pytest, and nothing else here does: names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from partyctl_plugins.testing import __all__ as _kit

if TYPE_CHECKING:
    from partyctl.inworker import InWorker as InWorker
    from partyctl.workers import Workers as Workers
    from partyctl_plugins.testing import *  # noqa: F403

_HOMES = {"InWorker": "partyctl.inworker", "Workers": "partyctl.workers"}

__all__ = [*_kit, "InWorker", "Workers"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES.get(name, "partyctl_plugins.testing")), name)
    globals()[name] = value
    return value
