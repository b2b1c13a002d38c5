"""A provider that answers at once; each of its turns leaves a process behind that ends by itself."""

import subprocess
from collections.abc import Mapping

from partyctl_plugins import hookimpl
from partyctl_plugins.contract import ConversationSpec, Emit, ProviderProfile, TransportKind, TurnRequest, TurnResult


class ForkingConversation:
    conversation_id = "forking-1"

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        subprocess.run(["/bin/sh", "-c", "sleep 0.01 & exit 0"], check=True)
        return TurnResult(text='{"label": "Answer", "payload": {"text": "yes"}}', session_id=self.conversation_id)

    def interrupt(self) -> None:
        """Nothing runs long enough."""

    def close(self) -> None:
        """Nothing is held."""


class ForkingTransport:
    profile = ProviderProfile("forking")

    def open(self, spec: ConversationSpec) -> ForkingConversation:
        return ForkingConversation()


@hookimpl
def partyctl_transport(kind: TransportKind, options: Mapping[str, object]) -> ForkingTransport:
    return ForkingTransport()
