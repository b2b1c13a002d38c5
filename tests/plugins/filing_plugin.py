"""A provider that reads output schemas from files: it writes each where it is told, and answers with that place."""

import os
import signal
from pathlib import Path

from partyctl_plugins import hookimpl
from partyctl_plugins.contract import (
    ConversationSpec,
    Emit,
    ProviderProfile,
    SchemaMechanism,
    TransportKind,
    TurnRequest,
    TurnResult,
)


class FilingConversation:
    conversation_id = "filing-1"

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        assert request.output_schema is not None
        assert request.output_schema.host_dir is not None
        place = Path(request.output_schema.host_dir)
        (place / "schema.json").write_text("{}")
        if request.prompt.startswith("die "):
            Path(request.prompt.removeprefix("die ")).write_text(str(place))
            os.kill(os.getpid(), signal.SIGKILL)
        return TurnResult(str(place), session_id=self.conversation_id)

    def interrupt(self) -> None:
        """Nothing runs long enough."""

    def close(self) -> None:
        """Nothing is held."""


class FilingTransport:
    profile = ProviderProfile(
        "files", transports=frozenset(TransportKind), output_schema=SchemaMechanism.FILE_PATH, supports_resume=True
    )

    def open(self, spec: ConversationSpec) -> FilingConversation:
        return FilingConversation()


@hookimpl
def partyctl_transport(kind: object, options: object) -> FilingTransport:
    return FilingTransport()
