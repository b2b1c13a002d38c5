"""A caller: one opening message, and then listening, or a person who says the rest."""

from __future__ import annotations

from collections.abc import Awaitable

from partyctl_actors.errors import ConformanceError, ProjectionError
from partyctl_actors.participants.human import Human
from partyctl_actors.participants.interface import Offer, Player, Seat
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.projection import EndState, ReceiveState, SendState, View
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role
from partyctl_actors.transcript import Envelope

_INSTEAD = "If it says more than one opening message, cast it with a Human at a Desk and use start()"


class Opened:
    """Says `opening`, and then what `human` says."""

    def __init__(self, opening: Message, human: Human) -> None:
        self.opening = opening
        self.human = human

    def bind(self, seat: Seat) -> _Opener:
        """See `Participant.bind`."""
        return _Opener(self.opening, self.human.bind(seat))


class _Opener:
    def __init__(self, opening: Message, player: Player) -> None:
        self._opening: Message | None = opening
        self._player = player
        self.hear = player.hear
        self.cancel = player.cancel
        self.close = player.close

    def author(self, offer: Offer) -> Message | Awaitable[Message]:
        opening, self._opening = self._opening, None
        return self._player.author(offer) if opening is None else opening

    def recall(self, envelope: Envelope) -> None:
        self._opening = None
        self._player.recall(envelope)


def check_opening(protocol: Protocol, role: Role, opening: Message, *, where: str, more: bool = False) -> None:
    """See that `role` begins with exactly this kind of message and then only listens.

    Args:
        where: the call that asks, such as "ask()".
        more: whether it may have others to choose from, and may go on to speak.

    Raises:
        ConformanceError: the protocol has no such role.
        TypeError: the opening is not a message.
        ProjectionError: the role does otherwise.
    """
    if role not in protocol.roles:
        raise ConformanceError(
            f"The protocol has no role {role}", where=where, why=f"its roles are {', '.join(map(str, protocol.roles))}"
        )
    if not isinstance(opening, Message):
        raise TypeError(f"{where}: the opening is a message such as Question('why?'), not {opening!r:.100}")
    view = protocol.view(role)
    first = view.states[view.start]
    if not isinstance(first, SendState):
        raise _refusal(role, where, f"{role} does not speak first")
    offered = [protocol.messages[label] for label in first.arms]
    if type(opening) not in offered or (len(offered) > 1 and not more):
        why = f"{role} opens with {' or '.join(first.arms)}, not with {type(opening).__name__}"
        raise _refusal(role, where, why, "Open with the message that the protocol begins with")
    if more:
        return
    if any(isinstance(state, SendState) for number, state in enumerate(view.states) if number != view.start):
        raise _refusal(role, where, f"{role} speaks more than once")
    if view.start in _after(view):
        raise _refusal(role, where, f"{role} speaks again in each turn of a loop")


def check_expected(protocol: Protocol, role: Role, expect: type[Message], *, where: str) -> None:
    """See that a message of class `expect` can reach `role`.

    Raises:
        ProjectionError: it never can.
    """
    states = protocol.view(role).states
    heard = {protocol.messages[label] for state in states if isinstance(state, ReceiveState) for label in state.arms}
    if expect not in heard:
        labels = ", ".join(sorted(kind.label for kind in heard)) or "nothing"
        name = getattr(expect, "__name__", repr(expect))
        raise ProjectionError(
            f"{role} can never be told {name}",
            role=role,
            where=where,
            why=f"it is told {labels}",
            recipe="Expect one of these",
        )


def _after(view: View) -> set[int]:
    """The states that some message leads to."""
    return {after for state in view.states if not isinstance(state, EndState) for after in state.arms.values()}


def _refusal(role: Role, where: str, why: str, recipe: str = _INSTEAD) -> ProjectionError:
    return ProjectionError(
        f"{role} cannot be played by one opening message", role=role, where=where, why=why, recipe=recipe
    )
