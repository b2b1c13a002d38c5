"""The actor that owns an agent session and stands outside the worker that can die."""

from partyctl_actors.supervision.plan import SupervisorLimits, TakenUp, WorkerPlan, WorkerStarted
from partyctl_actors.supervision.supervisor import Supervisor

__all__ = ["Supervisor", "SupervisorLimits", "TakenUp", "WorkerPlan", "WorkerStarted"]
