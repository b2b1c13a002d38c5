"""`partyctl run` does the same with a host and without one, and fails with what, where, why and what to do."""

import json
import os
import signal

import pytest
from support.party import Party, wait_until

REVIEW = [
    "Requester -> Writer: Task",
    "Writer -> Reviewer: Draft",
    "Reviewer -> Writer: Revise",
    "Writer -> Reviewer: Draft",
    "Reviewer -> Writer: Approve",
    "Writer -> Requester: Article",
]


@pytest.fixture(params=["hosted", "embedded"])
def place(request: pytest.FixtureRequest) -> str:
    """With a running host, and without."""
    return str(request.param)


def begin(party: Party, place: str) -> None:
    """Have a host, if there is to be one; the environment is set by now."""
    if place == "hosted":
        party.up("--nodes", "1")


def test_the_transcript_is_the_same_with_a_host_and_without(party: Party) -> None:
    embedded = party.run("run", str(party.program("review.py")))
    party.up("--nodes", "2")
    hosted = party.run("run", str(party.program("review.py")))
    assert (embedded.returncode, hosted.returncode) == (0, 0), hosted.stderr
    assert [line.partition("(")[0] for line in embedded.stdout.splitlines()] == REVIEW
    assert hosted.stdout == embedded.stdout
    assert "in this process" in embedded.stderr
    assert "on node/" in hosted.stderr


def test_a_run_says_that_its_workers_are_unconfined(place: str, party: Party) -> None:
    party.environment["PROVIDER"] = "instant"
    begin(party, place)
    result = party.run("run", str(party.program("broken.py")))
    assert result.returncode == 0, result.stderr
    assert "unconfined" in result.stderr


def test_json_prints_one_object_a_line_and_nothing_else(place: str, party: Party) -> None:
    begin(party, place)
    result = party.run("run", "--json", str(party.program("review.py")))
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["event"] for event in events if event["event"] != "worker"] == [
        "started",
        *["delivered"] * 6,
        "ended",
    ]
    assert {event["schema_version"] for event in events} == {1}
    assert {event["role"] for event in events if event["event"] == "worker"} == {"Writer", "Reviewer"}


def test_the_branches_of_a_par_are_asked_at_once(place: str, party: Party) -> None:
    go = party.root / "go"
    party.environment["GO"] = str(go)
    if place == "hosted":
        party.run("down")
        party.up("--nodes", "1")
    run = party.start("run", str(party.program("branches.py")))
    if place == "hosted":
        wait_until(
            lambda: [each["waiting_for"] for each in party.status()["runs"]] == ["Artist, Author"], 20, "both are asked"
        )
    go.touch()
    out, err = run.communicate(timeout=30)
    assert run.returncode == 0, err
    lines = [line.partition("(")[0] for line in out.splitlines()]
    assert sorted(lines[:2]) == ["Artist -> Printer: Picture", "Author -> Editor: Text"]
    assert lines[2:] == ["Editor -> Printer: Ready"]


def test_status_shows_the_workers_of_a_running_run(party: Party) -> None:
    party.environment["STUBBORN_PIDS"] = str(party.root / "pids")
    party.up("--nodes", "2")
    run = party.start("run", str(party.program("stubborn.py")))
    wait_until(lambda: (party.root / "pids").exists(), 20, "the turn runs")
    status = party.status()
    (told,) = status["runs"]
    (worker,) = [each for each in status["workers"] if each["role"]]
    assert worker["role"] == "Answerer"
    assert worker["provider"] == "stubborn"
    assert worker["state"] == "busy"
    assert worker["confinement"] == "unconfined"
    assert worker["run"] == told["id"]
    assert worker["memory"] > 0
    assert "Answerer" in party.run("status").stdout
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=20)
    assert run.returncode == 130
    wait_until(lambda: not party.status()["workers"], 5, "its workers are gone")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_ends_with_the_process_that_asked_for_it(number: signal.Signals, place: str, party: Party) -> None:
    party.environment["STUBBORN_PIDS"] = str(party.root / "pids")
    begin(party, place)
    run = party.start("run", str(party.program("stubborn.py")))
    pids = party.root / "pids"
    wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"), 20, "the turn runs")
    child = int(pids.read_text().split()[-1])
    run.send_signal(number)
    _, err = run.communicate(timeout=30)
    expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    assert run.returncode == expected, err
    assert "Traceback" not in err
    wait_until(lambda: not os.path.exists(f"/proc/{child}"), 8, "the worker's child is gone")


