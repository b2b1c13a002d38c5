import pytest

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol import Role, roles


def test_two_roles_of_one_name_are_the_same_role() -> None:
    assert Role("Writer") == Role("Writer")
    assert len({Role("Writer"), Role("Writer"), Role("Reader")}) == 2


def test_roles_come_in_the_order_of_their_names() -> None:
    first, second = roles("Writer", "Редактор 📝")
    assert (first.name, str(second)) == ("Writer", "Редактор 📝")


@pytest.mark.parametrize("name", ["", " ", " Writer", "a/b", "*", "a\0b", "a\nb", "\ud800", "x" * 101])
def test_a_name_that_no_address_can_hold_is_refused(name: str) -> None:
    with pytest.raises(ProtocolError, match="cannot name a role"):
        Role(name)


def test_something_other_than_text_is_refused_as_a_name() -> None:
    with pytest.raises(ProtocolError, match="is text, not int"):
        Role(5)  # type: ignore[arg-type]


def test_the_same_name_twice_is_refused_by_name() -> None:
    with pytest.raises(ProtocolError, match=r"same name \(B\)"):
        roles("A", "B", "B")


def test_no_name_at_all_is_refused() -> None:
    with pytest.raises(ProtocolError, match="at least one name"):
        roles()
