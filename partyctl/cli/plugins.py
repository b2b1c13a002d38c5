"""List the installed providers.

Only the metadata of installed packages is read; no plugin is imported, so a broken one can be listed too. A name that
two packages provide is marked, with both packages: a role that asks for it is refused.
"""

from collections import Counter

import click

from partyctl.cli.output import emit_json, emit_table, say
from partyctl_plugins.manager import providers


@click.command(help=__doc__)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(as_json: bool) -> int:
    """List providers; see the module's text, which is the manual page."""
    entries = sorted(providers(), key=lambda entry: (entry.name, entry.distribution))
    count = Counter(entry.name for entry in entries)
    if as_json:
        rows = [
            {
                "name": entry.name,
                "distribution": entry.distribution,
                "version": entry.version,
                "target": entry.target,
                "duplicate": count[entry.name] > 1,
            }
            for entry in entries
        ]
        emit_json({"schema_version": 1, "providers": rows})
    else:
        emit_table(
            ("PROVIDER", "DISTRIBUTION", "VERSION", "TARGET"),
            [
                (entry.name + (" (duplicate)" if count[entry.name] > 1 else ""), entry.distribution, entry.version,
                 entry.target)
                for entry in entries
            ],
        )  # fmt: skip
    for name in sorted(name for name, times in count.items() if times > 1):
        packages = " and ".join(entry.distribution for entry in entries if entry.name == name)
        say(f"warning: provider {name!r} is provided by {packages}; uninstall all but one")
    return 0
