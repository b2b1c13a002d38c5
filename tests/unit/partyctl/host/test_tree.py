"""The tree with children that are no processes: order, restarts, what each child is told, and the end."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from fakes.children import FakeChildren
from fakes.quiet import quietly

from partyctl.errors import HostError
from partyctl.host.budget import GiveUp, RestartPolicy
from partyctl.host.tree import STOP_GRACE, Tree, describe
from partyctl.maps import pack


class Grove:
    """A tree of fake children, and what it said."""

    def __init__(
        self, directory: Path, children: FakeChildren, *, nodes: int = 2, policy: RestartPolicy | None = None
    ) -> None:
        self.children = children
        self.said: list[str] = []
        self.gave_up: list[tuple[str, GiveUp]] = []
        self.tree = Tree(
            directory, nodes, children, self.said.append, self._gone, policy or RestartPolicy(first_wait=0.0)
        )

    def _gone(self, part: str, verdict: GiveUp) -> None:
        self.gave_up.append((part, verdict))


def growing(
    directory: Path,
    work: Callable[[Grove], Awaitable[None]],
    children: Callable[[], FakeChildren] = FakeChildren,
    *,
    nodes: int = 2,
    policy: RestartPolicy | None = None,
) -> Grove:
    """Start a tree, do `work`, stop it; fails if anything is left unheard."""

    async def grow() -> Grove:
        grove = Grove(directory, children(), nodes=nodes, policy=policy)
        try:
            await grove.tree.start()
            await work(grove)
        finally:
            await grove.tree.stop()
        return grove

    return quietly(grow())


async def settle() -> None:
    await asyncio.sleep(0.1)


async def nothing(grove: Grove) -> None:
    pass


def test_broker_and_launcher_come_before_the_nodes_and_end_after_them(runtime: Path) -> None:
    grove = growing(runtime, nothing)
    names = [child.name for child in grove.children.started]
    assert names == ["broker", "launcher", "node/0", "node/1"]
    assert sorted(grove.children.ended[:2]) == ["node/0", "node/1"]
    assert grove.children.ended[2:] == ["launcher", "broker"]


def test_a_private_tree_has_a_launcher_alone(runtime: Path) -> None:
    grove = growing(runtime, nothing, nodes=0)
    assert [child.name for child in grove.children.started] == ["launcher"]


def test_a_node_is_told_where_the_broker_is_and_gets_the_launcher_once(runtime: Path) -> None:
    async def look(grove: Grove) -> None:
        await settle()
        (node,) = grove.children.named("node/0")
        (begin,) = node.of_kind("begin")
        assert begin["endpoint"] == grove.tree.endpoint
        (introduced,) = [m for m in grove.children.named("broker")[0].of_kind("principal") if m["name"] == "node/0"]
        assert introduced["secret"] == begin["secret"]
        assert node.lent == 1

    growing(runtime, look)


def test_only_nodes_get_the_hosts_whole_environment(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "x")
    grove = growing(runtime, nothing)
    for child in grove.children.started:
        assert (child.environment is None) == child.name.startswith("node/")
        assert "A_SECRET" not in (child.environment or {})


def test_a_dead_node_is_started_again_with_a_new_secret_and_its_code_hosts_are_forgotten(runtime: Path) -> None:
    async def kill(grove: Grove) -> None:
        first = grove.children.named("node/0")[0]
        await first.far.send(pack({"t": "principal", "name": "code-1", "claims": ["run/*"]}))
        await settle()
        assert first.of_kind("principal")[0]["name"] == "code-1"
        first.exits(-9)
        await settle()
        second = grove.children.named("node/0")[1]
        assert second.of_kind("begin")[0]["secret"] != first.of_kind("begin")[0]["secret"]
        assert second.lent == 1
        assert {"t": "forget", "name": "code-1"} in grove.children.named("broker")[0].heard
        assert grove.tree.restarts == {"node/0": 1}
        assert grove.tree.last_cause == {"node/0": "was killed by SIGKILL"}

    grove = growing(runtime, kill)
    assert grove.said == ["the node/0 was killed by SIGKILL; starting it again"]
    assert grove.gave_up == []


def test_a_new_broker_is_told_everybody_who_is_admitted(runtime: Path) -> None:
    async def kill(grove: Grove) -> None:
        await grove.tree.principals.admit("client/1", ("client/1",))
        await grove.tree.principals.admit("client/2", ("client/2",))
        await grove.tree.principals.dismiss("client/2")
        grove.children.named("broker")[0].exits(1)
        await settle()
        told = {str(message["name"]) for message in grove.children.named("broker")[1].of_kind("principal")}
        assert told == {"node/0", "node/1", "client/1"}

    growing(runtime, kill)


def test_a_new_launcher_is_lent_to_every_node_once(runtime: Path) -> None:
    async def kill(grove: Grove) -> None:
        grove.children.named("launcher")[0].exits(1)
        await settle()
        assert [grove.children.named(f"node/{number}")[0].lent for number in range(2)] == [2, 2]
        assert len(grove.children.named("launcher")[1].of_kind("client")) == 2

    growing(runtime, kill)


def test_a_node_and_the_launcher_that_die_together_find_each_other(runtime: Path) -> None:
    async def kill(grove: Grove) -> None:
        grove.children.named("launcher")[0].exits(1)
        grove.children.named("node/0")[0].exits(1)
        await settle()
        assert grove.children.named("node/0")[1].lent == 1
        assert grove.children.named("node/1")[0].lent == 2

    assert growing(runtime, kill).gave_up == []


def test_a_node_that_dies_again_and_again_is_given_up_and_the_party_goes_on_without_it(runtime: Path) -> None:
    async def kill(grove: Grove) -> None:
        grove.children.scripts["node/0"] = ["die"] * 10
        grove.children.named("node/0")[0].exits(-11)
        await settle()
        assert len(grove.children.named("node/0")) == 4
        assert "always: exited with status 3" in grove.tree.given_up["node/0"].why

    grove = growing(runtime, kill, policy=RestartPolicy(9, 30.0, first_wait=0.0))
    assert grove.gave_up == []
    assert any("goes on without it" in line for line in grove.said)


@pytest.mark.parametrize("name", ["broker", "launcher"])
def test_a_party_without_broker_or_launcher_gives_up_and_says_why(name: str, runtime: Path) -> None:
    async def kill(grove: Grove) -> None:
        for number in range(4):
            grove.children.named(name)[number].exits(-9)
            await settle()

    grove = growing(runtime, kill, policy=RestartPolicy(3, 30.0, first_wait=0.0))
    why = "it died 4 times within 30 s; last cause: was killed by SIGKILL"
    assert grove.gave_up == [(name, GiveUp(why, 4, 30.0, "was killed by SIGKILL"))]


def test_the_last_node_that_is_given_up_takes_the_party_along(runtime: Path) -> None:
    async def kill(grove: Grove) -> None:
        grove.children.named("node/0")[0].exits(1)
        await settle()

    assert len(growing(runtime, kill, nodes=1, policy=RestartPolicy(0)).gave_up) == 1


def test_a_child_that_dies_once_while_it_is_started_again_gets_another_try(runtime: Path) -> None:
    async def kill(grove: Grove) -> None:
        grove.children.scripts["node/0"] = ["die", "ready"]
        grove.children.named("node/0")[0].exits(1)
        await settle()
        assert grove.tree.living["node/0"].ready.is_set()

    assert growing(runtime, kill).gave_up == []


@pytest.mark.parametrize("does", ["hang", "refuse"])
def test_a_child_that_cannot_be_started_again_ends_the_party(does: str, runtime: Path) -> None:
    async def kill(grove: Grove) -> None:
        grove.children.scripts["broker"] = [does]
        grove.children.named("broker")[0].exits(1)
        await asyncio.sleep(60)

    grove = growing(runtime, kill)
    assert len(grove.gave_up) == 1
    assert grove.gave_up[0][0] == "broker"


@pytest.mark.parametrize("name", ["broker", "launcher", "node/1"])
@pytest.mark.parametrize("does", ["hang", "die", "refuse"])
def test_a_start_that_fails_names_the_child_and_leaves_none(does: str, name: str, runtime: Path) -> None:
    async def start() -> None:
        grove = Grove(runtime, FakeChildren({name: [does]}))
        with pytest.raises(HostError, match=name):
            await grove.tree.start()
        await grove.tree.stop()
        assert all(child.exited.done() for child in grove.children.started)

    quietly(start())


def test_a_stop_in_the_middle_of_the_start_leaves_no_child(runtime: Path) -> None:
    async def start() -> None:
        grove = Grove(runtime, FakeChildren({"launcher": ["hang"]}))
        starting = asyncio.ensure_future(grove.tree.start())
        await asyncio.sleep(0.5)
        await grove.tree.stop()
        with pytest.raises(HostError):
            await starting
        assert all(child.exited.done() for child in grove.children.started)

    quietly(start())


def test_nothing_is_started_again_while_the_tree_stops(runtime: Path) -> None:
    async def kill(grove: Grove) -> None:
        stopping = asyncio.ensure_future(grove.tree.stop())
        grove.children.named("broker")[0].exits(1)
        await stopping
        assert len(grove.children.named("broker")) == 1

    growing(runtime, kill)


def test_children_that_ignore_the_stop_are_killed_after_their_grace(runtime: Path) -> None:
    async def stop(grove: Grove) -> None:
        began = asyncio.get_running_loop().time()
        await grove.tree.stop()
        assert asyncio.get_running_loop().time() - began < 3 * STOP_GRACE + 1

    stubborn = {name: ["stubborn"] for name in ("broker", "launcher", "node/0", "node/1")}
    grove = growing(runtime, stop, lambda: FakeChildren(stubborn))
    assert {child.exited.result() for child in grove.children.started} == {-9}


@pytest.mark.parametrize(
    "junk", [b"", b"\xc1", pack({}), pack({"t": "principal"}), pack({"t": "dismiss"}), b"\x93\x01\x02\x03"]
)
def test_what_is_no_message_of_ours_is_said_and_changes_nothing(junk: bytes, runtime: Path) -> None:
    async def send(grove: Grove) -> None:
        node = grove.children.named("node/0")[0]
        await node.far.send(junk)
        await node.far.send(pack({"t": "principal", "name": "code-1", "claims": []}))
        await settle()
        assert node.of_kind("principal")

    assert "node/0 sent what is no message" in growing(runtime, send).said[0]


def test_without_a_launcher_there_is_no_client_and_the_reason_is_told(runtime: Path) -> None:
    async def hire(grove: Grove) -> None:
        grove.children.scripts["launcher"] = ["hang"]
        grove.tree.living.pop("launcher")
        grove.tree.last_cause["launcher"] = "was killed by SIGKILL"
        with pytest.raises(HostError, match="SIGKILL"):
            await grove.tree.hire_client("x")
        grove.tree.living["launcher"] = grove.children.named("launcher")[0]

    growing(runtime, hire)


def test_a_question_to_nobody_is_not_answered(runtime: Path) -> None:
    async def ask(grove: Grove) -> None:
        assert await grove.tree.ask("node/9", "status", limit=1.0) is None

    growing(runtime, ask)


@pytest.mark.parametrize(
    ("code", "told"),
    [(0, "exited with status 0"), (-9, "was killed by SIGKILL"), (-50, "was killed by signal 50")],
)
def test_every_end_can_be_described(code: int, told: str) -> None:
    assert describe(code) == told


def test_what_a_part_said_last_is_part_of_its_cause(runtime: Path) -> None:
    async def kill(grove: Grove) -> None:
        broker = grove.children.named("broker")[0]
        await broker.far.send(pack({"t": "failed", "why": "over its memory limit"}))
        broker.exits(75)
        await settle()
        assert grove.tree.last_cause["broker"] == "exited with status 75: over its memory limit"

    growing(runtime, kill)
