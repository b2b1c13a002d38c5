"""A run in which an agent does one errand after another; its provider keeps the ledger `ledger` in this directory.

ERRANDS says how many seconds each takes: "0.1 3". While there is a file `boss.hold`, the boss gives no second errand;
if there is a file `import.slow`, it says how many seconds the import of this file takes.
"""

import asyncio
import os
import time
from collections.abc import Sequence

import partyctl as ap

Boss, Clerk = ap.roles("Boss", "Clerk")
SLOW = "import.slow"
SECONDS = os.environ.get("ERRANDS", "0.1").split()


class Errand(ap.Message):
    """A ticket for the ledger."""

    text: str


class Done(ap.Message):
    """What came of it."""

    text: str


if os.path.exists(SLOW):
    with open(SLOW) as file:
        time.sleep(float(file.read()))


async def boss(offer: ap.Offer, heard: Sequence[ap.Envelope]) -> ap.Message:
    """The next errand."""
    while heard and os.path.exists("boss.hold"):
        await asyncio.sleep(0.02)
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
