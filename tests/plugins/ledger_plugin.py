"""A provider that writes each turn into a file when it begins and when it ends, so that what ran twice is seen.

A prompt has a ticket, a number of seconds, and how many of its attempts fail for the moment: "t-3 0.02 1"; the last one
counts. What is more than that is the prompt of a role, which gets a message `Done`.
"""

import json
import os
import re
import time
import uuid
from collections.abc import Mapping

from partyctl_plugins import hookimpl
from partyctl_plugins.contract import (
    ConversationSpec,
    Emit,
    FailureKind,
    ProviderProfile,
    RenewalBudget,
    TransportKind,
    TurnFailedError,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.events import AssistantText

MAX_TURNS = 4
"""Successful turns after which a conversation is renewed."""

_TICKET = re.compile(r"([\w-]+) (\d[\d.]*) (\d+)")


class LedgerConversation:
    def __init__(self, ledger: str, conversation_id: str) -> None:
        self._ledger = ledger
        self.conversation_id = conversation_id

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        (*_, (ticket, seconds, failures)) = _TICKET.findall(request.prompt)
        began = self._note(f"begin {ticket}")
        emit(AssistantText("thinking"))
        time.sleep(float(seconds))
        if began.count(f"begin {ticket}\n") <= int(failures):
            self._note(f"fail {ticket}")
            raise TurnFailedError("not now", kind=FailureKind.TRANSIENT)
        self._note(f"end {ticket}")
        answer = f"answer to {ticket}"
        if not _TICKET.fullmatch(request.prompt):
            answer = json.dumps({"label": "Done", "payload": {"text": answer}})
        return TurnResult(text=answer, session_id=self.conversation_id)

    def interrupt(self) -> None:
        """Nothing runs long enough."""

    def close(self) -> None:
        """Nothing is held."""

    def _note(self, line: str) -> str:
        """Append a line at once; all there is by then."""
        fd = os.open(self._ledger, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(fd, f"{line}\n".encode())
        with open(fd, encoding="utf-8") as file:
            file.seek(0)
            return file.read()


class LedgerTransport:
    profile = ProviderProfile("ledger", renewal=RenewalBudget(max_turns=MAX_TURNS))

    def __init__(self, ledger: str) -> None:
        self._ledger = ledger

    def open(self, spec: ConversationSpec) -> LedgerConversation:
        return LedgerConversation(self._ledger, spec.resume_id or uuid.uuid4().hex)


@hookimpl
def partyctl_transport(kind: TransportKind, options: Mapping[str, object]) -> LedgerTransport:
    return LedgerTransport(str(options["ledger"]))
