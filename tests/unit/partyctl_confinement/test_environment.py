import pytest

from partyctl_confinement.environment import LAUNCHER_ALLOW, WORKER_ALLOW, scrubbed


def test_only_what_is_allowed_passes() -> None:
    environment = {"PATH": "/bin", "HOME": "/root", "OPENAI_API_KEY": "hush"}
    assert scrubbed(environment, ["PATH", "SHELL"]) == {"PATH": "/bin"}


def test_a_star_allows_a_prefix() -> None:
    assert scrubbed({"LC_ALL": "C", "LCX": "no", "LC_": "yes"}, ["LC_*"]) == {"LC_ALL": "C", "LC_": "yes"}


@pytest.mark.parametrize("name", ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX"])
def test_the_marks_of_a_surrounding_agent_session_never_pass(name) -> None:
    assert scrubbed({name: "1"}, [name, "*", f"{name[:4]}*"]) == {}


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "PYTHONPATH", "NODE_OPTIONS", "BASH_ENV", "GIT_DIR", "SSH_AUTH_SOCK", "https_proxy"]
)
def test_what_changes_the_code_that_runs_passes_by_its_full_name_only(name) -> None:
    assert scrubbed({name: "x"}, ["*"]) == {}
    assert scrubbed({name: "x"}, [name]) == {name: "x"}


def test_the_argument_is_not_changed() -> None:
    environment = {"A": "1"}
    scrubbed(environment, [])
    assert environment == {"A": "1"}


def test_workers_inherit_no_interpreter_settings_and_the_launcher_may() -> None:
    environment = {"PYTHONPATH": "/x", "LD_LIBRARY_PATH": "/y"}
    assert scrubbed(environment, WORKER_ALLOW) == {}
    assert scrubbed(environment, LAUNCHER_ALLOW) == environment
