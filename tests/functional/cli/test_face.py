"""What every verb has in common: help, mistakes, streams, exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from partyctl.cli.verbs import VERBS

from .conftest import Cli

HELP = [["--help"], ["-h"], *([verb, "--help"] for verb in VERBS)]


@pytest.mark.parametrize("words", HELP)
def test_help_is_data_on_stdout(partyctl: Cli, words: list[str]) -> None:
    done = partyctl(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: partyctl")


def test_the_version_is_told(partyctl: Cli) -> None:
    assert partyctl("--version").stdout.startswith("partyctl 0.")


def test_a_mistyped_verb_is_answered_with_the_nearest(partyctl: Cli) -> None:
    done = partyctl("stauts")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean 'status'?" in done.stderr


def test_a_verb_like_no_other_is_answered_with_all(partyctl: Cli) -> None:
    assert f"The verbs are {', '.join(VERBS)}." in partyctl("xyzzy").stderr


def test_a_mistyped_option_is_wrong_usage(partyctl: Cli) -> None:
    done = partyctl("status", "--jsn")
    assert done.returncode == 2
    assert "--json" in done.stderr


@pytest.mark.parametrize("verb", ["up", "down", "status"])
def test_a_party_that_cannot_be_named_is_wrong_usage(partyctl: Cli, verb: str) -> None:
    done = partyctl(verb, "--party", "../x")
    assert done.returncode == 2
    assert "cannot name a party" in done.stderr


def test_a_configuration_error_is_one_message_and_exit_7(partyctl: Cli) -> None:
    (partyctl.home / "party.toml").write_text("[party]\nnods = 2\n")
    done = partyctl("up")
    assert (done.returncode, done.stdout) == (7, "")
    assert done.stderr.startswith("partyctl: error: unknown key 'nods'")
    assert f"{partyctl.home}/party.toml:2, party.nods" in done.stderr
    assert "Traceback" not in done.stderr


def test_strict_is_refused_with_exit_7_by_role_file_and_fix(partyctl: Cli) -> None:
    role = 'provider = "scripted"\npermissions = { mode = "bypass" }\napprovals = "deny"\nconfinement = "strict"\n'
    (partyctl.home / "party.toml").write_text(f"[roles.Writer]\n{role}")
    for words in (["up"], ["up", "-d", "--wait"]):
        done = partyctl(*words)
        assert done.returncode == 7
        assert f"role Writer, {partyctl.home}/party.toml:1" in done.stderr
        assert 'Set confinement = "none"' in done.stderr


def test_the_configuration_gives_the_party_its_name(partyctl: Cli) -> None:
    file = partyctl.home / "elsewhere.toml"
    file.write_text('[party]\nname = "review"\n')
    assert partyctl("status", "--file", str(file)).stdout == "party review: not running\n"
    assert partyctl("status", PARTYCTL_FILE=str(file)).stdout == "party review: not running\n"
    assert partyctl("status", "--file", str(file), "--party", "x").stdout == "party x: not running\n"


def test_an_output_that_cannot_be_written_is_an_error(partyctl: Cli) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            partyctl.command("plugins"),
            env=partyctl.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    told = "partyctl: error: the output cannot be written: No space left on device. Make room, or send it elsewhere\n"
    assert done.stderr == told


def test_a_reader_that_has_had_enough_gets_no_traceback(partyctl: Cli) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            partyctl.command("plugins"),
            env=partyctl.environment,
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write)
    assert done.stderr == ""


def test_plugins_are_listed_with_their_packages(partyctl: Cli) -> None:
    done = partyctl("plugins")
    assert (done.returncode, done.stderr) == (0, "")
    assert any(line.split()[:2] == ["scripted", "partyctl"] for line in done.stdout.splitlines())


def test_plugins_are_listed_as_json(partyctl: Cli) -> None:
    document = json.loads(partyctl("plugins", "--json").stdout)
    assert document["schema_version"] == 1
    found = {entry["name"]: entry for entry in document["providers"]}
    assert found["claude"]["target"] == "partyctl_plugins.claude"
    assert found["claude"]["duplicate"] is False


def test_a_provider_of_two_packages_is_marked_and_nothing_is_imported(partyctl: Cli) -> None:
    for package in ("one", "two"):
        information = partyctl.home / f"{package}-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text("[partyctl.providers]\ntwin = bad_plugin\n")
    (partyctl.home / "bad_plugin.py").write_text("raise SystemExit('imported')\n")
    done = partyctl("plugins", PYTHONPATH=str(partyctl.home))
    assert done.returncode == 0
    assert done.stdout.count("twin (duplicate)") == 2
    assert "provider 'twin' is provided by one and two" in done.stderr
    role = '[roles.W]\nprovider = "twin"\npermissions = { mode = "bypass" }\napprovals = "deny"\n'
    (partyctl.home / "party.toml").write_text(role)
    done = partyctl("up", PYTHONPATH=str(partyctl.home))
    assert done.returncode == 7
    assert "roles.W.provider" in done.stderr
    assert partyctl("--help", PYTHONPATH=str(partyctl.home)).returncode == 0


def complete(partyctl: Cli, words: str, position: int) -> str:
    """What the shell is offered for the word at a position, and the verbs that were imported for it."""
    program = (
        "import sys\nfrom partyctl.cli import main\n"
        "try:\n    main([])\nfinally:\n"
        "    print(*(m for m in sys.modules if m.startswith('partyctl.cli.')), file=sys.stderr)\n"
    )
    asked = {"_PARTYCTL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
    command = [sys.executable, "-P", "-c", program]
    environment = partyctl.environment | asked
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert {f"partyctl.cli.{verb}" for verb in VERBS}.isdisjoint(done.stderr.split())
    assert "partyctl.cli.root" in done.stderr.split()
    return done.stdout


def test_verbs_are_completed_without_importing_any(partyctl: Cli) -> None:
    assert complete(partyctl, "partyctl ", 1).splitlines() == [f"plain,{verb}" for verb in VERBS]
    assert complete(partyctl, "partyctl sta", 1) == "plain,status\n"
    assert complete(partyctl, "partyctl --v", 1) == "plain,--version\n"
