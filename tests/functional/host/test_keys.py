"""Peers beyond this machine, over the real command line: who gets in by tcp, what they may do, and for how long."""

import asyncio
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.party import Party, wait_until

from partyctl.control import connect
from partyctl.following import enter
from partyctl_base.process import is_alive
from partyctl_broker.keys import new_pair
from partyctl_broker.peer import ZmqBus
from partyctl_broker.port import Letter

LIMIT = 20.0
ANY = "tcp://127.0.0.1:0"


class Inbox:
    """A receiver that keeps its first letter."""

    def __init__(self) -> None:
        self.first: asyncio.Future[Letter] = asyncio.get_running_loop().create_future()

    def letter(self, letter: Letter) -> None:
        if not self.first.done():
            self.first.set_result(letter)

    def undelivered(self, letter_id: int, destination: str, why: str) -> None:
        if not self.first.done():
            self.first.set_exception(AssertionError(f"not delivered to {destination}: {why}"))

    def gone(self, address: str, unknown: tuple[int, ...], why: str) -> None:
        pass

    def link_lost(self, why: str) -> None:
        pass


class Peer:
    """A process of tests/programs/far_peer.py."""

    def __init__(self, party: Party, given: dict[str, Any], address: str) -> None:
        file = party.root / f"{given['name']}-{os.urandom(4).hex()}.json"
        file.write_text(json.dumps(given))
        self._process = party.start(str(file), address, program=str(party.program("far_peer.py")))

    def hears(self) -> str:
        """The next word it prints."""
        out = self._process.stdout
        assert out is not None
        assert select.select([out], [], [], LIMIT)[0], "the peer says nothing"
        return out.readline().strip()

    def end(self) -> None:
        self._process.kill()
        self._process.wait(LIMIT)


def listening(party: Party, url: str = ANY, *, up: bool = True) -> None:
    (party.root / "party.toml").write_text(f'[listen]\nurl = "{url}"\n')
    if up:
        party.up("--nodes", "1")


def add(party: Party, *words: str) -> dict[str, Any]:
    done = party.run("key", "add", "--json", *words)
    assert done.returncode == 0, done.stderr
    given: dict[str, Any] = json.loads(done.stdout)
    return given


