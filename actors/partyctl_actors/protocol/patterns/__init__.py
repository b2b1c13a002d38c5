"""Ready protocols, as functions of the roles that take part.

Each returns a `Pattern`: a protocol whose message classes are its attributes.

    review = patterns.review_loop("Reader", "Writer", "Reviewer")
    session = Session(review, {Role("Reader"): Script([review.Task("a poem")]), ...})

Roles may be given as roles or by name. The message classes are made by the pattern, with one field `text: str` or, if
they only signal, none; a class of your own takes the place of one of them where there is an argument for it.
A pattern is a value like any other protocol: it can be a step of a larger one.

request_reply   a question, an answer
review_loop     a draft goes back to its author until the reviewer approves
approval_gate   a proposal, approved or denied, before its result is delivered
pipeline        one stage hands on to the next
triage          a router picks the desk that answers
swarm           agents hand a task round a ring until one of them answers
best_of         several try, one picks
map_reduce      parts are worked on by several, and brought together by one
debate          two argue before a judge until the judge decides
"""

from partyctl_actors.protocol.patterns.desks import swarm, triage
from partyctl_actors.protocol.patterns.exchanges import approval_gate, pipeline, request_reply, review_loop
from partyctl_actors.protocol.patterns.panels import best_of, debate, map_reduce
from partyctl_actors.protocol.patterns.pattern import Pattern

__all__ = [
    "Pattern",
    "approval_gate",
    "best_of",
    "debate",
    "map_reduce",
    "pipeline",
    "request_reply",
    "review_loop",
    "swarm",
    "triage",
]
