"""Where the actors of a run are found on the bus."""

from __future__ import annotations

from partyctl_actors.protocol.role import Role


def conductor_address(run_id: str) -> str:
    """The address of a run's conductor."""
    return f"run/{run_id}"


def role_address(run_id: str, role: Role) -> str:
    """The address of the actor that plays `role` in a run."""
    return f"run/{run_id}/{role.name}"
