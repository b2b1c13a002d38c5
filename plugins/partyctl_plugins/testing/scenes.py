"""What a contract asks a provider to do in a turn, so that it can look at how its conversation bears it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from partyctl_plugins.contract import Conversation, FailureKind


@dataclass(frozen=True, slots=True)
class Says:
    """The turn answers with this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Streams:
    """The turn tells these pieces of its answer, each by an event of its own and in this order, and then ends."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stalls:
    """The turn tells at least one event and then goes on until it is interrupted."""


@dataclass(frozen=True, slots=True)
class Fails:
    """The provider fails the turn, in this way."""

    kind: FailureKind


@dataclass(frozen=True, slots=True)
class Dies:
    """What the transport talks to is gone in the middle of the turn, without a word."""


Act: TypeAlias = Says | Streams | Stalls | Fails | Dies


@dataclass(frozen=True, slots=True)
class Scene:
    """A conversation whose coming turns do what was asked, one after another.

    Attributes:
        conversation: open, and no turn of it has run.
        prompts: what to ask in each of those turns, where it is the prompt that decides; the contract's `prompt` for
            turns that are left out.
    """

    conversation: Conversation
    prompts: Sequence[str] = field(default=())
