"""Roles and messages without a meaning, for tests of protocols as such."""

import pytest

from partyctl_actors.errors import ProjectionError
from partyctl_actors.protocol import Message, Protocol, Steps, roles

A, B, C, D = roles("A", "B", "C", "D")


class W(Message):
    pass


class X(Message):
    pass


class Y(Message):
    pass


class Z(Message):
    pass


def refused(*steps: Steps) -> ProjectionError:
    """Why a protocol cannot be followed by every role."""
    with pytest.raises(ProjectionError) as caught:
        Protocol(*steps)
    return caught.value
