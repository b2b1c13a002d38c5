"""The root of every error that partyctl raises.

PartyError
├─ ChannelClosed, ChannelFault      base: the other end of a channel is gone, or sent what no peer of ours sends
├─ PathError                        base: a directory or socket path that cannot be used
├─ BusError ...                     partyctl_broker.errors
├─ ConfinementError ...             partyctl_confinement.errors
├─ AgentSessionError ...            partyctl_plugins.errors
├─ ProtocolError, SessionError ...  partyctl_actors.errors
└─ ConfigError, HostError ...       partyctl.errors
"""

import copyreg
from typing import ClassVar, Literal

Whose = Literal["caller", "peer", "provider", "worker", "machine", "ours"]


class PartyError(Exception):
    """An error a person can act on: what happened, where, why, and what to do.

    Args:
        what: what happened, as a sentence without its full stop.
        where: the file, role, address or step it concerns.
        why: the cause, as far as it is known.
        fix: what the reader can do now.
    """

    whose: ClassVar[Whose] = "ours"
    """Whose doing it was; a subclass says so once for all its instances."""

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        cause = f": {self.why}" if self.why else ""
        remedy = f". {self.fix}" if self.fix else ""
        return f"{self.what}{place}{cause}{remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        # Not by its constructor, whose arguments are others in each class: a pool of processes would break over it.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


def text_of(error: BaseException) -> str:
    """What an error says; it may be somebody else's, and so may its `__str__`."""
    try:
        return str(error)
    except Exception as failed:
        return f"(its text cannot be read: {type(failed).__name__})"