@pytest.mark.parametrize(
    ("provider", "code", "cause"),
    [
        ("raises", 1, "this plugin is broken on purpose"),
        ("exits", 1, "exited with status 3"),
        ("nobody", 7, "no provider is called 'nobody'"),
    ],
)
def test_a_plugin_breaks_only_the_run_that_needs_it(
    provider: str, code: int, cause: str, place: str, party: Party
) -> None:
    party.environment["PROVIDER"] = provider
    begin(party, place)
    result = party.run("run", str(party.program("broken.py")))
    assert result.returncode == code, result.stderr
    assert repr(provider) in result.stderr
    assert cause in result.stderr
    assert "Traceback" not in result.stderr
    sound = party.run("run", str(party.program("review.py")))
    assert sound.returncode == 0, sound.stderr


@pytest.mark.load
def test_a_plugin_that_never_loads_breaks_only_the_run_that_needs_it(party: Party) -> None:
    # Its supervisor is the same with a host and without, and its limit of 10 s is long.
    party.environment["PROVIDER"] = "sleeps"
    party.up("--nodes", "1")
    broken = party.start("run", str(party.program("broken.py")))
    sound = party.run("run", str(party.program("review.py")))
    assert sound.returncode == 0, sound.stderr
    assert broken.poll() is None
    _, err = broken.communicate(timeout=30)
    assert broken.returncode == 1
    assert "'sleeps'" in err
    assert "did not load within" in err


def test_a_worker_gets_nothing_of_the_hosts_environment_but_what_is_allowed(place: str, party: Party) -> None:
    """As where `partyctl up` is called by an agent, in its shell."""
    surrounding = {"CLAUDECODE": "1", "CLAUDE_CODE_SSE_PORT": "1", "ANTHROPIC_API_KEY": "x", "LC_ALL": "C.UTF-8"}
    party.environment |= {**surrounding, "PROVIDER": "tells"}
    begin(party, place)
    result = party.run("run", "--json", str(party.program("broken.py")))
    assert result.returncode == 0, result.stderr
    said = [json.loads(line) for line in result.stdout.splitlines()]
    (answer,) = (event["payload"]["text"] for event in said if event.get("label") == "Answer")
    assert answer.split() == ["HOME", "LANG", "LC_ALL", "PATH"]


def test_a_worker_that_prints_without_end_costs_no_other_run_anything_and_the_logs_stay_small(party: Party) -> None:
    party.environment["PROVIDER"] = "floods"
    party.up("--nodes", "1")
    flooding = party.start("run", str(party.program("broken.py")))
    wait_until(lambda: "flooding" in party.run("logs", "Answerer", "-n", "1").stdout, 20, "the flood has begun")
    sound = party.run("run", str(party.program("review.py")), timeout=15)
    assert sound.returncode == 0, sound.stderr
    assert party.run("status", "--check").returncode == 0
    flooding.send_signal(signal.SIGINT)
    flooding.communicate(timeout=20)
    wait_until(lambda: not party.status()["workers"], 10, "its worker is gone")
    logged = [json.loads(line) for line in party.run("logs", "--json").stdout.splitlines()]
    assert sum(record.get("dropped", 0) for record in logged) > 100
    kept = sum(path.stat().st_size for path in (party.root / "state").rglob("*.jsonl"))
    assert kept < 16 * 1024 * 1024


