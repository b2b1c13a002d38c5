"""A provider with one thing wrong with it, as its option `fault` says.

`renames`: from its second turn on its conversation is called otherwise. `no_resume`: it can resume nothing.
`close_raises`. `counts`: it counts tokens over the whole conversation, in the file of its option `total`, and a turn
uses as many as its prompt says. A turn is failed, or stalls until it is interrupted, if its prompt says so: "9 fail".
"""

import threading
from collections.abc import Mapping
from pathlib import Path

from partyctl_plugins import hookimpl
from partyctl_plugins.contract import (
    ConversationSpec,
    Emit,
    FailureKind,
    ProviderProfile,
    ProviderUsage,
    TokenUsage,
    TransportKind,
    TurnFailedError,
    TurnRequest,
    TurnResult,
)
from partyctl_plugins.events import TurnInterrupted, UsageReport


class FaultyConversation:
    def __init__(self, fault: str, total: Path | None, spec: ConversationSpec) -> None:
        self.conversation_id = spec.resume_id or "faulty-1"
        self._fault, self._total = fault, total
        self._counted = (
            0 if spec.previous_usage is None else int(str((spec.previous_usage.raw or {"total": 0})["total"]))
        )
        self._turns = 0
        self._over = threading.Event()

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        self._over.clear()
        self._turns += 1
        if self._fault == "renames" and self._turns > 1:
            self.conversation_id = f"faulty-{self._turns}"
        usage = self._use(request.prompt)
        emit(UsageReport(usage))
        if "fail" in request.prompt:
            kind = FailureKind.OTHER if self._fault == "no_resume" else FailureKind.USAGE_LIMIT
            raise TurnFailedError("it fails this turn", kind=kind)
        if "stall" in request.prompt:
            self._over.wait(60)
            emit(TurnInterrupted())
        return TurnResult(
            f"turn {self._turns}", session_id=self.conversation_id, usage=usage, interrupted="stall" in request.prompt
        )

    def interrupt(self) -> None:
        self._over.set()

    def close(self) -> None:
        self._over.set()
        if self._fault == "close_raises":
            raise OSError("it cannot be closed")

    def _use(self, prompt: str) -> ProviderUsage:
        if self._total is None:
            return ProviderUsage()
        spent = int(self._total.read_text() or "0") + int(prompt.split()[0])
        self._total.write_text(str(spent))
        before, self._counted = self._counted, spent
        return ProviderUsage(TokenUsage(spent - before, turns=1), provider="faulty", raw={"total": spent})


class FaultyTransport:
    def __init__(self, fault: str, total: Path | None) -> None:
        self._fault, self._total = fault, total
        self.profile = ProviderProfile("faulty", supports_resume=fault != "no_resume")

    def open(self, spec: ConversationSpec) -> FaultyConversation:
        return FaultyConversation(self._fault, self._total, spec)


@hookimpl
def partyctl_transport(kind: TransportKind, options: Mapping[str, object]) -> FaultyTransport:
    total = options.get("total")
    return FaultyTransport(str(options["fault"]), None if total is None else Path(str(total)))
