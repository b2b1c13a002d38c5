"""A run in which an agent does one errand after another; its provider keeps the ledger `ledger` in this directory.

ERRANDS says how many seconds each takes: "0.1 3".
"""

import os
from collections.abc import Sequence

import partyctl as ap

Boss, Clerk = ap.roles("Boss", "Clerk")
SECONDS = os.environ.get("ERRANDS", "0.1").split()


class Errand(ap.Message):
    """A ticket for the ledger."""

    text: str


class Done(ap.Message):
    """What came of it."""

    text: str


def boss(offer: ap.Offer, heard: Sequence[ap.Envelope]) -> ap.Message:
    """The next errand."""
    return Errand(f"t-{len(heard)} {SECONDS[len(heard)]} 0")


clerk = ap.Agent(
    "ledger",
    "Do it.",
    permissions=ap.NativePermissions.bypass(),
    approvals=ap.ApprovalPolicy.DENY,
    confinement="none",
    options={"ledger": os.path.abspath("ledger")},
)
steps = [step for _ in SECONDS for step in (ap.send(Boss, Clerk, Errand), ap.send(Clerk, Boss, Done))]
session = ap.Session(ap.Protocol(*steps), {Boss: boss, Clerk: clerk})
