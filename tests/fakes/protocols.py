"""Random protocols that every role can follow."""

from __future__ import annotations

from random import Random

from fakes.runs import A, B, C, Notice, Ping, Pong, Stop

from partyctl_actors.errors import ProjectionError
from partyctl_actors.protocol import Message, Protocol, Step, choose, loop, repeat, send

ROLES = (A, B, C)
KINDS: tuple[type[Message], ...] = (Ping, Pong, Stop, Notice)


def steps(random: Random, depth: int, *, last: bool = False) -> list[Step]:
    """A row of random steps; `last` says that it may go back to the head of a loop."""
    row: list[Step] = []
    for _ in range(random.randint(1, 3)):
        sender, receiver = random.sample(ROLES, 2)
        if depth and random.random() < 0.3:
            row.append(loop(*steps(random, depth - 1, last=True)))
            if not row[-1].falls_through:
                return row
        elif random.random() < 0.5:
            row.append(send(sender, receiver, random.choice(KINDS)))
        else:
            kinds = random.sample(KINDS, 2)
            again = [repeat()] if last else []
            row.append(choose(sender, receiver, {kinds[0]: again, kinds[1]: []}))
    return row


def accepted(random: Random) -> Protocol:
    """The first random protocol that every role can follow."""
    while True:
        try:
            return Protocol(*steps(random, 2))
        except ProjectionError:
            continue
