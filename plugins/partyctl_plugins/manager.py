"""Which providers are installed, and how one is loaded.

The host's side (`providers`, `resolve`) reads entry-point metadata and imports no plugin, so that a broken plugin
breaks neither the command line nor the host. The worker's side (`load`) imports one and hands it to pluggy.
"""

import importlib
import importlib.metadata
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

import pluggy

from partyctl_plugins import PROJECT, hookspecs
from partyctl_plugins.errors import PluginError, PluginLoadError, ProviderConflict, ProviderNotFound

GROUP = "partyctl.providers"
"""The entry-point group that names a distribution's providers."""

TRACEBACK_MAX = 8 * 1024
"""How much of a plugin's traceback is kept, in characters; the end says most."""

_TARGET = re.compile(r"(?P<module>\w+(?:\.\w+)*)(?::(?P<attribute>\w+(?:\.\w+)*))?")

log = logging.getLogger("partyctl.plugins")


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """A provider as its distribution announces it.

    Attributes:
        name: the provider's name.
        target: what to import, "module" or "module:attribute".
        distribution, version: the package it comes from.
    """

    name: str
    target: str
    distribution: str = ""
    version: str = ""

    @property
    def package(self) -> str:
        """The package and its version, for a message."""
        return f"{self.distribution} {self.version}".strip() or "an unnamed package"


def providers() -> list[ProviderEntry]:
    """Every installed provider, by name; a name that several packages claim is listed once for each.

    Reads metadata only. A distribution whose metadata cannot be read is logged and left out.
    """
    found: dict[tuple[str, str, str], ProviderEntry] = {}
    for distribution in importlib.metadata.distributions():
        try:
            entries = _announced(distribution)
        except Exception as error:  # whatever a broken installation raises must not hide the sound ones
            log.warning("a distribution with broken metadata was left out (%s): %r", distribution, error)
            continue
        for entry in entries:
            # The first on sys.path is the one that would be imported; a shadowed copy is no second claimant.
            found.setdefault((entry.name, entry.target, entry.distribution), entry)
    return sorted(found.values(), key=lambda entry: (entry.name, entry.distribution))


def resolve(name: str, entries: Iterable[ProviderEntry] | None = None) -> ProviderEntry:
    """The installed provider called `name`.

    Args:
        name: the provider's name.
        entries: where to look; what is installed if omitted.

    Raises:
        ProviderNotFound: there is none; the message names the nearest.
        ProviderConflict: several packages claim the name.
        PluginError: what is installed cannot be read, as when no descriptor is left.
    """
    known = list(providers() if entries is None else entries)
    matches = [entry for entry in known if entry.name == name]
    if not matches:
        if entries is None:
            _check_path()
        raise ProviderNotFound(
            f"no provider is called {name!r}",
            why=f"installed are {', '.join(sorted({entry.name for entry in known})) or 'none'}",
            fix=nearest(name, [entry.name for entry in known]) or "Install the package that provides it",
        )
    if len(matches) > 1:
        packages = " and ".join(entry.package for entry in matches)
        raise ProviderConflict(
            f"provider {name!r} is claimed by several packages", why=packages, fix="Uninstall all but one of them"
        )
    return matches[0]


def _check_path() -> None:
    """Raise if nothing can be read now: `importlib.metadata` takes a directory that it cannot read for an empty one."""
    for path in sys.path:
        try:
            os.scandir(path or os.curdir).close()
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # nothing is installed there
        except OSError as error:
            raise PluginError(
                "what is installed cannot be read", where=path, why=error.strerror or str(error), fix="Try it again"
            ) from error


def nearest(name: str, known: Iterable[str]) -> str:
    """The question 'Did you mean ...?', or nothing if nothing is near."""
    close = get_close_matches(name, sorted(set(known)), n=1)
    return f"Did you mean {close[0]!r}?" if close else ""


def load(entry: ProviderEntry) -> pluggy.PluginManager:
    """Import the plugin of `entry` and register its hooks. In a worker only.

    Raises:
        PluginLoadError: it cannot be imported, or is no provider. Whatever it raises, SystemExit and KeyboardInterrupt
            too, becomes the cause of this error.
    """
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        plugin = _imported(entry)
        manager.register(plugin, name=entry.name)
        manager.check_pending()
    except PluginLoadError:
        raise
    except BaseException as error:
        raise load_error(entry, error) from error
    if not manager.hook.partyctl_transport.get_hookimpls():
        unmarked = callable(getattr(plugin, "partyctl_transport", None))
        raise PluginLoadError(
            f"the plugin of provider {entry.name!r} provides no transport",
            where=f"{entry.target} of {entry.package}",
            why="its partyctl_transport is not marked" if unmarked else "it implements no hook partyctl_transport",
            fix="Mark it with partyctl.plugins.hookimpl"
            if unmarked
            else "Add a hook partyctl_transport(kind, options)",
        )
    return manager


def _announced(distribution: importlib.metadata.Distribution) -> list[ProviderEntry]:
    text = distribution.read_text("entry_points.txt")
    if not text or GROUP not in text:  # spares parsing the metadata of every package there is
        return []
    name, version = distribution.metadata["Name"], distribution.version
    return [
        ProviderEntry(point.name, point.value, name or "", version or "")
        for point in distribution.entry_points.select(group=GROUP)
    ]


def _imported(entry: ProviderEntry) -> object:
    match = _TARGET.fullmatch(entry.target.replace(" ", ""))
    if match is None:
        raise PluginLoadError(
            f"provider {entry.name!r} names no module",
            where=entry.package,
            why=f"its entry point is {entry.target!r}",
            fix='An entry point reads "module" or "module:attribute"',
        )
    importlib.invalidate_caches()  # the package may have been installed after the launcher this process comes from
    plugin: object = importlib.import_module(match["module"])
    for attribute in (match["attribute"] or "").split("."):
        plugin = getattr(plugin, attribute) if attribute else plugin
    return plugin() if isinstance(plugin, type) else plugin


def load_error(entry: ProviderEntry, error: BaseException) -> PluginLoadError:
    """What the import of a plugin that raised `error` is refused with."""
    if isinstance(error, ModuleNotFoundError) and error.name and error.name == entry.target.partition(":")[0]:
        fix = f"Reinstall {entry.package}"
    elif isinstance(error, ImportError):
        fix = f"Install what {entry.package} needs"
    else:
        fix = f"Report this to the authors of {entry.package}"
    return PluginLoadError(
        f"the plugin of provider {entry.name!r} could not be loaded",
        where=f"{entry.target} of {entry.package}",
        why=cause(error),
        fix=fix,
        detail=trace(error),
    )


def cause(error: BaseException) -> str:
    """An exception in one line; safe for one whose text cannot be made."""
    try:
        text = str(error).strip()
    except Exception:  # a plugin's exception may fail even at this
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def trace(error: BaseException) -> str:
    """The end of an exception's traceback, at most `TRACEBACK_MAX` characters."""
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # as above
        text = cause(error)
    return text[-TRACEBACK_MAX:]
