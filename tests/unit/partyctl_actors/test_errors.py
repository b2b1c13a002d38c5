import pytest

from partyctl_actors import errors
from partyctl_actors.protocol import Role
from partyctl_base.errors import PartyError


def test_every_error_is_under_the_one_root_and_drawn_in_the_tree() -> None:
    classes = [
        value for value in vars(errors).values() if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    assert len(classes) == 15
    for kind in classes:
        assert issubclass(kind, PartyError)
        assert f" {kind.__name__} " in (errors.__doc__ or "")


@pytest.mark.parametrize(
    ("limit", "spent", "allowed", "shown"),
    [
        ("steps", 0, 0, "0 of 0"),
        ("tokens", 1_200_000, 1_000_000, "1200000 of 1000000"),
        ("wall_clock", 10.0421, 10.0, "10 of 10"),
    ],
)
def test_an_exceeded_allowance_tells_what_was_spent(limit: str, spent: float, allowed: float, shown: str) -> None:
    error = errors.AllowanceExceeded(limit, spent, allowed)
    assert (error.limit, error.spent, error.allowed) == (limit, spent, allowed)
    assert limit in str(error)
    assert f"{shown} spent" in str(error)


def test_a_projection_error_carries_role_place_and_recipe() -> None:
    error = errors.ProjectionError("C cannot know", role=Role("C"), where="A -> B", recipe="Tell C", why="it is blind")
    assert (error.role, error.where, error.recipe) == (Role("C"), "A -> B", "Tell C")
    assert str(error) == "C cannot know (A -> B): it is blind. Tell C"
