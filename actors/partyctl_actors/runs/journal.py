"""What a run asks of a journal; the journals themselves are `partyctl_actors.journals`."""

from partyctl_actors.journals.interface import Decision, Journal, Record
from partyctl_actors.journals.memory import MemoryJournal

__all__ = ["Decision", "Journal", "MemoryJournal", "Record"]
