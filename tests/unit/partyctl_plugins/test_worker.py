"""What the launcher gets when it imports the worker: all that is ours, and nothing heavy."""

import subprocess
import sys

PROBE = """
import sys, partyctl_plugins.worker
print(*sorted(sys.modules), sep="\\n")
"""


def imported() -> set[str]:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=30, check=True)
    return set(done.stdout.split())


def test_the_worker_side_is_light_and_has_no_plugin_in_it() -> None:
    modules = imported()
    heavy = {
        name for name in modules if name.split(".")[0] in {"pydantic", "asyncio", "zmq", "psutil", "rich", "click"}
    }
    assert heavy == set()
    plugins = ("partyctl_plugins.scripted", "partyctl_plugins.claude")
    assert not any(name.startswith(plugins) for name in modules)


def test_what_our_own_worker_needs_is_there_before_the_fork() -> None:
    needed = {"pluggy", "msgpack", "importlib.metadata", "json", "tomllib", "threading", "dataclasses"}
    ours = {f"partyctl_plugins.{name}" for name in ("contract", "records", "hookspecs", "manager", "failures")}
    assert needed | ours <= imported()
