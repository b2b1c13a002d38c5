"""The table by example, and by every sequence of events that hypothesis can think of."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partyctl_broker import wire
from partyctl_broker.auth import Principal
from partyctl_broker.control import CLAIMS_MAX, Bye, Gone, Hello, Nack, Welcome
from partyctl_broker.router import ADDRESSES_MAX, AWAY, KEPT, Table
from partyctl_broker.steps import (
    Admit,
    Arrived,
    Check,
    Count,
    Cut,
    Forget,
    Forward,
    Lost,
    Settle,
    Tell,
    Unsent,
)
from partyctl_broker.wire import Kind

SECRET = b"s" * 32
LETTER = wire.seal(Kind.DATA, 5, 0, b"payload", stream=77)


def hello(connection, *claims, principal="p", secret=SECRET, incarnation=None, version=wire.VERSION, settled=False):
    said = Hello(principal, secret, incarnation or connection * 4, claims, version)
    return Arrived(connection, wire.TO_BROKER, wire.seal(Kind.HELLO, 9, 0, said.encode()), settled)


def letter(connection, source, destination, envelope=LETTER):
    return Arrived(connection, wire.road(destination, source), envelope)


def gone_heard(connection, address, gone):
    """A peer says a GONE back."""
    return Arrived(connection, wire.road("", address), wire.seal(Kind.GONE, 0, 0, Gone(gone, "heard").encode()))


def bye(connection, *addresses):
    return Arrived(connection, wire.TO_BROKER, wire.seal(Kind.BYE, 0, 0, Bye(addresses).encode()))


def heard(command):
    """What the broker says to a peer: (connection, address, message, correlation)."""
    assert isinstance(command, Tell)
    envelope = wire.unseal(command.envelope)
    kinds = {Kind.WELCOME: Welcome, Kind.NACK: Nack, Kind.GONE: Gone, Kind.BYE: Bye}
    address, source = wire.ends(command.frame)
    assert source == ""
    return command.target, address, kinds[Kind(envelope.kind)].decode(envelope.payload), envelope.correlation


def table_with(*events):
    table = Table()
    for event in (Admit(Principal("p", SECRET, ("run/*",))), *events):
        table.step(event)
    return table


class TestHello:
    def test_a_welcome_says_which_claims_hold_and_why_others_do_not(self):
        table = table_with(hello(b"1", "run/a"))
        count, command = table.step(hello(b"2", "run/b", "run/a", "desk/x", settled=True))
        assert count == Count("claim refused: rule")
        connection, address, welcome, correlation = heard(command)
        assert (connection, address, correlation) == (b"2", "", 9)
        assert welcome.claimed == ("run/b",)
        assert {name: refusal.code for name, refusal in welcome.refused.items()} == {
            "run/a": "taken",
            "desk/x": "rule",
        }
        assert table.holder("run/b") == b"2"
        assert table.holder("run/a") == b"1"

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"secret": b"x" * 32}, "principal"),
            ({"secret": b""}, "principal"),
            ({"principal": "nobody"}, "principal"),
            ({"version": 2}, "version"),
        ],
    )
    def test_who_cannot_prove_itself_is_refused_and_stays_nobody(self, change, code):
        table = table_with()
        counted, refusal = table.step(hello(b"1", "run/a", **change))
        assert counted == Count(f"hello refused: {code}")
        assert heard(refusal)[2].code == code
        assert table.connections == table.addresses == 0

    def test_an_unknown_name_and_a_wrong_secret_get_the_same_answer(self):
        table = table_with()
        answers = [table.step(hello(b"1", **change)) for change in ({"principal": "q"}, {"secret": b"x" * 32})]
        assert answers[0] == answers[1]

    def test_an_envelope_of_another_version_is_told_ours(self):
        table = table_with()
        foreign = b"\x96\x07" + wire.seal(Kind.HELLO, 1, 0, b"")[2:]
        assert heard(table.step(Arrived(b"1", wire.TO_BROKER, foreign))[1])[2].code == "version"

    def test_a_connection_speaks_for_one_life_of_one_principal(self):
        table = table_with(Admit(Principal("q", SECRET, ("run/*",))), hello(b"1", "run/a"))
        for change in ({"principal": "q", "incarnation": b"1111"}, {"incarnation": b"another"}):
            assert heard(table.step(hello(b"1", "run/b", **change))[1])[2].code == "bound"
        assert table.holder("run/b") is None

    def test_a_hello_again_adds_claims(self):
        table = table_with(hello(b"1", "run/a"), hello(b"1", "run/b"))
        assert table.holder("run/a") == table.holder("run/b") == b"1"

    def test_the_shell_looks_at_a_rival_before_it_is_believed_to_live(self):
        table = table_with(hello(b"1", "run/a"))
        event = hello(b"2", "run/a")
        assert table.step(event) == [Check((b"1",), event)]
        table.step(Lost(b"1", "its connection is closed"))
        table.step(hello(b"2", "run/a", settled=True))
        assert table.holder("run/a") == b"2"

    def test_the_same_life_on_a_new_connection_ends_the_old_one(self):
        table = table_with(
            hello(b"1", "run/a", incarnation=b"life"), hello(b"9", "run/z"), letter(b"9", "run/z", "run/a")
        )
        gone, welcome = table.step(hello(b"2", "run/a", incarnation=b"life"))
        assert heard(gone)[:2] == (b"9", "run/z")
        assert heard(welcome)[2].claimed == ("run/a",)
        assert table.step(letter(b"1", "run/a", "run/z")) == [Count("stranger")]

    def test_what_it_was_told_and_has_not_said_back_it_is_told_again_once_and_the_road_stays_closed(self):
        table = table_with(hello(b"1", "run/a", incarnation=b"life"))
        for connection in (b"2", b"3"):
            table.step(hello(connection, "run/b"))
            table.step(letter(connection, "run/b", "run/a"))
            table.step(Lost(connection, "killed"))
        welcome, gone = table.step(hello(b"4", "run/a", incarnation=b"life"))
        assert heard(welcome)[2].claimed == ("run/a",)
        assert heard(gone)[:3] == (b"4", "run/a", Gone("run/b", AWAY))
        [welcome] = table.step(hello(b"5", "run/b"))
        assert heard(welcome)[2].inherited == ("run/b",)
        _, nack = table.step(letter(b"4", "run/a", "run/b"))
        assert heard(nack)[2].code == "gone"
        table.step(gone_heard(b"4", "run/a", "run/b"))
        assert [type(command) for command in table.step(letter(b"4", "run/a", "run/b"))] == [Forward]

    def test_a_connection_has_a_bounded_number_of_addresses(self):
        table = table_with()
        claims = [f"run/{number}" for number in range(ADDRESSES_MAX + 1)]
        for start in range(0, len(claims), 1024):
            [command] = table.step(hello(b"1", *claims[start : start + 1024]))
        assert [refusal.code for refusal in heard(command)[2].refused.values()] == ["limit"]
        assert table.addresses == ADDRESSES_MAX


class TestLetters:
    def test_the_first_letter_opens_a_lane(self):
        table = table_with(hello(b"1", "run/a"), hello(b"2", "run/b"))
        frame = wire.road("run/b", "run/a")
        assert table.step(letter(b"1", "run/a", "run/b")) == [Forward(b"2", b"1", frame, LETTER)]
        assert table.lanes[b"1"] == {frame: b"2"}
        assert table.contacts("run/a") == {"run/b"}
        assert table.contacts("run/b") == {"run/a"}

    @pytest.mark.parametrize(
        ("source", "destination", "code"),
        [
            ("run/a", "run/x", "unknown"),
            ("run/b", "run/a", "source"),
            ("run/x", "run/b", "source"),
            ("", "run/b", "source"),
        ],
    )
    def test_a_letter_that_cannot_go_comes_back_by_its_id(self, source, destination, code):
        table = table_with(hello(b"1", "run/a"), hello(b"2", "run/b"))
        counted, nack = table.step(letter(b"1", source, destination))
        assert counted == Count(f"letter refused: {code}")
        assert wire.unseal(nack.envelope).stream == 77
        connection, address, message, correlation = heard(nack)
        assert (connection, address, correlation) == (b"1", source, 5)
        assert (message.destination, message.code) == (destination, code)
        assert table.lanes[b"1"] == {}

    def test_a_letter_that_the_shell_could_not_send_comes_back_by_its_id(self):
        table = table_with(hello(b"1", "run/a"), hello(b"2", "run/b"))
        _, nack = table.step(Unsent(b"1", wire.road("run/b", "run/a"), LETTER, "full"))
        assert heard(nack)[2:] == (Nack("run/b", "full", "its peer does not read and its queue is full"), 5)

    def test_a_stranger_is_not_heard(self):
        table = table_with(hello(b"2", "run/b"))
        assert table.step(letter(b"1", "run/a", "run/b")) == [Count("stranger")]
        assert table.step(bye(b"1")) == [Count("stranger")]

    @pytest.mark.parametrize(
        ("frame", "envelope"),
        [
            (b"", LETTER),
            (b"no nul", LETTER),
            (b"\xff\0\xff", LETTER),
            (wire.TO_BROKER, b""),
            (wire.TO_BROKER, wire.seal(Kind.HELLO, 1, 0, b"junk")),
            (wire.TO_BROKER, wire.seal(Kind.BYE, 1, 0, b"junk")),
            (wire.road("run/x", "run/a"), b"no header"),
        ],
    )
    def test_what_cannot_be_understood_is_counted(self, frame, envelope):
        table = table_with(hello(b"1", "run/a"))
        assert table.step(Arrived(b"1", frame, envelope)) == [Count("malformed")]

    def test_a_kind_that_is_not_the_brokers_to_hear_is_counted(self):
        table = table_with(hello(b"1", "run/a"))
        for kind in (Kind.DATA, Kind.NACK, Kind.WELCOME, Kind.ACK):
            assert table.step(Arrived(b"1", wire.TO_BROKER, wire.seal(kind, 1, 0, b""))) == [Count("unknown kind")]


class TestHandshake:
    @pytest.mark.parametrize("vouched", ["q", ""])
    def test_a_hello_names_whom_the_handshake_let_in(self, vouched):
        table = table_with()
        said = replace(hello(b"1", "run/a"), vouched=vouched)
        assert heard(table.step(said)[1])[2].code == "principal"
        assert table.connections == 0

    def test_a_key_needs_no_secret_and_is_nothing_without_its_handshake(self):
        table = table_with(Admit(Principal("far", b"", ("run/*",), b"k" * 32)))
        said = hello(b"1", "run/a", principal="far", secret=b"")
        assert heard(table.step(said)[1])[2].code == "principal"
        assert heard(table.step(replace(said, vouched="far"))[0])[2].claimed == ("run/a",)
        [welcome] = table.step(hello(b"1", "run/b", principal="far", secret=b""))
        assert heard(welcome)[2].claimed == ("run/b",)


class TestAfterTheStart:
    def table(self):
        table = Table(holding=True)
        for event in (Admit(Principal("p", SECRET, ("run/*",))), hello(b"1", "run/a")):
            table.step(event)
        return table

    def letter(self, number, destination="run/b"):
        return letter(b"1", "run/a", destination, wire.seal(Kind.DATA, number, 0, b"x"))

    def test_letters_wait_for_their_address_and_come_in_order(self):
        table = self.table()
        for number in range(3):
            assert table.step(self.letter(number)) == [Count(KEPT)]
        _, *commands = table.step(hello(b"2", "run/b"))
        assert [wire.unseal(command.envelope).sequence for command in commands] == [0, 1, 2]
        assert {(type(command), command.target) for command in commands} == {(Forward, b"2")}
        assert table.contacts("run/b") == {"run/a"}
        assert table.step(Settle()) == []

    def test_when_the_moment_is_over_they_come_back(self):
        table = self.table()
        table.step(self.letter(7))
        _, nack = table.step(Settle())
        assert heard(nack)[2:] == (Nack("run/b", "unknown", "nobody has the address"), 7)
        assert table.step(self.letter(8))[0] == Count("letter refused: unknown")

    def test_who_leaves_takes_its_letters_along(self):
        table = self.table()
        table.step(self.letter(7))
        table.step(Lost(b"1", "killed"))
        assert len(table.step(hello(b"2", "run/b"))) == 1

    def test_a_letter_from_anothers_address_does_not_wait(self):
        table = self.table()
        assert table.step(letter(b"1", "run/x", "run/b"))[0] == Count("letter refused: source")


class TestInheritance:
    """The next holder of an address learns whether all have heard of the end of the last one."""

    def inherited(self, table, connection=b"3"):
        *_, command = table.step(hello(connection, "run/b", "run/new"))
        return heard(command)[2].inherited

    @pytest.fixture
    def table(self):
        table = table_with(hello(b"1", "run/a"), hello(b"2", "run/b"), letter(b"1", "run/a", "run/b"))
        table.step(Lost(b"2", "killed"))
        return table

    def test_until_the_last_one_that_is_told_has_said_it_back(self, table):
        assert self.inherited(table) == ("run/b",)
        table.step(gone_heard(b"1", "run/a", "run/b"))
        assert self.inherited(table) == ()

    def test_until_those_who_were_told_are_gone_themselves(self, table):
        table.step(Lost(b"1", "killed"))
        assert self.inherited(table) == ()

    def test_what_is_said_back_and_was_never_told_changes_nothing(self, table):
        for _ in range(2):
            table.step(gone_heard(b"1", "run/a", "run/x"))
        assert self.inherited(table) == ("run/b",)

    def test_an_address_that_is_inherited_counts_as_got_after_the_brokers_life(self):
        welcome = Welcome.decode(Welcome(("run/a", "run/b"), {}, 7, ("run/b",)).encode())
        assert (welcome.since("run/a"), welcome.since("run/b")) == (7, 8)


class TestOffences:
    def test_what_no_peer_of_ours_does_weighs_more_than_what_one_may_do_that_lost_its_place(self):
        table = table_with(hello(b"1", "run/a"))
        weights = [
            table.step(event)[0].offence
            for event in (
                letter(b"1", "run/x", "run/b"),
                hello(b"2", "run/b", secret=b"x" * 32),
                hello(b"1", "desk/x"),
                Arrived(b"1", b"no frame", b""),
                letter(b"9", "run/a", "run/b"),
                letter(b"1", "run/a", "run/nobody"),
            )
        ]
        assert weights == [100, 1000, 100, 100, 10, 1]

    @pytest.mark.parametrize(("claims", "weight"), [(1, 100), (11, 200), (CLAIMS_MAX, 1000)])
    def test_claims_without_a_rule_weigh_more_the_more_there_are_up_to_a_limit(self, claims, weight):
        counted, _ = table_with(hello(b"1")).step(hello(b"1", *(f"desk/{number}" for number in range(claims))))
        assert counted.offence == weight


class TestGone:
    def test_a_lost_connection_is_told_to_those_it_exchanged_letters_with(self):
        table = table_with(
            *(hello(b"1", "run/a"), hello(b"2", "run/b"), hello(b"3", "run/c"), hello(b"4", "run/d")),
            *(letter(b"1", "run/a", "run/b"), letter(b"3", "run/c", "run/a")),
        )
        told = [heard(command) for command in table.step(Lost(b"1", "killed"))]
        assert [(who, address, message.address, message.why) for who, address, message, _ in told] == [
            (b"2", "run/b", "run/a", "killed"),
            (b"3", "run/c", "run/a", "killed"),
        ]
        assert table.lanes == {b"2": {}, b"3": {}, b"4": {}}
        assert table.step(Lost(b"1", "again")) == []

    def test_a_letter_that_crossed_a_gone_does_not_reach_the_next_holder_of_the_address(self):
        table = table_with(hello(b"1", "run/a"), hello(b"2", "run/b"), letter(b"1", "run/a", "run/b"))
        table.step(Lost(b"2", "killed"))
        table.step(hello(b"3", "run/b"))
        _, nack = table.step(letter(b"1", "run/a", "run/b"))
        assert heard(nack)[2].code == "gone"
        table.step(gone_heard(b"1", "run/a", "run/b"))
        assert [type(command) for command in table.step(letter(b"1", "run/a", "run/b"))] == [Forward]

    def test_a_road_is_open_again_when_every_gone_was_said_back(self):
        table = table_with(hello(b"1", "run/a"))
        for connection in (b"2", b"3"):
            table.step(hello(connection, "run/b"))
            table.step(letter(connection, "run/b", "run/a"))
            table.step(Lost(connection, "killed"))
        table.step(hello(b"4", "run/b"))
        for expected in ("letter refused: gone", "letter refused: gone", None):
            commands = table.step(letter(b"1", "run/a", "run/b"))
            assert (commands[0] == Count(expected)) == (expected is not None)
            table.step(gone_heard(b"1", "run/a", "run/b"))

    def test_a_gone_that_was_never_told_may_be_said_back(self):
        table = table_with(hello(b"1", "run/a"))
        assert table.step(gone_heard(b"1", "run/a", "run/b")) == []

    def test_a_closed_address_takes_its_lanes_along_and_leaves_the_others(self):
        table = table_with(
            *(hello(b"1", "run/a", "run/b"), hello(b"2", "run/c")),
            *(letter(b"1", "run/a", "run/c"), letter(b"1", "run/b", "run/c"), letter(b"2", "run/c", "run/a")),
        )
        [gone] = table.step(bye(b"1", "run/a"))
        assert heard(gone)[1] == "run/c"
        assert table.lanes == {b"1": {wire.road("run/c", "run/b"): b"2"}, b"2": {}}

    def test_a_bye_without_addresses_gives_all_up_and_one_for_anothers_address_nothing(self):
        table = table_with(hello(b"1", "run/a", "run/b"), hello(b"2", "run/c"))
        table.step(bye(b"1", "run/c"))
        assert table.addresses == 3
        table.step(bye(b"1"))
        assert table.addresses == 1

    def test_a_forgotten_principal_is_shown_out(self):
        table = table_with(hello(b"1", "run/a"), hello(b"2", "run/b"), letter(b"1", "run/a", "run/b"))
        commands = table.step(Forget("p"))
        told = [heard(command)[2] for command in commands if isinstance(command, Tell)]
        assert [type(message) for message in told] == [Bye, Gone, Bye]
        assert [command for command in commands if isinstance(command, Cut)] == [Cut(b"1"), Cut(b"2")]
        assert table.connections == table.addresses == 0
        assert table.step(Forget("p")) == []

    def test_the_next_holder_of_an_address_hears_nothing_about_its_predecessors_friends(self):
        table = table_with(hello(b"1", "run/a"), hello(b"2", "run/b"), letter(b"1", "run/a", "run/b"))
        table.step(Lost(b"1", "killed"))
        table.step(hello(b"3", "run/a"))
        assert table.step(Lost(b"2", "killed")) == []

    def test_a_life_that_is_over_does_not_end_who_uses_its_connection_later(self):
        table = table_with(hello(b"1", incarnation=b"first"))
        table.step(Lost(b"1", "killed"))
        table.step(hello(b"1", "run/a", incarnation=b"second"))
        table.step(hello(b"2", incarnation=b"first"))
        assert table.holder("run/a") == b"1"


connections = st.sampled_from([b"1", b"2", b"3"])
names = st.sampled_from(["run/a", "run/b", "run/c", "run/d"])
any_names = names | st.just("desk/x")
junk = st.binary(max_size=30)
OPENING = (hello(b"1", "run/a"), hello(b"2", "run/b"), hello(b"3", "run/c", "run/d"))


def said(connection, claims, life, secret, settled):
    return hello(connection, *claims, incarnation=life, secret=secret, settled=settled)


hellos = st.builds(
    said,
    *(connections, st.lists(any_names, max_size=3), st.sampled_from([None, None, None, b"1111"])),
    *(st.sampled_from([SECRET, SECRET, SECRET, b"wrong"]), st.booleans()),
)
letters = st.one_of(
    st.builds(letter, connections, names, any_names),
    st.builds(letter, st.just(b"1"), st.just("run/a"), names),
    st.builds(letter, st.just(b"2"), st.just("run/b"), names),
    st.builds(letter, st.just(b"3"), st.just("run/c"), names),
)
leavings = st.one_of(
    st.builds(lambda connection, addresses: bye(connection, *addresses), connections, st.lists(names, max_size=2)),
    st.builds(Lost, connections, st.just("killed")),
)
orders = st.one_of(
    st.builds(lambda rules: Admit(Principal("p", SECRET, rules)), st.sampled_from([("run/*",), ("run/a", "run/b")])),
    st.builds(Forget, st.just("p")),
)
said_back = st.builds(gone_heard, connections, names, names)
nonsense = st.one_of(
    st.builds(Unsent, connections, junk | st.builds(wire.road, names, names), junk | st.just(LETTER), st.just("full")),
    st.builds(Arrived, connections, junk, junk, st.booleans()),
    st.builds(Arrived, connections, st.just(wire.TO_BROKER), junk),
)
# Letters between living peers are the interesting part, so most events are letters, and few end everything.
events = st.one_of(
    letters,
    letters,
    letters,
    letters,
    letters,
    hellos,
    hellos,
    leavings,
    leavings,
    said_back,
    said_back,
    nonsense,
    orders,
)


class Model:
    """What the rules promise, kept the slow way: who has what, and which letters went between whom."""

    def __init__(self):
        self.table = table_with(*OPENING)
        self.written = set()

    def step(self, event):
        before = {name: self.table.holder(name) for name in ["run/a", "run/b", "run/c", "run/d", "desk/x"]}
        commands = self.table.step(event)
        after = {name: self.table.holder(name) for name in before}
        told = [heard(command) for command in commands if isinstance(command, Tell)]
        gone = {
            (address, message.address)
            for _, address, message, _ in told
            if isinstance(message, Gone) and message.why != AWAY
        }
        left = {name for name in before if before[name] is not None and before[name] != after[name]}
        # An address given up is told to all that wrote to it or had mail from it and are still there; to nobody else.
        due = {(other, name) for name in left for other in self.partners(name) if after[other] is not None}
        stayed = {pair for pair in due if pair[0] not in left}
        assert stayed <= gone <= {(other, name) for name in left for other in self.partners(name)}
        self.written = {pair for pair in self.written if not pair & left}
        for command in commands:
            if isinstance(command, Forward):
                destination, source = wire.ends(command.frame)
                assert after[source] == command.origin
                assert after[destination] == command.target
                self.written.add(frozenset((source, destination)))
        return commands

    def partners(self, name):
        return {other for pair in self.written if name in pair for other in (pair - {name} or {name})}

    def check(self):
        for connection, lanes in self.table.lanes.items():
            for frame, target in lanes.items():
                destination, source = wire.ends(frame)
                assert self.table.holder(source) == connection
                assert self.table.holder(destination) == target
                assert frozenset((source, destination)) in self.written
        assert self.table.connections == len(self.table.lanes)
        assert self.table.holder("desk/x") is None


@settings(max_examples=300)
@given(st.lists(events, min_size=12, max_size=40))
def test_the_rules_hold_after_any_sequence_of_events(sequence):
    model = Model()
    for event in sequence:
        model.step(event)
        model.check()


@given(st.lists(events, min_size=12, max_size=30))
def test_when_all_have_left_nothing_is_kept(sequence):
    table = table_with(*OPENING)
    for event in sequence:
        table.step(event)
    for connection in (b"1", b"2", b"3"):
        table.step(Lost(connection, "end"))
    assert not table._fences
    assert not table._unheard
    assert (table.connections, table.addresses, table.lanes) == (0, 0, {})
    assert all(table.contacts(name) == frozenset() for name in ["run/a", "run/b", "run/c", "run/d"])
