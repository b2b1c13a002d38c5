from pathlib import Path

import pytest

from partyctl.config_schema import Listen, PartyConfig, Restarts, is_party_name, parse
from partyctl.errors import ConfigError
from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol.role import Role
from partyctl_plugins.contract import ApprovalPolicy, NativePermissions, RetryPolicy, TransportKind

SOURCE = Path("/work-place/party.toml")

WHOLE = """
[party]
name = "review"
nodes = 2
[defaults]
confinement = "strict"
[roles.Writer]
provider = "claude"
transport = "stream"
instructions = "Write the article."
cwd = "drafts"
permissions = { mode = "bypass" }
approvals = "deny"
confinement = { read = ["."], write = ["out"], allowed_domains = ["api.anthropic.com"], memory_max = "1G" }
[roles.Reviewer]
human = "desk"
[limits]
runs = 100
workers = 32
[restarts]
intensity = 0
period = 2.5
[listen]
url = "tcp://127.0.0.1:7333"
"""

AGENT = 'provider = "p"\npermissions = { mode = "bypass" }\napprovals = "deny"\n'


def read(text: str) -> PartyConfig:
    return parse(text, SOURCE, resolve=lambda name: None)


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return str(caught.value)


def test_a_whole_file_becomes_values() -> None:
    config = read(WHOLE)
    assert (config.name, config.nodes, config.source) == ("review", 2, SOURCE)
    assert (config.limits.runs, config.limits.workers) == (100, 32)
    assert config.listen == Listen("tcp://127.0.0.1:7333")
    assert config.restarts == Restarts(0, 2.5, 3)
    writer = config.roles["Writer"]
    assert (writer.provider, writer.transport, writer.human) == ("claude", TransportKind.STREAM, None)
    assert writer.cwd == Path("/work-place/drafts")
    assert (writer.permissions, writer.approvals) == (NativePermissions.bypass(), ApprovalPolicy.DENY)
    assert isinstance(writer.confinement, dict)
    assert writer.where == f"{SOURCE}:7"
    assert config.roles["Reviewer"].human == "desk"


@pytest.mark.parametrize(
    ("text", "key", "told"),
    [
        ("intensity = -1", "intensity", "must be 0 or more, not -1"),
        ("intensity = 1.5", "intensity", "must be an integer, not a float"),
        ("period = 0", "period", "must be a number of seconds, more than 0, not 0"),
        ("period = inf", "period", "must be a number of seconds, more than 0, not inf"),
        ("period = '60'", "period", "must be a number, not a string"),
        ("same_deaths = 0", "same_deaths", "must be 1 or more, not 0"),
    ],
)
def test_a_number_out_of_its_bounds_is_called_so(text: str, key: str, told: str) -> None:
    assert complaint(f"[restarts]\n{text}\n").startswith(f"{told} ({SOURCE}:2, restarts.{key})")


def test_an_absolute_working_directory_stays() -> None:
    assert read(f'[roles.W]\n{AGENT}cwd = "/srv"\n').roles["W"].cwd == Path("/srv")


def test_writable_roots_start_at_the_files_directory() -> None:
    roots = '{ mode = "workspace_write", writable_roots = ["out", "/srv"] }'
    text = f'[roles.W]\nprovider = "p"\napprovals = "deny"\npermissions = {roots}\n'
    assert read(text).roles["W"].permissions == NativePermissions.workspace_write(["/work-place/out", "/srv"])


def test_options_and_environment_are_passed_on() -> None:
    role = read(
        f'[roles.W]\n{AGENT}env = {{ A = "b" }}\noptions = {{ script = "x.toml", deep = {{ n = 1 }} }}\n'
    ).roles["W"]
    assert role.env == {"A": "b"}
    assert role.options == {"script": "x.toml", "deep": {"n": 1}}


