"""Where a provider's command runs, for a caller that brings the place: a container, a virtual machine, another user."""

import os
from collections.abc import Mapping, Sequence
from typing import Protocol


class Confinement(Protocol):
    """A place to run commands in, in the words of the process outside it.

    It lives with whoever made the session; a worker gets what comes of it: an argv, an environment, mapped paths.
    """

    @property
    def env(self) -> Mapping[str, str]:
        """The environment of what runs inside."""

    def wrap(self, argv: Sequence[str], cwd: str | None = None) -> list[str]:
        """The command that runs `argv` inside; `argv` is its end, word by word.

        Args:
            argv: what is to run.
            cwd: where, as it is called outside; None for the place's own choice.
        """

    def agent_path(self, host_path: str | os.PathLike[str]) -> str:
        """How a path outside is called inside. Of a path that is one inside already: the same."""

    def reap(self) -> None:
        """Kill everything that this place still runs. May come twice."""