@pytest.fixture
def talk(party: Party, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Say something from a mailbox on this machine to an address; the answer."""
    monkeypatch.setenv("PARTYCTL_RUNTIME_DIR", party.environment["PARTYCTL_RUNTIME_DIR"])

    def say(destination: str, text: bytes) -> bytes:
        async def exchange() -> bytes:
            with connect("default", LIMIT) as control:
                entry = enter(control)
                bus = await ZmqBus.connect(entry.endpoint, entry.principal, entry.secret, timeout=LIMIT)
                try:
                    inbox = Inbox()
                    (await bus.open(entry.address, inbox)).send(destination, text)
                    async with asyncio.timeout(LIMIT):
                        return (await inbox.first).payload
                finally:
                    await bus.close()

        return asyncio.run(exchange())

    return say


def test_a_peer_with_a_key_exchanges_letters_with_a_mailbox_of_the_party(party: Party, talk: Any) -> None:
    listening(party)
    peer = Peer(party, add(party, "laptop"), "desk/laptop")
    assert peer.hears() == "open"
    assert talk("desk/laptop", b"hello") == b"HELLO"
    assert party.run("status").stdout.splitlines()[1].startswith("listening at tcp://127.0.0.1:")
    peer.end()


def test_a_peer_that_made_its_own_pair_gets_in_and_no_secret_is_printed(party: Party, talk: Any) -> None:
    listening(party)
    pair = new_pair()
    given = add(party, "laptop", "--public", pair.public, "--claim", "session/*")
    assert given["secret"] is None
    peer = Peer(party, given | {"secret": pair.secret}, "session/1/x")
    assert peer.hears() == "open"
    assert talk("session/1/x", b"hello") == b"HELLO"
    peer.end()


@pytest.mark.parametrize(
    ("change", "address", "error"),
    [
        ({"secret": new_pair().secret}, "desk/laptop", "HelloRefused"),
        ({"principal": "key/other"}, "desk/laptop", "HelloRefused"),
        ({"principal": "node/0"}, "desk/laptop", "HelloRefused"),
        ({}, "desk/other", "AddressForbidden"),
        ({}, "node/1", "AddressForbidden"),
        ({}, "client/run-1", "AddressForbidden"),
    ],
    ids=["a stranger's key", "another's name", "a node's name", "another's desk", "a node", "a submitter"],
)
def test_nobody_is_let_in_and_nothing_claimed_without_a_rule(
    party: Party, change: dict[str, str], address: str, error: str
) -> None:
    listening(party)
    add(party, "other")
    peer = Peer(party, add(party, "laptop") | change, address)
    assert peer.hears() == error


def test_a_revoked_key_ends_its_connection_and_lets_nobody_in_any_more(party: Party, talk: Any) -> None:
    listening(party)
    given, other = add(party, "laptop"), add(party, "other")
    peer, stays = Peer(party, given, "desk/laptop"), Peer(party, other, "desk/other")
    assert [peer.hears(), stays.hears()] == ["open", "open"]
    revoked = party.run("key", "revoke", "laptop")
    assert revoked.returncode == 0
    assert "has forgotten it" in revoked.stderr
    assert [peer.hears(), peer.hears()] == ["lost", "over"]
    assert Peer(party, given, "desk/laptop").hears() == "HelloRefused"
    again = add(party, "laptop")
    assert Peer(party, given, "desk/laptop").hears() == "HelloRefused"
    assert Peer(party, again, "desk/laptop").hears() == "open"
    assert talk("desk/other", b"still here") == b"STILL HERE"


def test_a_peer_returns_to_the_same_port_after_the_broker_was_killed(party: Party, talk: Any) -> None:
    listening(party)
    given = add(party, "laptop")
    peer = Peer(party, given, "desk/laptop")
    assert peer.hears() == "open"
    for _ in range(3):
        before = party.status()["broker"]["pid"]
        os.kill(before, signal.SIGKILL)
        assert peer.hears() == "lost"
        wait_until(lambda: party.status()["broker"]["pid"] not in (None, before), LIMIT, "another broker")  # noqa: B023
        assert talk("desk/laptop", b"again") == b"AGAIN"
    assert party.status()["listen"]["url"] == given["url"]
    peer.end()


def test_keys_that_were_there_before_the_party_are_known_to_it(party: Party, talk: Any) -> None:
    first = add(party, "laptop")
    assert (first["url"], first["endpoint"]) == (None, None)
    listening(party)
    where = add(party, "other")
    assert where["broker"] == first["broker"]
    peer = Peer(party, first | {"endpoint": where["endpoint"]}, "desk/laptop")
    assert peer.hears() == "open"
    assert talk("desk/laptop", b"hello") == b"HELLO"
    peer.end()


def test_without_listen_nothing_listens_and_key_add_says_so(party: Party) -> None:
    party.up("--nodes", "1")
    broker = party.status()["broker"]["pid"]
    assert party.status()["listen"] is None
    added = party.run("key", "add", "laptop")
    assert added.returncode == 0
    assert "does not listen" in added.stderr
    listed = subprocess.run(
        ["ls", "-l", f"/proc/{broker}/fd"], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    inodes = {word[8:-1] for word in listed.stdout.split() if word.startswith("socket:[")}
    tcp = [line.split()[9] for line in Path(f"/proc/{broker}/net/tcp").read_text().splitlines()[1:]]
    assert not inodes & set(tcp)


@pytest.mark.parametrize(("url", "why"), [("taken", "already in use"), ("tcp://192.0.2.1:7333", "Cannot assign")])
@pytest.mark.parametrize("words", [("up",), ("up", "--wait")])
def test_an_endpoint_that_cannot_be_had_fails_up_and_leaves_nothing(
    party: Party, url: str, why: str, words: tuple[str, ...]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        url = f"tcp://127.0.0.1:{taken.getsockname()[1]}" if url == "taken" else url
        listening(party, url, up=False)
        done = party.run(*words, "--nodes", "1")
    assert done.returncode == 1
    assert f"the party cannot listen ({url}): " in done.stderr
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert party.run("status", "--check").returncode == 3
    assert not [path for path in party.runtime.rglob("*") if path.is_socket()]


def took(thief: socket.socket, port: int) -> bool:
    """Whether we have the port now: it is free a moment after the process that had it counts as dead."""
    try:
        thief.bind(("127.0.0.1", port))
    except OSError:
        return False
    thief.listen()
    return True


def test_an_endpoint_that_a_broker_loses_is_shown_and_taken_back(party: Party, talk: Any) -> None:
    listening(party)
    given = add(party, "laptop")
    port = int(given["url"].rpartition(":")[2])
    party.run("down")
    listening(party, given["url"])
    status = party.status()
    os.kill(status["pid"], signal.SIGSTOP)  # it cannot be faster than we
    os.kill(status["broker"]["pid"], signal.SIGKILL)
    wait_until(lambda: not is_alive(status["broker"]["pid"]), LIMIT, "the broker is dead")
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        wait_until(lambda: took(thief, port), LIMIT, "the port is free")
        os.kill(status["pid"], signal.SIGCONT)
        wait_until(lambda: "already in use" in party.run("status").stdout, 3 * LIMIT, "status tells")
        assert party.run("status", "--check").returncode == 6
    wait_until(lambda: party.run("status", "--check").returncode == 0, 3 * LIMIT, "it listens again")
    peer = Peer(party, given, "desk/laptop")
    assert peer.hears() == "open"
    assert talk("desk/laptop", b"hello") == b"HELLO"


def test_five_parties_that_start_at_once_each_get_a_port_of_their_own(party: Party) -> None:
    listening(party, up=False)
    names = [f"p{number}" for number in range(5)]
    starters = [party.start("up", "--wait", "--nodes", "1", "--party", name) for name in names]
    try:
        told = [starter.communicate(timeout=90)[1] for starter in starters]
        assert [starter.returncode for starter in starters] == [0] * 5, told
        shown = [json.loads(party.run("status", "--json", "--party", name).stdout)["listen"]["url"] for name in names]
        assert len(set(shown)) == 5
        assert all(add(party, "x", "--party", name)["url"] == url for name, url in zip(names, shown, strict=True))
    finally:
        for name in names:
            assert party.run("down", "--now", "--party", name).returncode == 0


def test_files_are_their_owners_alone_and_hold_no_peers_secret(party: Party) -> None:
    party.environment["HOME"] = str(party.root)
    given = add(party, "laptop")
    directory = party.root / "state" / "partyctl" / "default" / "keys"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {
        "laptop.key": 0o600,
        "broker.secret": 0o600,
    }
    kept = "".join(path.read_text() for path in party.root.rglob("*") if path.is_file())
    assert given["public"] in kept
    assert given["secret"] not in kept


def test_the_list_has_names_public_keys_and_claims(party: Party) -> None:
    assert json.loads(party.run("key", "list", "--json").stdout)["keys"] == []
    empty = party.run("key", "list")
    assert (empty.returncode, empty.stdout, empty.stderr) == (0, "", 'partyctl: party "default" has no keys\n')
    given = add(party, "laptop", "--claim", "run/*", "--claim", "desk/anna")
    (key,) = json.loads(party.run("key", "list", "--json").stdout)["keys"]
    assert key == {"name": "laptop", "public": given["public"], "claims": ["run/*", "desk/anna"]}
    table = party.run("key", "list").stdout
    assert given["public"] in table
    assert given["secret"] not in table


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["add", "a/b"], "1 to 64 letters"),
        (["add", ""], "1 to 64 letters"),
        (["add", "x" * 65], "1 to 64 letters"),
        (["add", "x", "--claim", "node/*"], "none of"),
        (["add", "x", "--public", "short"], "40 characters"),
        (["add", "known"], "partyctl key revoke known"),
        (["revoke", "nobody"], "partyctl key list"),
        (["revoke", "../known"], "1 to 64 letters"),
    ],
)
def test_what_cannot_be_a_key_is_refused_with_7_and_nothing_is_kept(party: Party, words: list[str], told: str) -> None:
    add(party, "known")
    done = party.run("key", *words)
    assert (done.returncode, done.stdout) == (7, "")
    assert told in done.stderr
    assert [key["name"] for key in json.loads(party.run("key", "list", "--json").stdout)["keys"]] == ["known"]


def test_a_secret_that_could_not_be_written_lets_nobody_in(party: Party) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "partyctl", "key", "add", "laptop"], cwd=party.root, env=party.environment,
            stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True, timeout=40, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert "no keys" in party.run("key", "list").stderr


def test_a_host_that_does_not_answer_is_exit_4_and_the_secret_is_not_lost(party: Party) -> None:
    listening(party)
    host = party.host_pid()
    os.kill(host, signal.SIGSTOP)
    try:
        added = party.run("key", "add", "laptop", "--json")
        revoked = party.run("key", "revoke", "laptop")
    finally:
        os.kill(host, signal.SIGCONT)
    assert (added.returncode, revoked.returncode) == (4, 4)
    assert json.loads(added.stdout)["secret"]
    assert f"kill -CONT {host}" in revoked.stderr


def test_keys_of_another_state_directory_are_not_taken_for_those_of_the_party(party: Party) -> None:
    listening(party)
    elsewhere = str(party.root / "elsewhere")
    done = party.run("key", "add", "laptop", XDG_STATE_HOME=elsewhere)
    assert done.returncode == 1
    assert "has not taken the key" in done.stderr
    assert elsewhere in done.stderr
