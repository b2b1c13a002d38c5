"""A provider whose turn prints lines as fast as it can, until it is interrupted."""

import threading

from instant_plugin import InstantConversation, InstantTransport

from partyctl_plugins import hookimpl
from partyctl_plugins.contract import ConversationSpec, Emit, TurnRequest, TurnResult


class FloodingConversation(InstantConversation):
    def __init__(self) -> None:
        super().__init__("")
        self._over = threading.Event()

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        while not self._over.wait(0.0002):
            print("flooding " * 100)
        return TurnResult(interrupted=True)

    def interrupt(self) -> None:
        self._over.set()


class FloodingTransport(InstantTransport):
    def open(self, spec: ConversationSpec) -> FloodingConversation:
        return FloodingConversation()


@hookimpl
def partyctl_transport(kind: object, options: object) -> FloodingTransport:
    return FloodingTransport("")
