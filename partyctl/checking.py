"""What `partyctl check` finds in a file: the protocols it holds, or could not make, each with its report."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from partyctl.errors import ProgramError
from partyctl.maps import Map
from partyctl.program import import_program, split_target
from partyctl_actors.errors import ConformanceError, ProjectionError, ProtocolError
from partyctl_actors.protocol import Protocol, Report, check, check_views, load, load_view, view_definition
from partyctl_actors.runs import Session


def checked(target: str) -> list[tuple[str, Report]]:
    """The reports on what `FILE` or `FILE:name` declares, by name; at least one.

    Raises:
        ProgramError: there is no such file, it cannot be imported, or it holds no protocol of that name.
        ConformanceError: a cast in it does not fit.
    """
    path, name = split_target(target)
    if path.suffix == ".json":
        return [(path.name, _defined(path))]
    try:
        module = import_program(path)
    except ProgramError as error:
        # A declaration that is refused where it is made is what this is for; everything else stays what it is.
        refusal = error.__cause__
        if not isinstance(refusal, ProtocolError) or isinstance(refusal, ConformanceError):
            raise
        return [(error.where, check(refusal))]
    found = dict(_declared(module))
    if name is not None:
        if name not in found:
            why = f"it has {', '.join(found) or 'none'}"
            fix = "Name one of these, or none to check them all" if found else "Make one at module level"
            raise ProgramError(f"the file has no protocol {name!r}", where=str(path), why=why, fix=fix)
        found = {name: found[name]}
    if not found:
        raise ProgramError("the file has no Protocol and no Session", where=str(path), fix="Make one at module level")
    return [(each, check(protocol)) for each, protocol in found.items()]


def document(name: str, report: Report, *, mermaid: bool) -> Map:
    """A report as plain data."""
    roles: list[object] = []
    for verdict in report.roles:
        view = None if verdict.view is None else view_definition(verdict.view)
        refusal = None if verdict.refusal is None else _refusal(verdict.refusal)
        roles.append({"role": verdict.role.name, "view": view, "refusal": refusal})
    findings: list[object] = [
        {
            "level": finding.level,
            "code": finding.code,
            "what": finding.what,
            "where": finding.where or None,
            "role": None if finding.role is None else finding.role.name,
            "recipe": finding.recipe or None,
        }
        for finding in report.findings
    ]
    return {
        "name": name,
        "ok": report.ok,
        "id": None if report.protocol is None else report.protocol.id,
        "roles": roles,
        "findings": findings,
        "diagram": report.diagram(mermaid=mermaid),
    }


def _refusal(error: ProjectionError) -> Map:
    runs: list[object] = [
        [{"sender": sender, "receiver": receiver, "label": label} for sender, receiver, label in run]
        for run in error.runs
    ]
    return {
        "what": error.what,
        "where": error.where,
        "why": error.why,
        "runs": runs,
        "rule": error.rule or None,
        "recipe": error.recipe,
    }


def _defined(path: Path) -> Report:
    """The report on a definition, or on a list of views, which are looked at together."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        fix = "Give a file of JSON as ap.definition() makes it, or a Python file"
        raise ProgramError("the definition cannot be read", where=str(path), why=str(error), fix=fix) from error
    try:
        if isinstance(data, list):
            return check_views([load_view(view) for view in data])
        return check(load(data))
    except ProtocolError as error:
        return check(error)


def _declared(module: ModuleType) -> Iterator[tuple[str, Protocol]]:
    """Every protocol at the top level, and that of every session, each once."""
    seen: set[str] = set()
    values = {key: value for key, value in vars(module).items() if isinstance(value, Protocol | Session)}
    for key, value in sorted(values.items(), key=lambda item: isinstance(item[1], Session)):
        protocol = value.protocol if isinstance(value, Session) else value
        if protocol.id not in seen:
            seen.add(protocol.id)
            yield key, protocol
