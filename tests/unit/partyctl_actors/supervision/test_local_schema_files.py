"""Output schemas of a transport in the caller's process that reads them from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fakes.agent_sessions import local

from partyctl_plugins.contract import OutputSchema, SchemaMechanism, TurnRequest
from partyctl_plugins.testing import FakeTransport, fake_profile

ASKED = TurnRequest("go", output_schema=OutputSchema({"type": "object"}))


def test_its_conversation_has_a_directory_for_them_until_it_is_closed() -> None:
    transport = FakeTransport(profile=replace(fake_profile(), output_schema=SchemaMechanism.FILE_PATH))
    told, _ = local(transport)
    for _ in range(2):
        told.session.run(told.session.prepare_turn(ASKED))
    [conversation] = transport.conversations
    first, second = (request.output_schema for request in conversation.turns)
    assert first is not None
    assert first == second
    assert first.host_dir is not None
    place = Path(first.host_dir)
    assert place.is_dir()
    told.session.close()
    assert not place.exists()


def test_one_that_takes_them_inline_has_none() -> None:
    told, transport = local()
    told.session.run(told.session.prepare_turn(ASKED))
    [conversation] = transport.conversations
    assert conversation.turns == [ASKED]
