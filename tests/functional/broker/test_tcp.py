"""Peers beyond this machine: CURVE, keys and the address that names the broker's."""

import asyncio
import socket

import pytest
from fakes.broker_process import SECRET

from partyctl_broker import EndpointError, HelloRefused
from partyctl_broker.endpoint import Target
from partyctl_broker.errors import AddressForbidden, BusClosed, BusTimeout
from partyctl_broker.keys import decode_z85, new_pair
from partyctl_broker.peer import ZmqBus

OURS, FAR = new_pair(), new_pair()


class Reader:
    """Reads nothing."""

    def letter(self, letter):
        raise AssertionError(letter)

    def undelivered(self, letter_id, destination, why):
        raise AssertionError(why)

    def gone(self, address, unknown, why):
        raise AssertionError(why)

    def link_lost(self, why):
        pass


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture
def endpoint(broker):
    """Where the broker listens on tcp, as a peer is given it; the key of `far` is known there."""
    broker.tell(t="key", name="far", public=FAR.public, claims=["desk/*"])
    broker.tell(t="listen", url="tcp://127.0.0.1:*", public=OURS.public, secret=OURS.secret)
    told = broker.hear()
    assert told["t"] == "listening"
    return Target.write(told["url"], decode_z85(OURS.public))


def run(story):
    async def limited():
        async with asyncio.timeout(30):
            await story()

    asyncio.run(limited())


def test_a_peer_with_a_key_exchanges_letters_with_local_ones(broker, endpoint, connections, recorder):
    async def story():
        async with connections(broker.endpoint) as connect:
            local, far = recorder(), recorder()
            here = await (await connect()).open("run/a", local)
            bus = await ZmqBus.connect(endpoint, "far", FAR.secret_bytes)
            there = await bus.open("desk/far", far)
            there.send("run/a", b"hello")
            await local.wait("letter")
            here.send("desk/far", b"hello yourself")
            await far.wait("letter")
            with pytest.raises(AddressForbidden):
                await bus.open("run/b", recorder())
            await bus.close()
            await local.wait("gone")

    run(story)


@pytest.mark.parametrize(
    ("principal", "secret"),
    [("far", new_pair().secret_bytes), ("p", SECRET), ("p", FAR.secret_bytes)],
    ids=["another key", "a local principal by its secret", "a key under another's name"],
)
def test_nobody_else_comes_in(broker, endpoint, principal, secret):
    async def story():
        with pytest.raises(HelloRefused):
            await ZmqBus.connect(endpoint, principal, secret)

    run(story)
    assert broker.stats()["connections"] == 0


def test_a_key_is_no_secret_on_ipc(broker, endpoint):
    async def story():
        for secret in (FAR.secret_bytes, decode_z85(FAR.public)):
            with pytest.raises(HelloRefused):
                await ZmqBus.connect(broker.endpoint, "far", secret)

    run(story)


def test_who_expects_another_brokers_key_hears_nothing(endpoint):
    async def story():
        other = Target.write(Target.parse(endpoint).endpoint, decode_z85(new_pair().public))
        with pytest.raises(BusTimeout):
            await ZmqBus.connect(other, "far", FAR.secret_bytes, timeout=0.5)

    run(story)


def test_a_revoked_key_ends_its_connection_and_does_not_come_in_again(broker, endpoint, recorder):
    async def story():
        bus = await ZmqBus.connect(endpoint, "far", FAR.secret_bytes)
        mailbox = await bus.open("desk/far", recorder())
        broker.tell(t="forget", name="far")
        async with asyncio.timeout(5):
            while True:
                try:
                    mailbox.send("desk/far", b"x")
                except BusClosed:
                    break
                await asyncio.sleep(0.02)
        await bus.close()
        with pytest.raises(HelloRefused):
            await ZmqBus.connect(endpoint, "far", FAR.secret_bytes)

    run(story)


def test_a_tcp_endpoint_without_a_key_is_refused_with_the_form_it_should_have():
    async def story():
        for endpoint in ("tcp://127.0.0.1:1", "tcp://zz@127.0.0.1:1", "tcp://@127.0.0.1:1"):
            with pytest.raises(EndpointError, match=r"tcp://KEY@ADDRESS:PORT"):
                await ZmqBus.connect(endpoint, "far", FAR.secret_bytes)

    run(story)


@pytest.mark.parametrize("url", ["tcp://127.0.0.1:99999", "tcp://127.0.0.1:x", "tcp://nowhere.invalid:1", "udp://x"])
def test_what_cannot_be_listened_at_is_told(broker, url):
    broker.tell(t="listen", url=url, public=OURS.public, secret=OURS.secret)
    told = broker.hear()
    assert (told["t"], told["order"], told["url"]) == ("refused", "listen", url)
    assert broker.stats()["t"] == "stats"


def test_a_port_that_is_no_longer_listened_at_takes_nobody(broker, endpoint):
    async def story():
        broker.tell(t="unlisten", url=Target.parse(endpoint).endpoint)
        broker.stats()
        with pytest.raises(BusTimeout):
            await ZmqBus.connect(endpoint, "far", FAR.secret_bytes, timeout=0.5)

    run(story)


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_peer_comes_by_ipv6(broker):
    broker.tell(t="key", name="far", public=FAR.public, claims=["desk/*"])
    broker.tell(t="listen", url="tcp://[::1]:*", public=OURS.public, secret=OURS.secret)
    told = broker.hear()
    assert told["url"].startswith("tcp://[::1]:")

    async def story():
        endpoint = Target.write(told["url"], decode_z85(OURS.public))
        bus = await ZmqBus.connect(endpoint, "far", FAR.secret_bytes)
        await bus.open("desk/far", Reader())
        await bus.close()

    run(story)


def test_a_key_that_another_principal_has_is_not_taken_and_the_host_hears_it(broker):
    for name in ("far", "near"):
        broker.tell(t="key", name=name, public=FAR.public, claims=["desk/*"])
    assert "far has it" in broker.hear()["what"]
