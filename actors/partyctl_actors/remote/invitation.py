"""What a deputy asks of a process that serves a role: to play it in one run.

A letter with the correlation `INVITING` is an invitation. Everything else between the two is what a conductor and a
role actor say to each other (`runs/messages.py`): the served role joins, is told all that it heard and said so far, and
goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgpack

from partyctl_actors.runs.messages import Malformed

INVITING: Final = 1
"""The correlation of a letter that holds an invitation."""


class Invitation(NamedTuple):
    """Play a role in a run.

    Attributes:
        run: the run's id.
        role: the role's name.
        protocol: the protocol's id.
        definition: the protocol, as `definition()` makes it.
    """

    run: str
    role: str
    protocol: str
    definition: Mapping[str, Any]

    def encode(self) -> bytes:
        """Its bytes."""
        packed = msgpack.packb([self.run, self.role, self.protocol, self.definition])
        assert isinstance(packed, bytes)
        return packed

    @staticmethod
    def decode(data: bytes) -> Invitation:
        """The invitation that these bytes are.

        Raises:
            Malformed: they are none.
        """
        try:
            found = msgpack.unpackb(data)
        except (ValueError, msgpack.exceptions.UnpackException) as error:
            raise Malformed("An invitation cannot be read", why=str(error)) from error
        if not isinstance(found, list) or tuple(map(type, found)) != (str, str, str, dict):
            raise Malformed("An invitation cannot be read", why="it has other parts")
        return Invitation(*found)