def test_a_plugin_that_prints_disturbs_nothing(place: str, party: Party) -> None:
    party.environment["PROVIDER"] = "prints"
    begin(party, place)
    result = party.run("run", str(party.program("broken.py")))
    assert result.returncode == 0, result.stderr
    assert (
        result.stdout == 'Asker -> Answerer: Question(text="Are you there?")\nAnswerer -> Asker: Answer(text="yes")\n'
    )


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import nowhere", "ModuleNotFoundError"),
        ("x = (", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("x = 1", "no Session and no Protocol"),
        ("import partyctl as ap\nA, B = ap.roles('A', 'B')\nap.Protocol(ap.send(A, A, ap.Message))", "A"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_with_its_name(source: str, told: str, place: str, party: Party) -> None:
    file = party.root / "mine.py"
    file.write_text(source)
    begin(party, place)
    result = party.run("run", str(file))
    assert result.returncode == 7, result.stderr
    assert told in result.stderr
    assert "mine.py" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_that_raises_keyboard_interrupt_fails_its_run_alone(party: Party) -> None:
    party.up("--nodes", "1")
    file = party.root / "mine.py"
    file.write_text("raise KeyboardInterrupt")
    result = party.run("run", str(file))
    assert result.returncode == 7, result.stderr
    assert "KeyboardInterrupt" in result.stderr


def test_a_file_that_ends_the_process_fails_its_run_alone(party: Party) -> None:
    party.up("--nodes", "1")
    file = party.root / "mine.py"
    file.write_text("import os\nos._exit(9)")
    result = party.run("run", str(file))
    assert result.returncode == 1
    assert "exited with status 9" in result.stderr
    assert party.run("run", str(party.program("review.py"))).returncode == 0


def test_an_explicit_strict_confinement_is_refused_with_7(place: str, party: Party) -> None:
    file = party.root / "strict.py"
    source = party.program("broken.py").read_text()
    file.write_text(source.replace("approvals=", 'confinement="strict", approvals='))
    party.environment["PROVIDER"] = "instant"
    begin(party, place)
    result = party.run("run", str(file))
    assert result.returncode == 7, result.stderr
    assert "strict" in result.stderr
    assert "Question" not in result.stdout


def test_a_protocol_takes_its_roles_from_party_toml(place: str, party: Party) -> None:
    (party.root / "talk.py").write_text(
        "import partyctl as ap\n"
        "A, B = ap.roles('A', 'B')\n"
        "class Hello(ap.Message):\n    text: str\n"
        "class Bye(ap.Message):\n    text: str\n"
        "protocol = ap.Protocol(ap.send(A, B, Hello), ap.send(B, A, Bye))\n"
    )
    role = 'provider = "instant"\npermissions = { mode = "bypass" }\napprovals = "deny"\n'
    answer = 'options = { answer = \'{"label": "%s", "payload": {"text": "hi"}}\' }\n'
    (party.root / "party.toml").write_text(
        "[roles.A]\n" + role + answer % "Hello" + "[roles.B]\n" + role + answer % "Bye"
    )
    begin(party, place)
    result = party.run("run", "talk.py:protocol")
    assert result.returncode == 0, result.stderr
    assert result.stdout == 'A -> B: Hello(text="hi")\nB -> A: Bye(text="hi")\n'


def test_many_runs_at_once_each_get_their_own_answers(party: Party) -> None:
    party.environment["PROVIDER"] = "instant"
    party.up("--nodes", "2")
    runs = [party.start("run", str(party.program("broken.py"))) for _ in range(12)]
    for run in runs:
        out, err = run.communicate(timeout=60)
        assert run.returncode == 0, err
        assert out.count("\n") == 2
    assert not party.status()["runs"]
    wait_until(lambda: not party.status()["workers"], 10, "all workers are gone")
