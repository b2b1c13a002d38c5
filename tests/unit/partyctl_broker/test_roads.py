"""The promises about letters hold after whatever happens to brokers, peers and pipes."""

from fakes.roads import World
from hypothesis import given, settings
from hypothesis import strategies as st

ADDRESSES = ("run/a", "run/b", "run/c")

numbers = st.integers(0, 2)
counts = st.sampled_from([1, 1, 2, 3, 8, 100])
sends = st.tuples(st.just("send"), numbers, numbers, counts)
moves = st.tuples(st.sampled_from(["route", "read"]), numbers, counts)
times = st.tuples(st.just("time"), st.sampled_from([0.01, 0.05, 0.2, 1.0, 2.5]))
deaths = st.one_of(
    st.tuples(st.just("kill broker"), counts),
    st.tuples(st.just("kill peer"), numbers, counts),
    st.tuples(st.sampled_from(["bury", "replace"]), numbers),
)
returns = st.one_of(st.tuples(st.just("start broker")), st.tuples(st.just("connect"), numbers))
actions = st.one_of(sends, sends, moves, moves, moves, moves, times, deaths, returns, returns)


def play(world, script):
    """Play a script; who was there from its beginning to its end."""
    survivors = set(world.peers.values())
    for peer in survivors:
        world.connect(peer)
        peer.read(1)
    for action, *arguments in script:
        match action, arguments:
            case "send", (source, destination, count) if source != destination:
                peer = world.peers[ADDRESSES[source]]
                for number in range(count if peer.alive else 0):
                    peer.send(ADDRESSES[destination], confirm=number % 3 == 2)
            case "route", (number, count):
                world.route(world.peers[ADDRESSES[number]], count)
            case "read", (number, count):
                peer = world.peers[ADDRESSES[number]]
                if peer.alive:
                    peer.read(count)
            case "time", (seconds,):
                world.pass_time(seconds)
            case "kill broker", (count,):
                world.kill_broker(count)
            case "kill peer", (number, count):
                world.kill_peer(ADDRESSES[number], count)
            case "bury", (number,):
                world.bury(ADDRESSES[number])
            case "replace", (number,):
                world.replace(ADDRESSES[number])
            case "start broker", ():
                world.start_broker()
            case "connect", (number,):
                world.connect(world.peers[ADDRESSES[number]])
    for address in ADDRESSES:
        world.bury(address)
        world.replace(address)
    world.settle()
    return {peer for peer in survivors if peer.alive}


@settings(max_examples=150, deadline=None)
@given(st.lists(actions, max_size=60), st.sampled_from([2, 5, 1000]), st.booleans())
def test_every_letter_arrives_once_in_order_or_its_sender_is_told(script, room, loses_nacks):
    world = World(ADDRESSES, room, loses_nacks=loses_nacks)
    survivors = play(world, script)
    world.check_the_end(survivors)
