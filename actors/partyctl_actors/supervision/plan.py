"""What a supervisor needs to know before it hires a worker."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from partyctl_actors.supervision.policy_events import Found
from partyctl_plugins.contract import ConversationSpec, TransportKind
from partyctl_plugins.manager import ProviderEntry


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """One worker to be.

    Attributes:
        provider: the plugin to load.
        kind: how the provider is to be reached.
        spec: what its conversation is opened with.
        options: the provider's own settings.
        env: the worker's whole environment until its profile asks for more.
        offered: variables of the supervisor's environment that the profile may ask for by name.
        labels: what `partyctl status` shows about it, as role and run. With a `session` the worker outlives the death
            of its supervisor's process for a while, for another supervisor to attach.
        epoch: under which number the supervisor has it; one that attaches later needs a greater one.
    """

    provider: ProviderEntry
    kind: TransportKind
    spec: ConversationSpec
    options: Mapping[str, object] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    offered: Mapping[str, str] = field(default_factory=dict, repr=False)
    labels: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class SupervisorLimits:
    """How long each step may take, in seconds.

    Attributes:
        hire: from the order to the worker's first word.
        load: importing the plugin.
        open: opening the conversation.
        interrupt: from an interrupt to the end of the turn; then the worker is killed.
        close: closing the conversation and ending the worker; then it is killed.
        kill: from the order to kill the worker to its exit notice; then it is left to the launcher.
    """

    hire: float = 10.0
    load: float = 10.0
    open: float = 60.0
    interrupt: float = 10.0
    close: float = 5.0
    kill: float = 5.0


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """A role got its worker: the process, the provider it runs, and how it is confined."""

    role: str
    provider: str
    pid: int
    confinement: str


@dataclass(frozen=True, slots=True)
class TakenUp:
    """The agent session of a role goes on where another process left it: what of its worker, and with which turn."""

    role: str
    worker: Found
    turn_id: str | None
