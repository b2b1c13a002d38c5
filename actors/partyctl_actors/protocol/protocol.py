"""A protocol: a closed declaration that every role can follow."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType

from partyctl_actors.errors import ProjectionError, ProtocolError
from partyctl_actors.protocol.compiler import compile_steps
from partyctl_actors.protocol.graph import Flow
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.nodes import Composite, Exchange, Loop, Par, Repeat, Row, Step, Steps, facts
from partyctl_actors.protocol.projection import Projector, View
from partyctl_actors.protocol.role import Role
from partyctl_actors.protocol.rows import fold, roles_of, steps_in_order
from partyctl_actors.protocol.schema import describe, with_nested
from partyctl_actors.protocol.steps import sequence
from partyctl_actors.protocol.text import as_text

_DIGEST_DOMAIN = "partyctl.protocol/v1"


class Protocol(Composite):
    """Who may say what to whom: steps, closed and checked, as a value.

    Two protocols are equal if the same was declared: steps, times, and labels, intents, fields and types of the
    messages. The order of the branches of a choice does not matter, nor which Python classes the messages are.

    Written among the steps of another protocol it means its steps.

    Args:
        steps: what `send`, `choose`, `loop`, `repeat`, `par` and `stop` made, protocols, and rows of them.

    Raises:
        ProtocolError: no message, a `repeat` outside its loop, or two message classes of one label.
        ProjectionError: a role could not follow it from what it sees.
    """

    __slots__ = ("_digest", "_views", "flow", "messages", "roles", "steps")

    steps: tuple[Step, ...]
    flow: Flow
    roles: tuple[Role, ...]
    messages: Mapping[str, type[Message]]

    def __init__(self, *steps: Steps) -> None:
        self.steps = sequence(steps, "Protocol()")
        if not self.steps:
            raise ProtocolError("A protocol needs steps", where="Protocol()", fix="Write Protocol(send(...), ...)")
        _check_closed(self.steps)
        self.roles = roles_of(self.steps)
        if not self.roles:
            raise ProtocolError("A protocol needs a message", where="Protocol()", fix="Write Protocol(send(...), ...)")
        kinds: dict[type[Message], None] = {}
        for step in steps_in_order(self.steps):
            if isinstance(step, Exchange):
                kinds.update((kind, None) for kind, _ in step.branches)
        with_nested(kinds)
        self.messages = MappingProxyType({kind.label: kind for kind in kinds})
        self.flow = compile_steps(self.steps)
        projector = Projector(self.flow)
        try:
            self._views = {role: projector.view(role) for role in self.roles}
        except ProjectionError as error:
            error.declared = self.steps
            raise
        self._digest: str | None = None

    @property
    def id(self) -> str:
        """32 hexadecimal digits that depend on all that equality depends on, and on nothing else."""
        if self._digest is None:
            self._digest = _digest(self)
        return self._digest

    def view(self, role: Role) -> View:
        """The view of one role.

        Raises:
            ProjectionError: the protocol has no such role.
        """
        view = self._views.get(role)
        if view is None:
            raise ProjectionError(
                f"The protocol has no role {role}", role=role, recipe=f"Its roles are {', '.join(map(str, self.roles))}"
            )
        return view

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Protocol) and self.id == other.id)

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return as_text(self.steps)

    def __repr__(self) -> str:
        return f"<Protocol {self.id[:8]} of {', '.join(map(str, self.roles))}>"


def _check_closed(steps: Row) -> None:
    """Refuse a `repeat` whose loop is not around it."""
    free = facts(steps).free
    if not free:
        return
    name = min(free)
    if not name:
        raise ProtocolError("repeat() is outside a loop", where="Protocol()", fix="Put it into loop(...)")
    names = [step.name for step in steps_in_order(steps) if isinstance(step, Loop) and step.name]
    near = difflib.get_close_matches(name, names, n=1)
    raise ProtocolError(
        f"repeat({name!r}) is not inside a loop of that name",
        where="Protocol()",
        fix=f"Did you mean {near[0]!r}?" if near else f"Put it into loop(..., name={name!r})",
    )


def _digest(protocol: Protocol) -> str:
    messages = {label: describe(kind) for label, kind in with_nested(protocol.messages.values()).items()}
    steps: str = fold(protocol.steps, _row_digest)
    return _hash([_DIGEST_DOMAIN, messages, steps])


def _row_digest(row: Row, inner: Callable[[Row], str]) -> str:
    return _hash([_step_content(step, inner) for step in row])


def _step_content(step: Step, inner: Callable[[Row], str]) -> object:
    if isinstance(step, Loop):
        return ["loop", inner(step.body), *([step.name] if step.name else [])]
    if isinstance(step, Repeat):
        return ["repeat", *([step.target] if step.target else [])]
    if isinstance(step, Par):
        return ["par", [inner(branch) for branch in step.branches]]
    if not isinstance(step, Exchange):
        return ["stop"]
    branches = sorted((kind.label, inner(branch) if branch else "") for kind, branch in step.branches)
    return ["exchange", step.sender.name, step.receiver.name, repr(step.within), branches]


def _hash(content: object) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]
