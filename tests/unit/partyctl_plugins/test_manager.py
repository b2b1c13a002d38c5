"""Providers are found by metadata, and a broken plugin says why it is broken."""

import contextlib
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from partyctl_plugins.errors import PluginError, PluginLoadError, ProviderConflict, ProviderNotFound
from partyctl_plugins.manager import ProviderEntry, load, nearest, providers, resolve

A = ProviderEntry("claude", "a.claude", "a-dist", "1.0")
B = ProviderEntry("claude", "b.claude", "b-dist", "2.0")
C = ProviderEntry("scripted", "c.scripted", "a-dist", "1.0")

PLUGIN = """
from partyctl_plugins import hookimpl

@hookimpl
def partyctl_transport(kind, options):
    return (kind, options)
"""


class Site:
    """A directory of installed distributions, on sys.path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def distribution(self, name: str, entry_points: bytes, metadata: str | None = None) -> Path:
        info = self.path / f"{name.replace('-', '_')}-1.5.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_bytes(entry_points)
        if metadata != "":
            (info / "METADATA").write_text(metadata or f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        return info

    def module(self, name: str, source: str) -> ProviderEntry:
        (self.path / f"{name}.py").write_text(source)
        return ProviderEntry(name.replace("_", "-"), name, "site-dist", "1.5")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Site(tmp_path)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def named(name: str) -> list[ProviderEntry]:
    return [entry for entry in providers() if entry.name == name]


class TestProviders:
    def test_the_built_in_ones_come_by_the_same_road(self) -> None:
        assert [entry.target for entry in named("scripted")] == ["partyctl_plugins.scripted"]
        assert named("claude")[0].distribution == "partyctl"

    def test_a_distribution_is_found_without_importing_its_plugin(self, site: Site) -> None:
        site.distribution("other-dist", b"[partyctl.providers]\nother = not_there:plugin\n")
        assert named("other") == [ProviderEntry("other", "not_there:plugin", "other-dist", "1.5")]

    def test_other_groups_are_left_alone(self, site: Site) -> None:
        site.distribution("other-dist", b"[console_scripts]\nother = x:y\n[partyctl.providers.old]\nother = x\n")
        assert named("other") == []

    @pytest.mark.parametrize(
        ("entry_points", "metadata"),
        [
            (b"[partyctl.providers]\nbroken = x\n", ""),
            (b"\xff\xfe[partyctl.providers]\n", None),
            (b"[partyctl.providers]\nno equals sign here\n", None),
            (b"[partyctl.providers]\nbroken = x\n", "nothing of use"),
        ],
    )
    def test_a_broken_distribution_hides_nobody(self, site: Site, entry_points: bytes, metadata: str | None) -> None:
        site.distribution("broken-dist", entry_points, metadata)
        site.distribution("other-dist", b"[partyctl.providers]\nother = x\n")
        assert named("other") == [ProviderEntry("other", "x", "other-dist", "1.5")]
        assert named("scripted")

    def test_a_distribution_that_is_no_directory_hides_nobody(self, site: Site) -> None:
        (site.path / "odd-1.0.dist-info").write_text("a file")
        assert named("scripted")

    def test_two_claimants_are_both_listed(self, site: Site) -> None:
        site.distribution("first-dist", b"[partyctl.providers]\nother = x\n")
        site.distribution("second-dist", b"[partyctl.providers]\nother = x\n")
        assert [entry.distribution for entry in named("other")] == ["first-dist", "second-dist"]

    def test_a_shadowed_copy_is_no_second_claimant(
        self, site: Site, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shadowed = Site(tmp_path_factory.mktemp("shadowed"))
        sys.path.append(str(shadowed.path))
        monkeypatch.setattr(sys, "path", list(sys.path))
        for place in (site, shadowed):
            place.distribution("other-dist", b"[partyctl.providers]\nother = x\n")
        assert len(named("other")) == 1


class TestResolve:
    def test_the_one_with_that_name_is_found(self) -> None:
        assert resolve("scripted", [A, C]) is C

    def test_an_unknown_name_is_answered_with_the_nearest(self) -> None:
        with pytest.raises(ProviderNotFound) as caught:
            resolve("cluade", [A, C])
        assert str(caught.value) == (
            "no provider is called 'cluade': installed are claude, scripted. Did you mean 'claude'?"
        )

    def test_an_unknown_name_near_nothing_says_what_to_do(self) -> None:
        with pytest.raises(ProviderNotFound, match="Install the package"):
            resolve("zzz", [A])

    def test_several_claimants_are_named(self) -> None:
        with pytest.raises(ProviderConflict, match=r"a-dist 1\.0 and b-dist 2\.0"):
            resolve("claude", [A, B, C])

    def test_what_is_installed_is_the_default(self) -> None:
        assert resolve("scripted").distribution == "partyctl"

    def test_nothing_is_near_nothing(self) -> None:
        assert nearest("zzz", ["claude"]) == ""


class TestLoad:
    def test_a_module_is_registered_and_its_hook_answers(self, site: Site) -> None:
        plugins = load(site.module("plain_module", PLUGIN))
        assert plugins.hook.partyctl_transport(kind="k", options={}) == ("k", {})

    @pytest.mark.parametrize("attribute", ["Plugin", "plugin", "deep.plugin"])
    def test_an_attribute_is_registered_and_a_class_is_made_an_object(self, site: Site, attribute: str) -> None:
        source = """
