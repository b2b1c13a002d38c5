"""A provider that answers with the names of its worker's environment variables."""

import json
import os

from instant_plugin import InstantTransport

from partyctl_plugins import hookimpl


@hookimpl
def partyctl_transport(kind: object, options: object) -> InstantTransport:
    return InstantTransport(json.dumps({"label": "Answer", "payload": {"text": " ".join(sorted(os.environ))}}))
