from collections import Counter

from partyctl.nodes import owner_of

NODES = ("node/0", "node/1", "node/2", "node/3")
NAMES = [f"session-{number}" for number in range(400)]


def test_a_name_is_always_at_the_same_node_and_the_names_are_spread() -> None:
    owners = {name: owner_of(name, NODES) for name in NAMES}
    assert owners == {name: owner_of(name, NODES) for name in NAMES}
    assert all(60 < share < 140 for share in Counter(owners.values()).values())


def test_only_what_a_given_up_node_had_goes_elsewhere() -> None:
    for name in NAMES:
        before, after = owner_of(name, NODES), owner_of(name, NODES, {"node/1"})
        assert after != "node/1"
        assert before == after or before == "node/1"


def test_a_name_that_is_no_text_of_a_file_has_a_node_too() -> None:
    assert owner_of("\udcff", NODES) in NODES
