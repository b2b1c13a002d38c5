"""Everything that can be said of a protocol before it is run, in one report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partyctl_actors.errors import ProjectionError, ProtocolError
from partyctl_actors.protocol.compiler import compile_steps
from partyctl_actors.protocol.exits import Finding, exits
from partyctl_actors.protocol.exploration import explore
from partyctl_actors.protocol.mermaid_sequence import as_sequence
from partyctl_actors.protocol.nodes import Composite, Row, Step, Steps
from partyctl_actors.protocol.projection import Projector, View
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.render import view_as_text
from partyctl_actors.protocol.role import Role
from partyctl_actors.protocol.rows import roles_of
from partyctl_actors.protocol.steps import sequence
from partyctl_actors.protocol.text import as_text


@dataclass(frozen=True, slots=True)
class RoleVerdict:
    """Whether one role can follow the protocol: its view if so, why not otherwise."""

    role: Role
    view: View | None
    refusal: ProjectionError | None

    def __str__(self) -> str:
        if self.view is not None:
            return view_as_text(self.view)
        return f"{self.role}, refused"


@dataclass(frozen=True, slots=True)
class Report:
    """What `check` found.

    Attributes:
        protocol: the protocol; None if it was refused, or if there is none and views were checked.
        roles: the verdict for each role, in the order in which they are first written.
        findings: errors first, then warnings.
        steps: what was declared; empty if it makes no sense to draw it.
    """

    protocol: Protocol | None
    roles: tuple[RoleVerdict, ...]
    findings: tuple[Finding, ...]
    steps: Row = ()

    @property
    def ok(self) -> bool:
        """Whether it can be run; warnings do not count."""
        return all(finding.level != "error" for finding in self.findings)

    def __str__(self) -> str:
        diagram = ["", self.diagram()] if self.steps else []
        return "\n".join([self.verdict(), *diagram, *(f"\n{verdict}" for verdict in self.roles)])

    def verdict(self) -> str:
        """Whether it is accepted, and the findings, one a line."""
        first = "accepted" if self.ok else "refused"
        if self.protocol is not None:
            first += f", {self.protocol.id}"
        return "\n".join([first, *map(str, self.findings)])

    def diagram(self, *, mermaid: bool = False) -> str:
        """What was declared, accepted or not, as text or as a Mermaid sequence diagram; "" if it cannot be drawn."""
        if not self.steps:
            return ""
        return as_sequence(self.steps, roles_of(self.steps), None) if mermaid else as_text(self.steps)


def check(protocol: Protocol | Steps | ProtocolError) -> Report:
    """All verdicts about a protocol, or about steps that were not made one because they would be refused.

    Unlike making a `Protocol`, which raises the first refusal, this goes on to the other roles. It takes that refusal
    too, for the steps that it was raised for.

    Raises:
        ProtocolError: what is given is not made of steps.
    """
    if isinstance(protocol, Protocol):
        return _accepted(protocol)
    if isinstance(protocol, ProjectionError) and protocol.declared:
        return _refused(protocol.declared)
    if isinstance(protocol, ProtocolError):
        return _malformed(protocol)
    try:
        return _accepted(Protocol(protocol))
    except ProjectionError:
        return _refused(sequence(_steps(protocol), "check()"))
    except ProtocolError as error:
        if not isinstance(protocol, (Step, Composite, list, tuple)):
            raise
        return _malformed(error)


def check_views(views: Sequence[View]) -> Report:
    """Whether roles that follow these views, which no protocol was the source of, get to the end together.

    Args:
        views: one of each role, such as endpoints from elsewhere.

    Raises:
        ProtocolError: two of them are of one role.
    """
    twice = [view.role for view in views if sum(other.role == view.role for other in views) > 1]
    if twice:
        raise ProtocolError("A role has one view", why=f"{twice[0]} has two", fix="Leave one of them out")
    verdicts = tuple(RoleVerdict(view.role, view, None) for view in views)
    found = explore(views)
    if found.trouble is not None:
        after = f"after {', '.join(map(str, found.witness))}" if found.witness else "at the start"
        finding = Finding("error", found.trouble, found.what, after, found.roles[0] if len(found.roles) == 1 else None)
    elif not found.complete:
        what = f"more can happen than was looked at, {found.situations} situations"
        finding = Finding("error", "unbounded", what, recipe="Declare a protocol, whose check has no such bound")
    else:
        return Report(None, verdicts, ())
    return Report(None, verdicts, (finding,))


def _steps(given: Steps) -> Steps:
    return given.steps if isinstance(given, Composite) else given


def _accepted(protocol: Protocol) -> Report:
    verdicts = tuple(RoleVerdict(role, protocol.view(role), None) for role in protocol.roles)
    return Report(protocol, verdicts, tuple(exits(protocol)), protocol.steps)


def _malformed(error: ProtocolError) -> Report:
    role = error.role if isinstance(error, ProjectionError) else None
    what = f"{error.what}: {error.why}" if error.why else error.what
    return Report(None, (), (Finding("error", "malformed", what, error.where, role, error.fix),))


def _refused(steps: tuple[Step, ...]) -> Report:
    projector = Projector(compile_steps(steps))
    verdicts: list[RoleVerdict] = []
    findings: list[Finding] = []
    for role in roles_of(steps):
        try:
            verdicts.append(RoleVerdict(role, projector.view(role), None))
        except ProjectionError as error:
            verdicts.append(RoleVerdict(role, None, error))
            findings.append(
                Finding("error", "projection", f"{error.what}: {error.why}", error.where, role, error.recipe)
            )
    return Report(None, tuple(verdicts), tuple(findings), steps)
