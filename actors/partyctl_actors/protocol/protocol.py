"""A protocol: a closed declaration that every role can follow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType

from partyctl_actors.errors import ProjectionError, ProtocolError
from partyctl_actors.protocol.graph import Graph, compile_steps
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.projection import Projector, View
from partyctl_actors.protocol.role import Role
from partyctl_actors.protocol.rows import Row, fold, steps_in_order
from partyctl_actors.protocol.schema import describe, with_nested
from partyctl_actors.protocol.steps import Exchange, Loop, Step, Steps, has_free_repeat, sequence
from partyctl_actors.protocol.text import as_text

_DIGEST_DOMAIN = "partyctl.protocol/v1"


class Protocol:
    """Who may say what to whom: steps, closed and checked, as a value.

    Two protocols are equal if the same was declared: steps, times, and labels, intents, fields and types of the
    messages. The order of the branches of a choice does not matter, nor which Python classes the messages are.

    Args:
        steps: what `send`, `choose`, `loop` and `repeat` made; rows of steps are flattened.

    Raises:
        ProtocolError: no steps, a `repeat` outside a loop, or two message classes of one label.
        ProjectionError: a role could not follow it from what it sees.
    """

    __slots__ = ("_digest", "_views", "graph", "messages", "roles", "steps")

    steps: tuple[Step, ...]
    graph: Graph
    roles: tuple[Role, ...]
    messages: Mapping[str, type[Message]]

    def __init__(self, *steps: Steps) -> None:
        self.steps = sequence(steps, "Protocol()")
        if not self.steps:
            raise ProtocolError("A protocol needs steps", where="Protocol()", fix="Write Protocol(send(...), ...)")
        if has_free_repeat(self.steps):
            raise ProtocolError("repeat() is outside a loop", where="Protocol()", fix="Put it into loop(...)")
        roles: dict[Role, None] = {}
        kinds: dict[type[Message], None] = {}
        for step in steps_in_order(self.steps):
            if isinstance(step, Exchange):
                roles.update({step.sender: None, step.receiver: None})
                kinds.update((kind, None) for kind, _ in step.branches)
        self.roles = tuple(roles)
        with_nested(kinds)
        self.messages = MappingProxyType({kind.label: kind for kind in kinds})
        self.graph = compile_steps(self.steps)
        projector = Projector(self.graph)
        self._views = {role: projector.view(role) for role in self.roles}
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


def _digest(protocol: Protocol) -> str:
    messages = {label: describe(kind) for label, kind in with_nested(protocol.messages.values()).items()}
    steps: str = fold(protocol.steps, _row_digest)
    return _hash([_DIGEST_DOMAIN, messages, steps])


def _row_digest(row: Row, inner: Callable[[Row], str]) -> str:
    return _hash([_step_content(step, inner) for step in row])


def _step_content(step: Step, inner: Callable[[Row], str]) -> object:
    if isinstance(step, Loop):
        return ["loop", inner(step.body)]
    if not isinstance(step, Exchange):
        return ["repeat"]
    branches = sorted((kind.label, inner(branch) if branch else "") for kind, branch in step.branches)
    return ["exchange", step.sender.name, step.receiver.name, repr(step.within), branches]


def _hash(content: object) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]
