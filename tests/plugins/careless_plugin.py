"""A provider that does in its own process what each prompt says, and takes no care of whose process it is."""

import contextlib
import os
import sys
from collections.abc import Mapping

from partyctl_plugins import hookimpl
from partyctl_plugins.contract import ConversationSpec, Emit, ProviderProfile, TransportKind, TurnRequest, TurnResult


class CarelessConversation:
    def __init__(self) -> None:
        self.conversation_id: object = "careless-1"
        self._opened: list[object] = []

    def turn(self, request: TurnRequest, emit: Emit) -> TurnResult:
        if request.prompt == "close all descriptors":
            os.closerange(3, 1000)
        elif request.prompt == "take all descriptors":
            with contextlib.suppress(OSError):
                while True:
                    self._opened.append(open(os.devnull))  # noqa: SIM115
        elif request.prompt == "fork and return twice":
            if not os.fork():
                return TurnResult("of the fork")
            os.wait()
        elif request.prompt == "fork and exit":
            if not os.fork():
                sys.exit(0)
            os.wait()
        elif request.prompt == "forget its name":
            self.conversation_id = 7
        return TurnResult("ok")

    def interrupt(self) -> None:
        """Nothing takes time."""

    def close(self) -> None:
        """The process ends, and takes everything with it."""


class CarelessTransport:
    profile = ProviderProfile("careless")

    def open(self, spec: ConversationSpec) -> CarelessConversation:
        return CarelessConversation()


@hookimpl
def partyctl_transport(kind: TransportKind, options: Mapping[str, object]) -> CarelessTransport:
    return CarelessTransport()