from partyctl_plugins import hookimpl
class Plugin:
    @hookimpl
    def partyctl_transport(self, kind, options):
        return kind
plugin = Plugin()
class deep:
    plugin = plugin
"""
        name = f"with_{attribute.replace('.', '_')}"
        site.module(name, source)
        plugins = load(ProviderEntry("mine", f"{name}:{attribute}"))
        assert plugins.hook.partyctl_transport(kind="k", options={}) == "k"

    @pytest.mark.parametrize(
        ("name", "source", "said"),
        [
            ("bad_import", "import nothing_of_that_name", "ModuleNotFoundError"),
            ("bad_syntax", "def (:", "SyntaxError"),
            ("bad_exit", "raise SystemExit(3)", "SystemExit: 3"),
            ("bad_interrupt", "raise KeyboardInterrupt", "KeyboardInterrupt"),
            ("bad_name", "1/0", "ZeroDivisionError"),
            ("bad_hook", PLUGIN.replace("kind, options", "kind, colour"), "PluginValidationError"),
            ("bad_extra", PLUGIN + "@hookimpl\ndef partyctl_dance(): ...\n", "PluginValidationError"),
            ("no_hook", "x = 1", "it implements no hook partyctl_transport"),
            ("no_mark", PLUGIN.replace("@hookimpl", ""), "is not marked"),
        ],
    )
    def test_a_broken_plugin_says_why(self, site: Site, name: str, source: str, said: str) -> None:
        with pytest.raises(PluginLoadError) as caught:
            load(site.module(name, source))
        assert said in str(caught.value)
        assert name in caught.value.where
        assert "site-dist 1.5" in str(caught.value)

    def test_a_missing_module_is_to_be_reinstalled(self) -> None:
        with pytest.raises(PluginLoadError, match=r"Reinstall gone-dist 1\.0"):
            load(ProviderEntry("gone", "gone_module", "gone-dist", "1.0"))

    def test_a_missing_attribute_is_named(self, site: Site) -> None:
        site.module("half_there", PLUGIN)
        with pytest.raises(PluginLoadError, match="no attribute 'plugin'"):
            load(ProviderEntry("half", "half_there:plugin"))

    @pytest.mark.parametrize("target", ["", "a b c:", "os.path/../x", ":x", "a:b:c"])
    def test_an_entry_point_that_names_no_module_is_refused(self, target: str) -> None:
        with pytest.raises(PluginLoadError, match="names no module"):
            load(ProviderEntry("odd", target))

    def test_the_traceback_is_kept_for_the_authors(self, site: Site) -> None:
        with pytest.raises(PluginLoadError) as caught:
            load(site.module("bad_trace", "def deep():\n    1/0\ndeep()"))
        assert "bad_trace.py" in caught.value.detail
        assert "in deep" in caught.value.detail


def test_without_a_free_descriptor_nothing_is_said_to_be_not_installed() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with tempfile.TemporaryFile() as highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest.fileno() + 1, hard))
        taken: list[int] = []
        try:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.dup(highest.fileno()))
            with pytest.raises(PluginError, match=r"what is installed cannot be read .*: Too many open files"):
                resolve("no such provider")
        finally:
            for fd in taken:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
