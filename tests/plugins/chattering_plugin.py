"""A provider whose turn tells as many events of 64 KiB as its prompt says, and notes how many it could tell so far."""

from pathlib import Path

from instant_plugin import InstantConversation, InstantTransport

from partyctl_plugins import hookimpl
from partyctl_plugins.contract import ConversationSpec, Emit, TurnRequest, TurnResult
from partyctl_plugins.events import AssistantText


class ChatteringConversation(InstantConversation):
    def __init__(self, note: Path) -> None:
        super().__init__("")
        self._note = note

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        for number in range(int(request.prompt)):
            emit(AssistantText("x" * 65536))
            self._note.write_text(str(number + 1))
        return TurnResult("done")


class ChatteringTransport(InstantTransport):
    def __init__(self, note: Path) -> None:
        super().__init__("")
        self._note = note

    def open(self, spec: ConversationSpec) -> ChatteringConversation:
        return ChatteringConversation(self._note)


@hookimpl
def partyctl_transport(kind: object, options: dict[str, object]) -> ChatteringTransport:
    return ChatteringTransport(Path(str(options["note"])))
