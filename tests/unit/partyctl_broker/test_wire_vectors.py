"""docs/wire-vectors.json, in both directions: what we write is what it says, and what it says is what we read."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from partyctl_broker import control, link, outbox, stream, wire
from partyctl_broker.control import Bye, Gone, Hello, Nack, Refusal, Welcome
from partyctl_broker.errors import Malformed, VersionMismatch
from partyctl_broker.router import REASONS
from partyctl_broker.wire import Kind

DOCS = Path(__file__).parents[3] / "docs"
VECTORS = json.loads((DOCS / "wire-vectors.json").read_text())
SPECIFICATION = (DOCS / "wire.md").read_text()
CONTROLS = {"HELLO": Hello, "WELCOME": Welcome, "NACK": Nack, "GONE": Gone, "BYE": Bye}


def named(vectors):
    return [pytest.param(vector, id=vector.get("name") or vector.get("kind") or "road") for vector in vectors]


@pytest.mark.parametrize("vector", named(VECTORS["addresses"]))
def test_address_frames(vector):
    data = bytes.fromhex(vector["bytes"])
    assert wire.road(vector["destination"], vector["source"]) == data
    assert wire.ends(data) == (vector["destination"], vector["source"])


@pytest.mark.parametrize("vector", named(VECTORS["envelopes"]))
def test_envelopes(vector):
    data, payload, trace = (bytes.fromhex(vector[key]) for key in ("bytes", "payload", "trace"))
    numbers = {key: vector[key] for key in ("stream", "sequence", "correlation", "since")}
    assert wire.seal(Kind(vector["kind"]), payload=payload, trace=trace, **numbers) == data
    assert wire.unseal(data)._asdict() == {"kind": vector["kind"], "payload": payload, "trace": trace, **numbers}


@pytest.mark.parametrize("vector", named(VECTORS["controls"]))
def test_control_payloads(vector):
    data, fields = bytes.fromhex(vector["bytes"]), dict(vector["fields"])
    for key in ("secret", "incarnation"):
        if key in fields:
            fields[key] = bytes.fromhex(fields[key])
    if "refused" in fields:
        fields["refused"] = {address: Refusal(*reason) for address, reason in fields["refused"].items()}
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    message = CONTROLS[vector["kind"]](**fields)
    assert message.encode() == data
    assert asdict(type(message).decode(data)) == asdict(message)


@pytest.mark.parametrize("vector", named(VECTORS["refused"]))
def test_what_has_no_form_is_refused(vector):
    readers = {"envelope": wire.unseal, "address": wire.ends}
    read = readers.get(vector["what"]) or CONTROLS[vector["what"]].decode
    with pytest.raises(VersionMismatch if vector["why"] == "version" else Malformed):
        read(bytes.fromhex(vector["bytes"]))


def test_the_specification_names_every_kind_code_and_bound_as_it_is():
    assert VECTORS["version"] == wire.VERSION
    for kind in Kind:
        assert re.search(rf"^\| {int(kind)} \| {kind.name} \|", SPECIFICATION, re.MULTILINE), kind
    for code in {*REASONS, *link.REASONS}:
        assert f"| `{code}` |" in SPECIFICATION, code
    bounds = {
        "ADDRESS_MAX": wire.ADDRESS_MAX,
        "PAYLOAD_MAX": wire.PAYLOAD_MAX,
        "FRAME_MAX": wire.FRAME_MAX,
        "PAIRS_MAX": wire.PAIRS_MAX,
        "CLAIMS_MAX": control.CLAIMS_MAX,
        "WINDOW": stream.WINDOW,
        "WINDOW_BYTES": stream.WINDOW_BYTES,
        "MESSAGE_BYTES": outbox.MESSAGE_BYTES,
    }
    for name, value in bounds.items():
        assert f"| {name} | {value:,} |" in SPECIFICATION, name
