"""A provider that takes half a minute to open a conversation."""

import time

from instant_plugin import InstantConversation, InstantTransport

from partyctl_plugins import hookimpl
from partyctl_plugins.contract import ConversationSpec


class SlowTransport(InstantTransport):
    def open(self, spec: ConversationSpec) -> InstantConversation:
        time.sleep(30)
        return InstantConversation("")


@hookimpl
def partyctl_transport(kind: object, options: object) -> SlowTransport:
    return SlowTransport("")
