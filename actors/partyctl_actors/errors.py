"""Every error of the actors' floor, under the one root `PartyError`.

PartyError
├─ ProtocolError              the declaration is wrong, before anything runs
│  ├─ ProjectionError         a role could not follow the protocol from what it sees
│  ├─ ConformanceError        a participant does not fit the role it was cast for
│  └─ ProtocolMismatch        a record or a peer belongs to another protocol
├─ SessionError               a run could not go on
│  ├─ AllowanceExceeded       a limit of the allowance was reached
│  ├─ SelectionError          a role said what was not on offer
│  ├─ DeadlineExceeded        a role did not speak within its time
│  ├─ JournalError            a decision could not be recorded or read back
│  └─ Cancelled               the run was cancelled
├─ ContentError               the fields of a message do not fit its declaration
└─ ModelError                 a model gave no usable answer
   ├─ ModelNotFound           there is no model of this name here
   ├─ ModelUnavailable        the model cannot answer now; later it may
   └─ ModelRefused            the model will not answer this, now or later
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from partyctl_base.errors import PartyError, Whose

if TYPE_CHECKING:
    from partyctl_actors.protocol.nodes import Step
    from partyctl_actors.protocol.role import Role

    Run = tuple[tuple[str, str, str], ...]


class ProtocolError(PartyError):
    """The declaration of a protocol, role or message is wrong."""

    whose: ClassVar[Whose] = "caller"


class ProjectionError(ProtocolError):
    """A role could not follow the protocol from the messages it sees.

    Args:
        what: what happened, as a sentence without its full stop.
        role: the role that could not follow; None when no single role is at fault.
        where: the choice that the role does not see, as "A -> B", or the call that asked, as "ask()".
        recipe: the change to the protocol that cures it.
        why: what the role would have to do in either case.
        runs: two runs that look the same to the role and ask different things of it; a run is a tuple of messages, a
            message (sender, receiver, label). What other branches of a `par` do meanwhile is left out.
        rule: the rule that was broken, where a cleverer judge might have let the protocol pass; else "".
    """

    def __init__(
        self,
        what: str,
        *,
        role: Role | None = None,
        where: str = "",
        recipe: str = "",
        why: str = "",
        runs: tuple[Run, ...] = (),
        rule: str = "",
    ) -> None:
        super().__init__(what, where=where, why=why, fix=recipe)
        self.role = role
        self.recipe = recipe
        self.runs = runs
        self.rule = rule
        self.declared: tuple[Step, ...] = ()
        """The steps that were refused, for `check`; empty if the error is about something else."""


class ConformanceError(ProtocolError):
    """A participant does not fit the role it was cast for.

    Args:
        what, where, why: as for every `PartyError`.
        role: the role; None when it is not about a single one.
        fix: what to do, also as `recipe`.
    """

    def __init__(self, what: str, *, role: Role | None = None, where: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(what, where=where, why=why, fix=fix)
        self.role = role
        self.recipe = fix


class ProtocolMismatch(ProtocolError):
    """A record or a peer belongs to another protocol than the one at hand."""


class SessionError(PartyError):
    """A run could not go on."""

    whose: ClassVar[Whose] = "caller"


class AllowanceExceeded(SessionError):
    """A limit of the allowance was reached, so the next unit of work was not begun.

    Args:
        limit: the limit's name: "steps", "unfoldings", "tokens" or "wall_clock".
        spent: what had been spent before the refusal (steps, unfoldings, tokens, or seconds).
        allowed: the limit itself, in the same unit.
        where: the step that was refused, where that is known.
    """

    def __init__(self, limit: str, spent: float, allowed: float, *, where: str = "") -> None:
        super().__init__(
            f"The allowance of {limit} is used up",
            where=where,
            why=f"{_figure(spent)} of {_figure(allowed)} spent",
            fix=f"Raise Allowance({limit}=...), or let the protocol end sooner",
        )
        self.limit = limit
        self.spent = spent
        self.allowed = allowed


def _figure(amount: float) -> str:
    return f"{amount:.3g}" if isinstance(amount, float) else str(amount)


class SelectionError(SessionError):
    """A role said what was not on offer."""

    whose: ClassVar[Whose] = "peer"


class DeadlineExceeded(SessionError):
    """A role did not speak within the time its step allows."""

    whose: ClassVar[Whose] = "peer"


class JournalError(SessionError):
    """A decision could not be recorded, or a record could not be read back."""

    whose: ClassVar[Whose] = "machine"


class Cancelled(SessionError):
    """The run was cancelled before its end."""


class ContentError(PartyError):
    """The fields of a message do not fit its declaration.

    `problems` holds one line per field that does not fit.
    """

    whose: ClassVar[Whose] = "peer"

    def __init__(
        self, what: str, *, where: str = "", why: str = "", fix: str = "", problems: tuple[str, ...] = ()
    ) -> None:
        super().__init__(what, where=where, why=why, fix=fix)
        self.problems = problems


class ModelError(PartyError):
    """A model gave no usable answer."""

    whose: ClassVar[Whose] = "provider"


class ModelNotFound(ModelError):
    """There is no model of this name here: the name is wrong, its client library is missing, or it has no key."""

    whose: ClassVar[Whose] = "caller"


class ModelUnavailable(ModelError):
    """A model cannot answer now: it is overloaded, limits its callers, or cannot be reached. Asking again may help.

    `retry_after` holds the seconds after which its service wants to be asked again; None if it did not say.
    """

    def __init__(
        self, what: str, *, where: str = "", why: str = "", fix: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(what, where=where, why=why, fix=fix)
        self.retry_after = retry_after


class ModelRefused(ModelError):
    """A model will not answer this request; asking again does not help."""
