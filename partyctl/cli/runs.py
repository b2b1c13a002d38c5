"""Show what was recorded of runs, and have them go on.

Every decision of a run is recorded before it is delivered, in the party's state directory, whether a node runs it or
`partyctl run`. They are shown, forked and deleted whether the party is up or not.

`runs list` shows them, `runs show` what was said in one. `runs resume` goes on where a record ends: nobody is asked for
a decision that is recorded, and a run that is complete is shown again. `runs fork` copies the first decisions of one
into a new one, which then goes its own way. `runs export` writes one as JSON lines, as ap.JsonlJournal keeps them.
`runs delete` deletes some, with the logs of their agents.

Exit codes: 0; 1 there is no such record, it cannot be read, or a resumed run failed; 4 the party's host does not
answer, or is of another version; 7 party.toml, the state directory or the session's file cannot be used; 130 or 143 a
resumed run was cancelled.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from partyctl.cli.options import chosen_party, moment_before, party_options
from partyctl.cli.output import emit, emit_json, emit_table, printable, say
from partyctl.cli.run import run_or_resume, show_json, show_text
from partyctl.config import check_enforceable, load
from partyctl.errors import ExitCode, ProgramError, exit_code, told
from partyctl.logbook import timestamp
from partyctl.maps import Map

if TYPE_CHECKING:
    from partyctl_actors.journals import Decision, Kept

SCHEMA_VERSION = 1


@click.group(help=__doc__)
def command() -> None:
    """Keep the records; see the module's text, which is the manual page."""


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@party_options
def show_all(as_json: bool, file: Path | None, party: str | None) -> int:
    """List the recorded runs, the one that changed last first. One that cannot be read is named on stderr.

    Exit codes: 0; 1 a record cannot be read, the others are listed; 7 party.toml or the state directory cannot be used.
    """
    from partyctl.recorded import recorded

    chosen = chosen_party(file, party)
    kept, unread = recorded(chosen, to_write=False).survey()
    if as_json:
        runs, errors = [document(each) for each in kept], [told(error) for error in unread]
        emit_json({"schema_version": SCHEMA_VERSION, "party": chosen, "runs": runs, "unread": errors})
    elif kept:
        rows = [(each.run, state(each), str(each.decisions), timestamp(each.changed), target(each)) for each in kept]
        emit_table(("RUN", "STATE", "DECISIONS", "CHANGED", "SESSION"), rows)
    elif not unread:
        say(f'party "{chosen}" has no recorded runs')
    for error in unread:
        say(f"error: {told(error)}")
    return exit_code(unread[0]) if unread else ExitCode.OK


@command.command()
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@party_options
def show(run: str, as_json: bool, file: Path | None, party: str | None) -> int:
    """Show what was said in a recorded run, with the number of each decision.

    If it failed in code of your own, while no node ran it, the whole traceback follows on stderr.

    Exit codes: 0; 1 there is no such record, or it cannot be read; 7 party.toml or the state directory cannot be used.
    """
    from partyctl import tracebacks
    from partyctl.recorded import recorded

    chosen = chosen_party(file, party)
    kept, decisions = recorded(chosen, to_write=False).read(run)
    traceback = tracebacks.kept(chosen, run)
    if as_json:
        said: list[object] = [decision_document(each) for each in decisions]
        emit_json({"schema_version": SCHEMA_VERSION, **document(kept), "said": said, "traceback": traceback or None})
        return 0
    for number, decision in enumerate(decisions, 1):
        emit(decision_text(number, decision))
    say(f"run {kept.run}: {state(kept)}" + (f": {kept.ending}" if state(kept) == "ended early" else ""))
    for line in traceback.splitlines():
        click.echo(printable(line), err=True)
    return 0


@command.command()
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line instead of text.")
@party_options
def resume(run: str, as_json: bool, file: Path | None, party: str | None) -> int:
    """Go on with a recorded run: by the nodes of the party if it is up, otherwise in this process.

    Its session is imported from the file that it came from, in the directory where it ran, with the party.toml that
    counted then unless --file names another. An agent's turn that goes on in its worker, because only its node was
    killed, is waited for and not asked again.

    Exit codes: 0 it ran to its end; 1 it failed, or there is no such record; 4 the party's host does not answer, or is
    of another version; 7 the file, party.toml or the protocol is refused, because it changed for example; 130 or 143 it
    was cancelled.
    """
    from partyctl.program import split_target
    from partyctl.recorded import Origin, recorded

    chosen = chosen_party(file, party)
    origin = Origin.read(recorded(chosen, to_write=False).read(run)[0].about)
    if not origin.file:
        raise ProgramError(
            "the record does not say where its session is",
            where=f"run {run}",
            fix="Resume it in Python: Session(..., journal=..., id=...)",
        )
    if file is not None:
        file = file.absolute()
    _go_to(origin.cwd)
    config = load(file or (Path(origin.config) if origin.config else None))
    check_enforceable(config)
    path, _ = split_target(origin.file)
    show_event = show_json if as_json else show_text
    return run_or_resume(path, origin.name or None, config, show_event, chosen, run)


