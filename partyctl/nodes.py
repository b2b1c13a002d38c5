"""Which node has what: by name, so that everybody comes to the same one."""

from collections.abc import Container, Sequence
from zlib import crc32


def owner_of(name: str, nodes: Sequence[str], given_up: Container[str] = ()) -> str:
    """The node that has a run or an agent session: the one its name gives, or the next that is not given up.

    Args:
        name: that of the run or session.
        nodes: all nodes, in order; not empty.
        given_up: those that are not started again, not all of them.
    """
    first = crc32(name.encode("utf-8", "replace")) % len(nodes)
    ring = [*nodes[first:], *nodes[:first]]
    return next((node for node in ring if node not in given_up), ring[0])
