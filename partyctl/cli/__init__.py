"""The command line: one verb a file, each imported only when it is asked for."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED = 130


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Run the command line; see `partyctl.cli.root`.

    What that needs is imported here, so that a Ctrl-C meanwhile ends it like one at any later moment.

    Args:
        arguments: the words after the program's name; None for those of this process.

    Returns:
        The exit code.
    """
    try:
        from partyctl.cli import root

        return root.main(arguments)
    except KeyboardInterrupt:
        os.write(2, b"partyctl: interrupted\n")  # no stream: it may have been in the middle of a line
        return _INTERRUPTED


__all__ = ["main"]
