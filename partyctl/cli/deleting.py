"""What the verbs that delete have in common: what was deleted goes to stdout, what was not to stderr."""

from collections.abc import Callable, Sequence

from partyctl.cli.output import emit, emit_json, say
from partyctl.errors import ExitCode, exit_code, told
from partyctl_base.errors import PartyError

SCHEMA_VERSION = 1


def delete_each(party: str, names: Sequence[str], delete: Callable[[str], object], *, as_json: bool) -> int:
    """Delete what has these names, one after another; the exit code.

    Args:
        party: whose they are.
        names: of what.
        delete: deletes one; an error of ours leaves the others to be deleted.
        as_json: one document on stdout in place of a line each.
    """
    deleted: list[str] = []
    errors: list[PartyError] = []
    for name in names:
        try:
            delete(name)
        except PartyError as error:
            errors.append(error)
        else:
            deleted.append(name)
            if not as_json:
                emit(name)
    if as_json:
        undeleted = [told(undone) for undone in errors]
        emit_json({"schema_version": SCHEMA_VERSION, "party": party, "deleted": deleted, "errors": undeleted})
    for undone in errors:
        say(f"error: {told(undone)}")
    return exit_code(errors[0]) if errors else ExitCode.OK
