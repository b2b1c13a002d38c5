"""Which confinement a worker gets, decided before anything starts.

A guarantee that cannot be enforced is a refusal that names it, never a warning.
"""

from typing import Final

from partyctl_confinement.errors import ConfinementRefused

UNCONFINED: Final = "unconfined"
"""What `status` and a run say of a worker with no more than the launcher's own hygiene."""

_MISSING: Final = {
    "strict": "no mount, process and network namespaces, Landlock rules and system call filter",
    "light": "no Landlock rules and system call filter",
}


def resolve(setting: str | None) -> str:
    """The confinement that a worker with this setting runs under.

    Args:
        setting: the configured word; None if it was omitted.

    Returns:
        "unconfined" for an omitted setting and for "none".

    Raises:
        ConfinementRefused: the setting names guarantees that this version cannot enforce, or is no setting at all.
    """
    if setting is None or setting == "none":
        return UNCONFINED
    if setting in _MISSING:
        raise ConfinementRefused(
            f'confinement "{setting}" cannot be enforced here',
            why=f"this version puts {_MISSING[setting]} around a worker",
            fix='Set confinement = "none" to run the worker unconfined, or leave it out',
        )
    raise ConfinementRefused(
        f'"{setting}" is not a confinement',
        why=f"the settings are {', '.join((*sorted(_MISSING), 'none'))}",
        fix='Set confinement = "none" to run the worker unconfined, or leave it out',
    )
