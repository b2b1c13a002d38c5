"""Journals: where runs keep what was decided."""

from partyctl_actors.journals.archive import Archive, Kept
from partyctl_actors.journals.interface import Decision, Journal, Record
from partyctl_actors.journals.jsonl import JsonlJournal
from partyctl_actors.journals.memory import MemoryJournal
from partyctl_actors.journals.sqlite import SqliteJournal

__all__ = ["Archive", "Decision", "Journal", "JsonlJournal", "Kept", "MemoryJournal", "Record", "SqliteJournal"]
