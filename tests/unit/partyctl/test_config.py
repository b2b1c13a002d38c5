from pathlib import Path

import pytest

from partyctl.config import FILE_MAX, PartyConfig, candidates, check_enforceable, faults, find, load, party_name, values
from partyctl.errors import ConfigError, exit_code
from partyctl_confinement.errors import ConfinementRefused

AGENT = 'provider = "scripted"\npermissions = { mode = "bypass" }\napprovals = "deny"\n'


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory and configuration directory."""
    monkeypatch.delenv("PARTYCTL_FILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_no_file_means_defaults() -> None:
    assert load() == PartyConfig(name="default", nodes=None, source=None)


def test_an_empty_file_is_fine(places: Path) -> None:
    file = write(places / "empty.toml", "")
    assert load(file) == PartyConfig(source=file)


def test_the_nearest_file_counts(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, named = places / "asked.toml", places / "named.toml"
    user = write(places / "config" / "partyctl" / "party.toml", "")
    assert find() == user
    local = write(places / "here" / "party.toml", "")
    assert find() == local.relative_to(places / "here")
    monkeypatch.setenv("PARTYCTL_FILE", str(named))
    assert find() == named
    assert find(asked) == asked


def test_an_empty_variable_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTYCTL_FILE", "")
    assert find() is None


def test_the_source_is_absolute_so_that_it_means_the_same_elsewhere(places: Path) -> None:
    write(places / "here" / "party.toml", "")
    assert load().source == places / "here" / "party.toml"


def test_a_file_asked_for_must_exist(places: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml\): No such file.*--file"):
        load(places / "none.toml")


def test_a_directory_is_no_file(places: Path) -> None:
    with pytest.raises(ConfigError, match="It is a directory"):
        load(places)


def test_a_file_that_is_too_large_is_refused(places: Path) -> None:
    (places / "large.toml").write_bytes(b"#" * (FILE_MAX + 1))
    with pytest.raises(ConfigError, match="too large"):
        load(places / "large.toml")


def test_an_endless_file_is_not_read() -> None:
    with pytest.raises(ConfigError, match="It is a device"):
        load(Path("/dev/zero"))


def test_a_byte_that_is_not_utf_8_is_placed(places: Path) -> None:
    file = places / "party.toml"
    file.write_bytes(b"[party]\nname = 'a\xbb'\n")
    with pytest.raises(ConfigError, match=r"party\.toml:2:10\): the byte 0xbb is not UTF-8"):
        load(file)


def test_a_byte_order_mark_is_no_error(places: Path) -> None:
    file = places / "party.toml"
    file.write_bytes(b"\xef\xbb\xbf[party]\r\nname = 'a'\r\n")
    assert load(file).name == "a"


def test_a_name_can_be_read_from_a_file_that_is_wrong_elsewhere(places: Path) -> None:
    file = write(places / "party.toml", '[party]\nname = "a"\nnods = 2\n[rolls]\n')
    assert party_name(file) == "a"
    with pytest.raises(ConfigError):
        load(file)


def test_the_built_in_providers_are_found_by_their_metadata(places: Path) -> None:
    file = write(places / "party.toml", f"[roles.Writer]\n{AGENT}")
    assert load(file).roles["Writer"].provider == "scripted"


def test_an_unknown_provider_is_placed_and_the_nearest_is_named(places: Path) -> None:
    file = write(places / "party.toml", "[roles.Writer]\n" + AGENT.replace("scripted", "scriptd"))
    with pytest.raises(ConfigError, match=r"party\.toml:2, roles\.Writer\.provider.*scripted"):
        load(file)


def test_what_asks_for_nothing_can_be_enforced(places: Path) -> None:
    check_enforceable(PartyConfig())
    check_enforceable(load(write(places / "p.toml", f'[roles.W]\n{AGENT}confinement = "none"\n')))


@pytest.mark.parametrize("setting", ['"strict"', '"light"', '{ read = ["."] }'])
def test_a_confinement_that_cannot_be_enforced_is_refused_by_role_file_and_fix(places: Path, setting: str) -> None:
    file = write(places / "p.toml", f'\n[roles.Writer]\n{AGENT}confinement = {setting}\n[roles.B]\nhuman = "desk"\n')
    with pytest.raises(ConfinementRefused, match=rf"role Writer, {file}:2.*Set confinement = .none.") as caught:
        check_enforceable(load(file))
    assert exit_code(caught.value) == 7


def test_a_default_confinement_that_cannot_be_enforced_is_refused_without_any_role(places: Path) -> None:
    file = write(places / "p.toml", '[defaults]\nconfinement = "strict"\n')
    with pytest.raises(ConfinementRefused, match=r"\[defaults\]"):
        check_enforceable(load(file))


def test_a_role_may_refuse_the_default(places: Path) -> None:
    text = f'[defaults]\nconfinement = "none"\n[roles.A]\n{AGENT}[roles.B]\n{AGENT}confinement = "light"\n'
    roles = load(write(places / "p.toml", text)).roles
    assert (roles["A"].confinement, roles["B"].confinement) == ("none", "light")


def test_a_party_may_listen(places: Path) -> None:
    file = write(places / "p.toml", '[listen]\nurl = "tcp://127.0.0.1:7333"\n')
    assert faults(file) == []
    check_enforceable(load(file))


MISTAKES = """
[party]
nods = 2
name = 3
[rols]
[roles.Writer]
provider = "scriptd"
permissions = { mode = "bypas" }
approvals = "deny"
confinement = "strict"
[roles.Reviewer]
human = "deks"
[limits]
workers = "3"
[listen]
url = "tcp://127.0.0.1:65536"
"""


def test_all_that_is_wrong_with_a_file_is_found_at_once(places: Path) -> None:
    file = write(places / "party.toml", MISTAKES)
    told = [(getattr(fault, "line", None), str(fault)) for fault in faults(file)]
    assert [line for line, _ in told] == [3, 4, 5, 7, 8, 12, 14, 16, None]
    texts = [text for _, text in told]
    nearest = [
        "'nodes'",
        "a string",
        "'roles'",
        "'scripted'",
        "'bypass'",
        "'desk'",
        "an integer",
        "listen.url",
        "strict",
    ]
    assert [near for near, text in zip(nearest, texts, strict=True) if near not in text] == []
    assert f"role Writer, {file}:6" in texts[-1]


def test_nothing_is_wrong_with_what_up_would_take(places: Path) -> None:
    assert faults(write(places / "ok.toml", f"[roles.W]\n{AGENT}")) == []
    assert faults() == []


@pytest.mark.parametrize("text", ["a = [", "a = 1\na = 2"])
def test_a_file_that_is_no_toml_has_one_fault(places: Path, text: str) -> None:
    (fault,) = faults(write(places / "x.toml", text))
    assert isinstance(fault, ConfigError)
    assert fault.line


def test_a_fault_is_told_once_and_not_for_what_follows_from_it(places: Path) -> None:
    file = write(places / "party.toml", "[roles.W]\nprovider = 3\npermissions = 3\napprovals = 3\n[listen]\nurl = 3\n")
    assert [getattr(fault, "line", None) for fault in faults(file)] == [2, 3, 4, 6]


def test_the_places_of_a_configuration_are_told_best_first(places: Path) -> None:
    asked, named = Path("/asked.toml"), "/named.toml"
    found = candidates(asked, environ={"PARTYCTL_FILE": named})
    assert [who for who, _ in found] == [
        "--file",
        "PARTYCTL_FILE",
        "the current directory",
        "the user's configuration directory",
    ]
    assert [str(path) for _, path in found[:3]] == ["/asked.toml", "/named.toml", "party.toml"]
    assert [who for who, _ in candidates(environ={})] == ["the current directory", "the user's configuration directory"]


def test_what_stands_in_a_file_can_be_seen_even_if_it_is_wrong(places: Path) -> None:
    assert values(write(places / "x.toml", "[party]\nnods = 2\n")) == {"party": {"nods": 2}}
