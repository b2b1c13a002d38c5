"""A burst of requests for workers holds up neither kills, nor answers, nor other clients; and it has its bounds."""

import asyncio
import os
import signal
import threading

import msgpack
import pytest

from partyctl_confinement.errors import SpawnRefused

BURST = 500


class Asker:
    """A client that asks for many workers at once and hears the answers in their order."""

    def __init__(self, channel) -> None:
        self.channel = channel
        self.heard = []
        self.ends = []

    def ask(self, worker_id, main="worker_mains:echo") -> None:
        self.tell({"t": "spawn", "id": worker_id, "name": worker_id, "main": main})

    def tell(self, message) -> None:
        self.channel.send(msgpack.packb(message), timeout=20)

    def hear(self):
        """The next answer."""
        received = self.channel.receive(timeout=60)
        assert received is not None, f"hung up after {len(self.heard)} answers"
        self.ends += received.fds  # a worker whose end is closed would end
        answer = msgpack.unpackb(received.data)
        self.heard.append((answer["t"], answer["id"]))
        return answer

    def hear_until(self, kind, worker_id):
        """The next answer of this kind about this worker."""
        answer = self.hear()
        while self.heard[-1] != (kind, worker_id):
            answer = self.hear()
        return answer

    def count(self, kind) -> int:
        return sum(each == kind for each, _ in self.heard)


@pytest.fixture
def asker(launcher):
    made = []

    def connect(name, started=launcher):
        made.append(Asker(started.add_client(name)))
        return made[-1]

    yield connect
    for each in made:
        each.channel.close()
        for fd in each.ends:
            os.close(fd)


def test_status_is_answered_and_a_worker_is_killed_while_five_hundred_are_yet_to_start(launcher, asker) -> None:
    burst, other = asker("burst"), asker("other")
    other.ask("victim")
    other.hear_until("spawned", "victim")
    for number in range(BURST):
        burst.ask(f"b-{number}")
    burst.hear_until("spawned", "b-0")
    other.tell({"t": "kill", "id": "victim"})
    other.hear_until("exited", "victim")
    assert len(launcher.workers()) < BURST
    burst.hear_until("spawned", f"b-{BURST - 1}")
    assert len(launcher.workers()) == BURST


def test_a_kill_behind_a_burst_in_the_same_channel_is_obeyed_before_the_burst_is_through(asker) -> None:
    burst = asker("burst")
    for number in range(BURST - 1):
        burst.ask(f"b-{number}")
    burst.tell({"t": "kill", "id": "b-0"})
    burst.ask("last")
    burst.hear_until("spawned", "last")
    ended = [each for each in burst.heard if each[1] == "b-0"][-1]
    assert ended[0] in ("exited", "refused")
    assert burst.heard.index(ended) < len(burst.heard) // 2


def test_another_clients_worker_starts_in_the_middle_of_a_burst(launcher, asker) -> None:
    burst, other = asker("burst"), asker("other")
    for number in range(BURST):
        burst.ask(f"b-{number}")
    burst.hear_until("spawned", "b-0")
    other.ask("mine")
    other.hear_until("spawned", "mine")
    assert sum(row.client == "burst" for row in launcher.workers()) < BURST


def test_over_its_bound_a_client_is_refused_by_name_and_what_waits_is_met(start_launcher, asker) -> None:
    launcher = start_launcher(max_workers=2000)
    client = asker("burst", launcher)
    os.kill(launcher.pid, signal.SIGSTOP)
    sending = threading.Thread(target=lambda: [client.ask(f"b-{number}") for number in range(900)])
    sending.start()  # the socket holds fewer: the rest is read while the first ones start
    os.kill(launcher.pid, signal.SIGCONT)
    refused = [answer for answer in (client.hear() for _ in range(900)) if answer["t"] == "refused"]
    sending.join()
    assert refused
    assert "requests of this client wait already and 512 may; ask again" in refused[0]["why"]
    assert client.count("spawned") >= 512
    client.ask("later")
    client.hear_until("spawned", "later")


def test_a_request_that_waits_can_be_taken_back(launcher, asker) -> None:
    burst = asker("burst")
    for number in range(100):
        burst.ask(f"b-{number}")
    burst.tell({"t": "kill", "id": "b-99"})
    answer = burst.hear_until("refused", "b-99")
    assert answer["request"] == "spawn"
    assert "took it back" in answer["why"]
    burst.hear_until("spawned", "b-98")
    assert "b-99" not in {row.id for row in launcher.workers()}


def test_workers_whose_modules_take_long_to_import_do_not_keep_others_from_starting(asker) -> None:
    client = asker("slow")
    for number in range(8):
        client.ask(f"slow-{number}", "slow_module:main")
    client.ask("quick")
    client.hear_until("spawned", "quick")


def test_a_client_that_is_gone_leaves_no_request_waiting(launcher, asker, wait_until) -> None:
    burst, other = asker("burst"), asker("other")
    for number in range(BURST):
        burst.ask(f"b-{number}")
    burst.hear_until("spawned", "b-0")
    burst.channel.close()
    other.ask("mine")
    other.hear_until("spawned", "mine")
    assert wait_until(lambda: [row.id for row in launcher.workers()] == ["mine"], 30)


def test_a_stopping_launcher_refuses_what_waits_and_leaves_nothing(launcher, asker, trace) -> None:
    burst = asker("burst")
    for number in range(BURST):
        burst.ask(f"b-{number}")
    burst.hear_until("spawned", "b-0")
    trace.add(*(row.pid for row in launcher.workers()))
    launcher.stop(timeout=30)
    assert trace.all_gone()


def test_the_number_of_workers_is_bounded_by_its_option_and_the_refusal_says_where_to_raise_it(
    start_launcher, connect, hire
) -> None:
    launcher = start_launcher(max_workers=2)

    async def play():
        async with connect(launcher) as client, hire(client, "echo"):
            async with hire(client, "echo"):
                with pytest.raises(SpawnRefused) as refusal:
                    await client.spawn(name="third", main="worker_mains:echo")
                assert "there are 2 workers, 0 are about to start, and 2 may be" in str(refusal.value)
                assert "limits.workers in party.toml" in str(refusal.value)
            async with hire(client, "echo"):
                assert len(launcher.workers()) == 2

    asyncio.run(asyncio.wait_for(play(), 30))


def test_requests_that_wait_count_for_the_number_of_workers(start_launcher, asker) -> None:
    client = asker("burst", start_launcher(max_workers=20))
    for number in range(60):
        client.ask(f"b-{number}")
    for _ in range(60):
        client.hear()
    assert (client.count("spawned"), client.count("refused")) == (20, 40)
