"""What `status` and a drain see of the tree."""

import asyncio
import os
from pathlib import Path

from fakes.children import FakeChildren
from fakes.quiet import quietly

from partyctl.host import report
from partyctl.host.drain import Survey
from partyctl.host.tree import Tree
from partyctl.maps import Map

WORKER: Map = {
    "id": "worker-1",
    "name": "Writer scripted",
    "pid": os.getpid(),
    "client": "node/0",
    "labels": {"role": "Writer", "run": "run-1", "provider": "scripted"},
}
ANSWERS: dict[str, Map] = {
    "status": {"runs": [{"id": "run-1", "state": "running", "roles": ["Writer"]}], "workers": []},
    "workers": {"workers": [WORKER]},
    "stats": {"banned": [{"name": "key/anna", "seconds": 1.5, "why": "it shouts"}]},
}


def seen(directory: Path, children: FakeChildren, *, dead: str = "") -> tuple[Map, Survey, float]:
    """The status document and the survey of a tree, and how many seconds both took."""

    async def look() -> tuple[Map, Survey, float]:
        tree = Tree(directory, 2, children, lambda line: None, lambda part, verdict: None)
        await tree.start()
        if dead:
            children.scripts[dead] = ["hang"]
            children.named(dead)[0].exits(-9)
            await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        document, found = await report.document(tree, "p", "ready", 0.0), await report.survey(tree)
        took = asyncio.get_running_loop().time() - began
        await tree.stop()
        return document, found, took

    return quietly(look())


def test_a_sound_party_is_shown_with_all_its_parts(runtime: Path) -> None:
    document, found, _ = seen(runtime, FakeChildren(answers=ANSWERS))
    parts = [document["broker"], document["launcher"], *document["nodes"]]  # type: ignore[misc]
    assert [part["state"] for part in parts] == ["ready"] * 4
    assert parts[0]["banned"] == ANSWERS["stats"]["banned"]
    assert [run["node"] for run in document["runs"]] == ["node/0", "node/1"]  # type: ignore[attr-defined]
    (worker,) = document["workers"]  # type: ignore[misc]
    assert (worker["role"], worker["state"], worker["confinement"]) == ("Writer", "starting", "unconfined")
    assert worker["memory"] > 0
    assert found == Survey(("run-1", "run-1"))


def test_a_worker_has_a_run_or_an_agent_session(runtime: Path) -> None:
    labels = [{"run": "run-1", "session": "run-1/Writer"}, {"session": "essay"}, {"run": "", "program": "a.py"}]
    workers: list[object] = [{**WORKER, "id": f"worker-{number}", "labels": each} for number, each in enumerate(labels)]
    document, _, _ = seen(runtime, FakeChildren(answers={**ANSWERS, "workers": {"workers": workers}}))
    told = [(each["run"], each["session"]) for each in document["workers"]]  # type: ignore[attr-defined]
    assert told == [("run-1", None), (None, "essay"), ("", None)]


def test_sessions_are_shown_with_their_node_and_only_a_turn_is_waited_for(runtime: Path) -> None:
    held: list[object] = [{"session": "essay", "state": "busy"}, {"session": "poem", "state": "waiting"}]
    answers = {**ANSWERS, "status": {"runs": [], "workers": [], "sessions": held}}
    document, found, _ = seen(runtime, FakeChildren(answers=answers))
    told = [(each["session"], each["node"]) for each in document["sessions"]]  # type: ignore[attr-defined]
    assert told == [("essay", "node/0"), ("poem", "node/0"), ("essay", "node/1"), ("poem", "node/1")]
    assert found == Survey(sessions=("essay", "essay"))


def test_parts_that_do_not_answer_are_shown_so_within_two_seconds(runtime: Path) -> None:
    document, found, took = seen(runtime, FakeChildren())
    parts = [document["broker"], document["launcher"], *document["nodes"]]  # type: ignore[misc]
    assert [part["state"] for part in parts] == ["not responding"] * 4
    assert found == Survey(silent=("node/0", "node/1"))
    assert took <= 2 * report.ASK_LIMIT + 0.1


def test_a_node_that_is_being_started_again_is_not_left_out(runtime: Path) -> None:
    document, found, _ = seen(runtime, FakeChildren(answers=ANSWERS), dead="node/1")
    node = document["nodes"][1]  # type: ignore[index]
    assert (node["name"], node["state"], node["restarts"]) == ("node/1", "starting", 1)
    assert node["last_cause"] == "was killed by SIGKILL"
    assert found == Survey(("run-1",))


def test_memory_of_nobody_is_unknown() -> None:
    assert report.memory(2**22 + 1) is None
    assert (report.memory(os.getpid()) or 0) > 1_000_000
