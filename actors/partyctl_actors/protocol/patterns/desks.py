"""Patterns in which it is decided on the way who does the work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from partyctl_actors.errors import ProtocolError
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.nodes import Step, Steps
from partyctl_actors.protocol.patterns.pattern import Pattern, as_role, as_roles, label_of, message
from partyctl_actors.protocol.role import Role
from partyctl_actors.protocol.steps import choose, loop, repeat, send


def triage(
    client: Role | str,
    router: Role | str,
    desks: Mapping[Role | str, str],
    *,
    request: type[Message] | None = None,
    answer: type[Message] | None = None,
) -> Pattern:
    """The router picks the desk that answers the client's request.

    At the end every desk is told that it is over, the one that answered too: so there are three messages per desk in
    the declaration, however many desks there are. Messages: `Request`, `Route<Desk>` for each desk (without a text, to
    the client; the desk's description is its intent), `Brief`, `Answer`, `Closed` (without a text).

    Args:
        desks: each desk and what it is for.

    Raises:
        ProtocolError: no desk, a role twice, or what is given is no message class.
    """
    if not isinstance(desks, Mapping):
        raise ProtocolError("The desks are not a mapping", where="triage()", fix='Write {"Billing": "invoices", ...}')
    asking, routing = as_role(client), as_role(router)
    all_desks = as_roles(desks, "triage()")
    as_roles([asking, routing, *all_desks], "triage()")
    named = {
        "Request": message("Request", "What the client wants.", request),
        "Brief": message("Brief", "What the desk has to know to answer the client."),
        "Answer": message("Answer", "The answer to the client.", answer),
        "Closed": message("Closed", "The request is answered; this desk is done.", text=False),
    }
    routes: dict[type[Message], Steps] = {}
    for desk, description in zip(all_desks, desks.values(), strict=True):
        label = label_of(desk.name, "Route")
        if label in named:
            raise ProtocolError("Two desks would have the same message", where=f"triage(), {desk}", why=label)
        named[label] = message(label, description, text=False)
        routes[named[label]] = [send(routing, desk, named["Brief"]), send(desk, routing, named["Answer"])]
    return Pattern(
        named,
        send(asking, routing, named["Request"]),
        choose(routing, asking, routes),
        send(routing, asking, named["Answer"]),
        [send(routing, desk, named["Closed"]) for desk in all_desks],
    )


def swarm(
    client: Role | str,
    agents: Iterable[Role | str],
    *,
    request: type[Message] | None = None,
    handoff: type[Message] | None = None,
    answer: type[Message] | None = None,
) -> Pattern:
    """The client's request goes round a ring of agents, until the one whose turn it is answers the client.

    The active agent says to the client `Answer`, or `Handoff` and then `Pass` to the next agent; the last one's next is
    the first. After the answer the news goes round the ring, so that everybody knows that it is over: `Closing` to the
    last agent, then `Done` from the first on. So there are about four messages per agent in the declaration, however
    many agents there are.

    Messages: `Request`, `Handoff`, `Pass`, `Answer`, `Closing` and `Done` (without a text).

    Raises:
        ProtocolError: fewer than two agents, a role twice, or what is given is no message class.
    """
    asking, ring = as_role(client), as_roles(agents, "swarm()", least=2)
    as_roles([asking, *ring], "swarm()")
    named = {
        "Request": message("Request", "What the client wants.", request),
        "Handoff": message("Handoff", "Another agent goes on, and why.", handoff),
        "Pass": message("Pass", "What the next agent has to know."),
        "Answer": message("Answer", "The answer to the client.", answer),
        "Closing": message("Closing", "There is an answer; pass it on.", text=False),
        "Done": message("Done", "There is an answer; pass it on, and you are done.", text=False),
    }
    last = len(ring) - 1
    # `Closing` and `Done` are two messages, so that an agent after the one that answered knows that it hears twice.
    closing: Step = choose(
        ring[last], ring[0], {named["Done"]: [send(ring[i], ring[i + 1], named["Done"]) for i in range(last)]}
    )
    turn: Steps = repeat()
    for i in range(last, -1, -1):
        following = ring[(i + 1) % len(ring)]
        handed = [send(ring[i], following, named["Pass"]), turn]
        if i < last:
            closing = choose(ring[i], following, {named["Closing"]: closing})
        turn = choose(ring[i], asking, {named["Answer"]: closing, named["Handoff"]: handed})
    return Pattern(named, send(asking, ring[0], named["Request"]), loop(turn))
