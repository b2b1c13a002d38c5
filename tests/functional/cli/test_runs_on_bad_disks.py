"""partyctl runs where the disk is full or read-only, or files may not be used: what can be read is read, and a refusal
names what is in the way.
"""

import re
from collections.abc import Mapping, Sequence

import pytest
from support.disks import SMALL_STATE, carried_out

PROGRAM = """
runs = state / "partyctl" / "default" / "runs"

def partyctl(*words):
    # Without capabilities the modes of files count, for root too.
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-P", "-m", "partyctl", *words]
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )
    return [done.returncode, done.stdout, done.stderr]

def looked():
    return [partyctl("runs", *words) for words in (("list",), ("show", "story"), ("export", "story"))]

told = {"made": [partyctl("run", "story.py")], "before": looked()}
[shard] = runs.glob("*.sqlite")

subprocess.run(["mount", "-o", "remount,ro", str(state)], check=True)
told["read-only"] = looked()
told["run, read-only"] = [partyctl("run", "other.py")]
subprocess.run(["mount", "-o", "remount,rw", str(state)], check=True)

runs.chmod(0o500)
told["closed directory"] = looked()
told["run, closed directory"] = [partyctl("run", "other.py")]
runs.chmod(0o700)

shard.chmod(0)
told["closed file"] = looked()
told["run, closed file"] = [partyctl("run", "story.py")]
shard.chmod(0o600)

fill()
told["full"] = looked()
told["run, full"] = [partyctl("run", "other.py")]
empty()
told["after"] = looked()
print(json.dumps(told))
"""

STORY = """
import partyctl as ap
A, B = ap.roles("A", "B")
class M(ap.Message):
    n: int
session = ap.Session(ap.Protocol(ap.send(A, B, M)), {A: ap.Script([M(1)]), B: ap.Script([])}, id="ID")
"""

Told = Mapping[str, Sequence[tuple[int, str, str]]]
"""By the state of the disk, of each command its exit code, what it printed, and its errors."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What the command line said."""
    root = tmp_path_factory.mktemp("disks")
    (root / "story.py").write_text(STORY.replace("ID", "story"))
    (root / "other.py").write_text(STORY.replace("ID", "other"))
    found: Told = carried_out(SMALL_STATE + PROGRAM, root)
    return found


@pytest.mark.parametrize("state", ["read-only", "closed directory", "full", "after"])
def test_what_is_recorded_is_read_though_nothing_can_be_written(told: Told, state: str) -> None:
    assert [code for code, _, _ in (*told["made"], *told["before"])] == [0, 0, 0, 0]
    assert told[state] == told["before"]


@pytest.mark.parametrize(
    ("state", "cause", "fix"),
    [
        ("run, read-only", "read-only|Read-only", "Make it writable"),
        ("run, closed directory", "[Pp]ermission denied", "Give yourself the right"),
        ("run, closed file", "permission denied", "Give yourself the right"),
        ("run, full", "disk is full|No space left", "Free the disk"),
    ],
)
def test_a_run_that_cannot_be_recorded_says_why_before_anybody_is_asked(
    told: Told, state: str, cause: str, fix: str
) -> None:
    [(code, said, error)] = told[state]
    assert code == 1
    assert "->" not in said
    assert fix in error
    assert re.search(cause, error)
    for wrong in ("no record of ours", "damaged", "Traceback"):
        assert wrong not in error


def test_a_file_without_permission_is_not_called_damaged(told: Told) -> None:
    for code, said, error in told["closed file"]:
        assert (code, said) == (1, "")
        assert "permission denied" in error
        assert "Give yourself the right to read and write the file" in error
        assert "damaged" not in error
