"""The hooks: named, and known to pluggy under our project."""

import pluggy

from partyctl_plugins import PROJECT, hookimpl, hookspecs


def test_the_hooks_are_these() -> None:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    hooks = {name for name in vars(manager.hook) if name.startswith("partyctl_")}
    assert hooks == {"partyctl_transport"}


def test_every_hook_is_documented() -> None:
    assert hookspecs.partyctl_transport.__doc__


def test_a_marked_function_is_found_by_pluggy() -> None:
    class Plugin:
        @hookimpl
        def partyctl_transport(self) -> str:
            return "mine"

    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(Plugin())
    assert manager.hook.partyctl_transport(kind=None, options={}) == "mine"
