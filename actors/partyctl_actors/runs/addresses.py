"""Where the actors of a run are found on the bus."""

from __future__ import annotations

from partyctl_actors.protocol.role import Role


def conductor_address(run_id: str) -> str:
    """The address of a run's conductor."""
    return f"run/{run_id}"


def role_address(run_id: str, role: Role) -> str:
    """The address of the actor that plays `role` in a run."""
    return f"run/{run_id}/{role.name}"


def deputy_address(run_id: str, role: Role) -> str:
    """The address of the deputy of a role that is played elsewhere.

    It is not the role's, because in a hosted run the role actor that asks the deputy is at the broker as well.
    """
    return f"{role_address(run_id, role)}/deputy"
