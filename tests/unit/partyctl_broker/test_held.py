from partyctl_broker import held, wire
from partyctl_broker.held import Held, Waiting


def letter(destination="run/b", source="run/a", envelope=b"x", connection=b"1"):
    return Waiting(connection, wire.road(destination, source), envelope)


def test_letters_wait_in_the_order_they_came_and_are_taken_once():
    store = Held()
    letters = [letter(envelope=b"%d" % number) for number in range(3)]
    assert all(store.keep("run/b", one) for one in letters)
    assert store.keep("run/c", letter("run/c"))
    assert (len(store), store.take("run/b"), store.take("run/b"), len(store)) == (4, letters, [], 1)


def test_what_does_not_fit_is_not_kept(monkeypatch):
    monkeypatch.setattr(held, "LETTERS_MAX", 2)
    store = Held()
    assert [store.keep("run/b", letter()) for _ in range(3)] == [True, True, False]


def test_room_is_counted_in_bytes_too_and_comes_back(monkeypatch):
    monkeypatch.setattr(held, "BYTES_MAX", 10)
    store = Held()
    assert store.keep("run/b", letter(envelope=bytes(10)))
    assert not store.keep("run/b", letter())
    store.take("run/b")
    assert store.keep("run/b", letter())


def test_who_gives_its_address_up_takes_its_letters_along():
    store = Held()
    stays = letter(source="run/aa")
    for one in (letter(), stays, letter("run/c")):
        store.keep(wire.ends(one.frame)[0], one)
    store.drop_from("run/a")
    assert store.take_some(9) == [stays]
    assert len(store) == 0


def test_some_of_what_waits_is_taken_in_the_order_it_came():
    store = Held()
    letters = [letter(f"run/{place}", envelope=b"%d" % number) for place in "ab" for number in range(2)]
    for one in letters:
        store.keep(wire.ends(one.frame)[0], one)
    assert store.take_some(3) == letters[:3]
    assert "run/a" not in store
    assert "run/b" in store
    assert (len(store), store.take_some(3), len(store)) == (1, letters[3:], 0)
