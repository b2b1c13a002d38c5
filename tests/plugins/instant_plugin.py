"""A provider that answers at once, with the text of its `answer` option; with `resumes = false` it reopens nothing."""

from collections.abc import Mapping

from partyctl_plugins import hookimpl
from partyctl_plugins.contract import ConversationSpec, Emit, ProviderProfile, TransportKind, TurnRequest, TurnResult


class InstantConversation:
    conversation_id = "instant-1"

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        return TurnResult(text=self._answer, session_id=self.conversation_id)

    def interrupt(self) -> None:
        """Nothing runs long enough."""

    def close(self) -> None:
        """Nothing is held."""


class InstantTransport:
    def __init__(self, answer: str, resumes: bool = True) -> None:
        self.profile = ProviderProfile("instant", supports_resume=resumes)
        self._answer = answer

    def open(self, spec: ConversationSpec) -> InstantConversation:
        return InstantConversation(self._answer)


@hookimpl
def partyctl_transport(kind: TransportKind, options: Mapping[str, object]) -> InstantTransport:
    return InstantTransport(str(options.get("answer", "done")), options.get("resumes") is not False)