@command.command()
@click.argument("run")
@click.option(
    "--at", "upto", metavar="N", type=click.IntRange(min=0), required=True, help="Keep the first N decisions."
)
@click.option("--as", "new", metavar="ID", help="The id of the new run; a fresh one without it.")
@party_options
def fork(run: str, upto: int, new: str | None, file: Path | None, party: str | None) -> int:
    """Copy the first decisions of a recorded run into a new one, and print its id.

    Exit codes: 0; 1 there is no such record or decision, or the id is taken; 7 party.toml or the state directory cannot
    be used.
    """
    from partyctl.recorded import recorded
    from partyctl_actors.runs.session import is_run_id
    from partyctl_base.ids import RandomIds

    chosen = new if new is not None else RandomIds().new_id("run")
    if not is_run_id(chosen):
        raise click.BadParameter(f"{chosen!r} cannot be the id of a run: no blanks, '/' and '*'", param_hint="--as")
    recorded(chosen_party(file, party)).fork(run, chosen, upto=upto)
    emit(chosen)
    say(f"go on with: partyctl runs resume {chosen}")
    return 0


@command.command()
@click.argument("run")
@party_options
def export(run: str, file: Path | None, party: str | None) -> int:
    """Write a recorded run to stdout, as JSON lines.

    Exit codes: 0; 1 there is no such record, or it cannot be read; 7 party.toml or the state directory cannot be used.
    """
    from partyctl.recorded import recorded
    from partyctl_actors.journals.lines import whole

    kept, decisions = recorded(chosen_party(file, party), to_write=False).read(run)
    for line in whole(kept.run, kept.protocol, decisions, kept.about, kept.ending):
        emit(line.decode("ascii").rstrip("\n"))
    return 0


@command.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "--before",
    metavar="WHEN",
    callback=moment_before,
    help="Delete all that ended and did not change since: 30d, 12h, or RFC 3339.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@party_options
def delete(runs: tuple[str, ...], before: str, as_json: bool, file: Path | None, party: str | None) -> int:
    """Delete recorded runs, with what their agents were asked and answered, and print the id of each.

    A run that is under way is left alone, and one that is unfinished is deleted only by its id.

    Exit codes: 0; 1 a record is not there, under way or cannot be deleted, and the others are deleted; 2 neither RUN
    nor --before; 7 party.toml or the state directory cannot be used.
    """
    from partyctl.cli.deleting import delete_each
    from partyctl.recorded import recorded
    from partyctl.tracebacks import forget
    from partyctl_actors.supervision.run_logs import delete_run

    if not runs and not before:
        raise click.UsageError("There is nothing to delete: name a RUN, or give --before.")
    chosen = chosen_party(file, party)
    journal = recorded(chosen, to_write=False)
    if before:
        old = [kept.run for kept in journal.survey()[0] if kept.ending and timestamp(kept.changed) < before]
        runs = (*runs, *(run for run in old if run not in runs))

    def delete_one(run: str) -> None:
        delete_run(journal, run)
        forget(chosen, run)

    return delete_each(chosen, runs, delete_one, as_json=as_json)


def _go_to(directory: str) -> None:
    try:
        os.chdir(directory or ".")
    except OSError as error:
        raise ProgramError(
            "the directory where the run was is not there",
            where=directory,
            why=error.strerror or str(error),
            fix="Make it again, or resume the run in Python: Session(..., journal=..., id=...)",
        ) from error


def state(kept: "Kept") -> str:
    """What became of a run: complete, ended early, or unfinished (under way, or its process was lost)."""
    from partyctl.recorded import COMPLETE

    if not kept.ending:
        return "unfinished"
    return "complete" if kept.ending == COMPLETE else "ended early"


def target(kept: "Kept") -> str:
    """The session of a run, as `partyctl run` takes it."""
    from partyctl.recorded import Origin

    origin = Origin.read(kept.about)
    return f"{origin.file}:{origin.name}" if origin.name else origin.file


def document(kept: "Kept") -> Map:
    """One run, for --json."""
    return {
        "run": kept.run,
        "state": state(kept),
        "ending": kept.ending or None,
        "decisions": kept.decisions,
        "changed": timestamp(kept.changed),
        "protocol": kept.protocol,
        "about": dict(kept.about),
    }


def decision_document(decision: "Decision") -> Map:
    """One decision, for --json."""
    from partyctl_actors.payloads import unpack

    whole: Map = {"turn": decision.turn, "sender": decision.sender, "receiver": decision.receiver}
    return whole | {"label": decision.label, "payload": unpack(decision.payload), "tokens": decision.tokens}


def decision_text(number: int, decision: "Decision") -> str:
    """One decision, for a person."""
    from partyctl_actors.payloads import unpack

    pairs = unpack(decision.payload).items()
    fields: Sequence[str] = [f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in pairs]
    return printable(f"{number} {decision.sender} -> {decision.receiver}: {decision.label}({', '.join(fields)})")
