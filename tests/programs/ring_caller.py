"""Runs the ring of served_role.py with all its roles elsewhere: URL KEY DIRECTORY. Prints what was said."""

import sys

from served_role import RING, ring

import partyctl as ap

url, key, directory = sys.argv[1:]
cast = {role: ap.Remote(role.name, url=url, key=key) for role in RING}
transcript = ap.Session(ring, cast, journal=ap.SqliteJournal(directory), id="ring").run()
print("\n".join(str(envelope) for envelope in transcript))