@pytest.mark.parametrize(
    ("text", "line", "key", "remedy"),
    [
        ("[party]\nnods = 2", 2, "party.nods", "'nodes'"),
        ("[partey]\nname = 'a'", 1, "partey", "'party'"),
        ("\n\n[limits]\nworker = 1", 4, "limits.worker", "'workers'"),
        ("zzz = 1", 1, "zzz", "Known are party, defaults, roles, limits, restarts, listen"),
        ('[defaults]\nconfinement = "strikt"', 2, "defaults.confinement", "'strict'"),
        ('[roles.W]\nhuman = "deks"', 2, "roles.W.human", "'desk'"),
        (f"[roles.W]\n{AGENT}instruction = 'x'", 5, "roles.W.instruction", "'instructions'"),
        (f"[roles.W]\n{AGENT}transport = 'steam'", 5, "roles.W.transport", "'stream'"),
        ('[roles.W]\nprovider = "p"\npermissions = { mod = "bypass" }', 3, "roles.W.permissions.mod", "'mode'"),
        (f"[roles.W]\n{AGENT}confinement = {{ raed = [] }}", 5, "roles.W.confinement.raed", "'read'"),
        (f"[roles.W]\n{AGENT}confinement = {{ memory_max = '1 GB' }}", 5, "roles.W.confinement.memory_max", "1G"),
        *(
            (f"[listen]\nurl = '{url}'", 2, "listen.url", "tcp://127.0.0.1:7333")
            for url in (
                "http://x",
                "tcp://*:1",
                "tcp://k@127.0.0.1:1",
                "tcp://127.0.0.1:65536",
                "tcp://[::1]:1",
                "tcp://:1",
            )
        ),
        ("[restarts]\nsame_death = 0", 2, "restarts.same_death", "'same_deaths'"),
        ("[party]\nname = '.a'", 2, "party.name", "letters"),
        ("[roles]\n'a/b' = { human = 'desk' }", 2, "roles.a/b", "without /"),
    ],
)
def test_a_mistake_is_placed_and_the_nearest_right_thing_named(text: str, line: int, key: str, remedy: str) -> None:
    told = complaint(text)
    assert f"({SOURCE}:{line}, {key})" in told
    assert remedy in told.rpartition(")")[2]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("party = 3", "must be a table, not an integer"),
        ("[party]\nname = 3", "must be a string, not an integer"),
        ("[party]\nnodes = '2'", "must be an integer, not a string"),
        ("[party]\nnodes = true", "must be an integer, not true or false"),
        ("[party]\nnodes = 2.0", "must be an integer, not a float"),
        ("[party]\nnodes = 0", "must be 1 or more, not 0"),
        ("[party]\nname = 1979-05-27", "must be a string, not a date or time"),
        ("[roles]\nW = 'claude'", "must be a table, not a string"),
        ("[[roles]]\nprovider = 'p'", "must be a table, not an array"),
        (f"[roles.W]\n{AGENT}env = {{ A = 1 }}", "must be a string, not an integer"),
        (f"[roles.W]\n{AGENT}confinement = {{ read = '.' }}", "must be an array, not a string"),
        (f"[roles.W]\n{AGENT}confinement = {{ read = [1] }}", "must hold strings only, not an integer"),
        ('[roles.W]\nhuman = "desk\\u0000"', "NUL"),
    ],
)
def test_a_value_of_the_wrong_type_is_called_by_both_types(text: str, told: str) -> None:
    assert told in complaint(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[roles.W]\n", "nobody plays this role"),
        ('[roles.W]\nprovider = "p"\nhuman = "desk"', "cannot both play"),
        ('[roles.W]\nprovider = "p"\napprovals = "deny"', "permissions is missing"),
        ('[roles.W]\nprovider = "p"\npermissions = {}\napprovals = "deny"', "mode is missing"),
        ('[roles.W]\nprovider = "p"\npermissions = { mode = "bypass" }', "approvals is missing"),
        ('[roles.W]\nhuman = "desk"\nmodel = "x"', "unknown key 'model'"),
        (
            '[roles.W]\nprovider = "p"\napprovals = "deny"\npermissions = { mode = "bypass", network = true }',
            "belong to mode workspace_write",
        ),
    ],
)
def test_a_role_must_make_sense(text: str, told: str) -> None:
    assert told in complaint(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[party\n", ":1:7"),
        ("a = 1\nb = \n", ":2:5"),
        ("a = 1\na = 2\n", ":2:6"),
        ('a = "open', ":1"),
        ("x = " + "9" * 5000, "digits"),
        ("x = " + "[" * 5000, "nested too deeply"),
    ],
)
def test_what_is_no_toml_is_placed(text: str, place: str) -> None:
    assert place in complaint(text)


@pytest.mark.parametrize("name", ["a", "review", "A.b_c-1", "_", "-x", "1", "x" * 64])
def test_names_of_parties(name: str) -> None:
    assert is_party_name(name)
    assert read(f'[party]\nname = "{name}"').name == name


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "a/b", "a b", "ä", "a\n", "x" * 65])
def test_names_that_cannot_be_directories_of_ours(name: str) -> None:
    assert not is_party_name(name)


@pytest.mark.parametrize("name", ["Writer", "a b", "Ä", "", " a", "a ", "a/b", "a*", "a\tb", "x" * 100, "x" * 101])
def test_a_role_is_named_as_the_protocol_allows(name: str) -> None:
    try:
        Role(name)
    except ProtocolError:
        with pytest.raises(ConfigError, match="cannot name a role"):
            read(f'[roles]\n"{name}" = {{ human = "desk" }}'.replace("\t", "\\t"))
    else:
        assert name in read(f'[roles]\n"{name}" = {{ human = "desk" }}').roles


def test_retries_and_the_release_of_idle_workers_are_read() -> None:
    assert read(f"[roles.W]\n{AGENT}").roles["W"].retry is None
    role = read(f"[roles.W]\n{AGENT}retry = {{ delays = [] }}\nidle_release_after = 0.5\n").roles["W"]
    assert (role.retry, role.idle_release_after) == (RetryPolicy(()), 0.5)
    role = read(f'[roles.W]\n{AGENT}retry = {{ after_tool = "fail", retire_after_stalled = 2 }}\n').roles["W"]
    assert role.retry == RetryPolicy(after_tool="fail", retire_after_stalled=2)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("retry = { delays = 3 }", "must be an array"),
        ('retry = { delays = ["3"] }', "must hold numbers only, not a string"),
        ("retry = { delays = [true] }", "must hold numbers only, not true or false"),
        ("retry = { delays = [-1] }", "0 or more, not -1"),
        ("retry = { delays = [inf] }", "0 or more, not inf"),
        ('retry = { after_tool = "maybe" }', "unknown value 'maybe'"),
        ("retry = { retire_after_stalled = 0 }", "must be 1 or more"),
        ("retry = { dealys = [1] }", "Did you mean 'delays'"),
        ("idle_release_after = 0", "more than 0"),
        ('idle_release_after = "1"', "must be a number"),
    ],
)
def test_what_is_wrong_about_retries_is_told(line: str, told: str) -> None:
    assert told in complaint(f"[roles.W]\n{AGENT}{line}\n")
