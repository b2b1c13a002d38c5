"""Check protocols before anything runs: each role's view, the verdicts, the diagram."""

from typing import TYPE_CHECKING

import click

from partyctl.cli.output import emit, emit_json, printable
from partyctl.errors import ExitCode
from partyctl.maps import Map

if TYPE_CHECKING:
    from partyctl_actors.protocol import Report

SCHEMA_VERSION = 1


@click.command("check")
@click.argument("target", metavar="FILE[:NAME]")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--mermaid", is_flag=True, help="Draw the protocol as a Mermaid sequence diagram instead of text.")
def command(target: str, as_json: bool, mermaid: bool) -> int:
    """Check protocols before anything runs: each role's view, the verdicts, the diagram.

    FILE is a Python file, imported as `partyctl run` does, or a definition in JSON (FILE.json). Every Protocol in it is
    checked, and that of every Session; NAME picks one of them. Nothing is run and nobody is asked. A list in JSON holds
    views that come from elsewhere, one of each role: they are refused if the roles could wait for each other for ever,
    and the circle is named.

    A view lists what the role does, state by state: "!" is what it says, "?" what it hears, the number after the arrow
    is the state that follows. A refusal names the role, the place, the two runs that look the same to it or the rule
    that it broke, and the change that cures it. A warning says what may never end, or never be heard.

    Exit codes: 0 every protocol is accepted; 7 one is refused, or FILE cannot be imported.
    """
    from partyctl.checking import checked, document

    reports = checked(target)
    ok = all(report.ok for _, report in reports)
    if as_json:
        protocols: list[object] = [document(name, report, mermaid=mermaid) for name, report in reports]
        whole: Map = {"schema_version": SCHEMA_VERSION, "ok": ok, "protocols": protocols}
        emit_json(whole)
    else:
        emit("\n\n".join(_text(name, report, mermaid) for name, report in reports))
    return ExitCode.OK if ok else ExitCode.REFUSED


def _text(name: str, report: "Report", mermaid: bool) -> str:
    parts = [f"{name}: {report.verdict()}", report.diagram(mermaid=mermaid), *map(str, report.roles)]
    lines = "\n\n".join(part for part in parts if part).splitlines()
    return "\n".join(map(printable, lines))
