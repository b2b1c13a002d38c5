"""Providers: the contract of a transport, the hooks of a plugin, and the process that runs one.

A plugin is a module that a distribution names in the entry-point group `partyctl.providers`, with functions marked
`hookimpl`; `partyctl_plugins.hookspecs` says which.
"""

from pluggy import HookimplMarker

PROJECT = "partyctl"
"""The name under which pluggy knows our hooks."""

hookimpl = HookimplMarker(PROJECT)
"""Marks a function of a plugin as the implementation of a hook."""

__all__ = ["PROJECT", "hookimpl"]
