"""How long a run waits for those who take part in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The waits of one run, in seconds.

    Attributes:
        join: for every role to be in its place.
        lateness: for word of a missed deadline from the role's own process, before the conductor ends the run itself.
        stop: for every role to confirm that it stopped.
        player: for one participant to stop its work; less than `stop`, so that a role whose participant hangs can
            still confirm.
        workers: for the source of workers to end them all.
    """

    join: float = 30.0
    lateness: float = 1.0
    stop: float = 5.0
    player: float = 4.5
    workers: float = 10.0
