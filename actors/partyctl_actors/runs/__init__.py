"""Runs of protocols: sessions, the conductor, role actors, and what is kept of them."""

from partyctl_actors.journals import Decision, Journal, MemoryJournal, Record
from partyctl_actors.runs.addresses import conductor_address, role_address
from partyctl_actors.runs.allowance import Allowance
from partyctl_actors.runs.conduct import Conductor, conduct
from partyctl_actors.runs.limits import Limits
from partyctl_actors.runs.role_actor import RoleActor
from partyctl_actors.runs.run import Run
from partyctl_actors.runs.session import Session
from partyctl_actors.runs.spans import OpenTelemetryTracer
from partyctl_actors.runs.tracers import JsonLinesTracer, MemoryTracer, QueueTracer
from partyctl_actors.runs.tracing import (
    Delivered,
    Reported,
    RunEnded,
    RunEvent,
    RunFailed,
    RunStarted,
    Tracer,
    TurnGranted,
    watching,
)
from partyctl_actors.runs.verdict import Ending, RoleFailed, Verdict
from partyctl_actors.transcript import Envelope, Transcript

__all__ = [
    "Allowance",
    "Conductor",
    "Decision",
    "Delivered",
    "Ending",
    "Envelope",
    "Journal",
    "JsonLinesTracer",
    "Limits",
    "MemoryJournal",
    "MemoryTracer",
    "OpenTelemetryTracer",
    "QueueTracer",
    "Record",
    "Reported",
    "RoleActor",
    "RoleFailed",
    "Run",
    "RunEnded",
    "RunEvent",
    "RunFailed",
    "RunStarted",
    "Session",
    "Tracer",
    "Transcript",
    "TurnGranted",
    "Verdict",
    "conduct",
    "conductor_address",
    "role_address",
    "watching",
]
