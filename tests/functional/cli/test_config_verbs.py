"""`config check` and `config show`."""

import json
import tomllib

from .conftest import Cli

MISTAKES = (
    '[party]\nnods = 2\n[roles.Writer]\nprovider = "scriptd"\npermissions = { mode = "bypas" }\napprovals = "deny"\n'
)
ROLE = '[roles.Writer]\nprovider = "scripted"\npermissions = { mode = "bypass" }\napprovals = "deny"\n'
SECRETS = ROLE + 'env = { MY_API_KEY = "abcdef", LANG = "C" }\noptions = { url = "http://u:abcdef@h/" }\n'


def test_every_mistake_is_told_with_file_line_and_the_nearest_name(partyctl: Cli) -> None:
    file = partyctl.home / "party.toml"
    file.write_text(MISTAKES)
    for words in ([], ["party.toml"]):
        done = partyctl("config", "check", *words)
        assert (done.returncode, done.stdout) == (7, "")
        first, second, third = done.stderr.splitlines()
        assert f"{file}:2, party.nods" in first
        assert "Did you mean 'nodes'?" in first
        assert f"{file}:4, roles.Writer.provider" in second
        assert "Did you mean 'scripted'?" in second
        assert f"{file}:5, roles.Writer.permissions.mode" in third


def test_mistakes_are_told_as_json(partyctl: Cli) -> None:
    (partyctl.home / "party.toml").write_text(MISTAKES)
    done = partyctl("config", "check", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr, document["ok"]) == (7, "", False)
    assert [(error["line"], error["key"]) for error in document["errors"]] == [
        (2, "party.nods"),
        (4, "roles.Writer.provider"),
        (5, "roles.Writer.permissions.mode"),
    ]


def test_what_up_would_refuse_is_a_mistake_and_nothing_starts(partyctl: Cli) -> None:
    (partyctl.home / "party.toml").write_text(ROLE + 'confinement = "strict"\n')
    done = partyctl("config", "check")
    assert done.returncode == 7
    assert "role Writer" in done.stderr
    assert list(partyctl.runtime.iterdir()) == []


def test_a_good_file_is_ok_and_named(partyctl: Cli) -> None:
    assert partyctl("config", "check").stdout == "ok: there is no file, everything has its default\n"
    file = partyctl.home / "x.toml"
    file.write_text("")
    assert partyctl("config", "check", str(file)).stdout == f"ok: {file}\n"
    assert partyctl("config", "check", PARTYCTL_FILE=str(file)).stdout == f"ok: {file}\n"


def test_a_file_that_is_not_there_is_refused(partyctl: Cli) -> None:
    done = partyctl("config", "check", "none.toml")
    assert done.returncode == 7
    assert "No such file" in done.stderr


def test_the_file_that_won_is_shown_with_those_that_did_not_and_no_secret(partyctl: Cli) -> None:
    (partyctl.home / "party.toml").write_text(SECRETS)
    other = partyctl.home / "other.toml"
    other.write_text("")
    done = partyctl("config", "show")
    assert done.returncode == 0
    assert done.stdout.startswith(f"# {partyctl.home}/party.toml, by the current directory\n")
    assert tomllib.loads(done.stdout)["roles"]["Writer"]["env"] == {"MY_API_KEY": "***", "LANG": "C"}
    assert "abcdef" not in done.stdout
    won = partyctl("config", "show", "--json", PARTYCTL_FILE=str(other))
    document = json.loads(won.stdout)
    assert (document["file"], document["chosen_by"]) == (str(other), "PARTYCTL_FILE")
    assert [(place["by"], place["found"]) for place in document["searched"]] == [
        ("PARTYCTL_FILE", True),
        ("the current directory", True),
        ("the user's configuration directory", False),
    ]


def test_defaults_are_filled_in_when_asked_for(partyctl: Cli) -> None:
    (partyctl.home / "party.toml").write_text(SECRETS)
    document = json.loads(partyctl("config", "show", "--resolved", "--json").stdout)
    assert (document["schema_version"], document["resolved"]) == (1, True)
    config = document["config"]
    assert config["limits"] == {"runs": 200, "workers": 64}
    assert config["party"]["name"] == "default"
    assert (config["roles"]["Writer"]["transport"], config["roles"]["Writer"]["cwd"]) == ("stream", str(partyctl.home))
    assert "abcdef" not in json.dumps(document)
    assert partyctl("config", "show", "--resolved").returncode == 0


def test_a_wrong_file_can_be_shown_but_not_resolved(partyctl: Cli) -> None:
    (partyctl.home / "party.toml").write_text(MISTAKES)
    assert "nods = 2" in partyctl("config", "show").stdout
    assert partyctl("config", "show", "--resolved").returncode == 7
