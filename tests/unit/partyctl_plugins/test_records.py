"""The records of a worker's channel: whatever can be made comes back equal, whatever is malformed is refused."""

import contextlib
import typing
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl_plugins import events, records
from partyctl_plugins.contract import (
    ApprovalPolicy,
    ConversationSpec,
    CostSource,
    HttpMcpServer,
    NativeMode,
    NativePermissions,
    OutputSchema,
    ProviderProfile,
    ProviderUsage,
    RecordError,
    RenewalBudget,
    StdioMcpServer,
    TokenUsage,
    TransportKind,
    TurnFailedError,
    TurnRequest,
    TurnResult,
    normalized_usage,
)
from partyctl_plugins.events import AgentEvent
from partyctl_plugins.failures import ErrorRecord
from partyctl_plugins.manager import ProviderEntry
from partyctl_plugins.records import (
    Command,
    Phase,
    Report,
    decode_command,
    decode_report,
    encode_command,
    encode_report,
)

TEXT = st.text(st.characters(), max_size=20)  # surrogates too
FILLED = TEXT.filter(lambda text: bool(text.strip()))
CONVERSATION = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20)  # what is printable
NUMBER = st.integers(-(2**63), 2**63 - 1)
REAL = st.floats(allow_nan=False)
SECONDS = st.none() | st.floats(0.001, 1e6)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | REAL | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
TABLE = st.dictionaries(TEXT, JSON, max_size=3)
NAME = st.text(st.characters(exclude_characters="=\0"), min_size=1, max_size=20)
ENV = st.dictionaries(NAME, st.text(st.characters(exclude_characters="\0"), max_size=20), max_size=3)
TUPLE = st.lists(TEXT, max_size=3).map(tuple)
COUNT = st.integers(0, 2**40)
PATH = TEXT.map(lambda text: "/" + text.replace("\0", ""))

MONEY = st.none() | st.floats(0, 1e9)
TOKENS = st.builds(
    normalized_usage, input_tokens=COUNT, output_tokens=COUNT, cache_read_input_tokens=COUNT, turns=COUNT
)
USAGE = st.builds(ProviderUsage, TOKENS, MONEY, TEXT, st.none() | TABLE) | st.builds(
    ProviderUsage,
    st.builds(TokenUsage, turns=COUNT),
    increment_known=st.just(False),
    cost_source=st.none() | st.sampled_from(CostSource),
)
PERMISSIONS = st.sampled_from([NativePermissions.bypass(), NativePermissions.read_only()]) | st.builds(
    NativePermissions, st.just(NativeMode.WORKSPACE_WRITE), st.lists(PATH, max_size=2).map(tuple), st.booleans()
)
SERVER = st.builds(StdioMcpServer, FILLED, FILLED, TUPLE, ENV, SECONDS, SECONDS) | st.builds(
    HttpMcpServer, FILLED, FILLED, ENV, st.sampled_from(["http", "sse"]), SECONDS, SECONDS
)
SERVERS = st.lists(SERVER, max_size=2, unique_by=lambda server: server.name).map(tuple)
SPEC = st.builds(
    ConversationSpec,
    PATH,
    PERMISSIONS,
    st.sampled_from(ApprovalPolicy),
    model=st.none() | FILLED,
    mcp_servers=SERVERS,
    resume_id=st.none() | CONVERSATION,
    previous_usage=st.none() | USAGE,
)
SCHEMA = st.builds(
    OutputSchema, TABLE.filter(lambda table: "inf" not in repr(table)), st.none() | PATH, st.none() | PATH
)
REQUEST = st.builds(
    TurnRequest, FILLED, st.none() | PATH, SECONDS, st.none() | SCHEMA, extra_args=TUPLE, mcp_servers=SERVERS
)
RESULT = st.builds(
    TurnResult,
    TEXT,
    JSON,
    st.none() | CONVERSATION,
    st.booleans(),
    USAGE,
    MONEY,
    duration_ms=COUNT,
    interrupted=st.booleans(),
)
PROFILE = st.builds(
    ProviderProfile,
    FILLED,
    native_permission_modes=st.frozensets(st.sampled_from(NativeMode)),
    transports=st.frozensets(st.sampled_from(TransportKind)),
    renewal=st.none() | st.builds(RenewalBudget, st.none() | st.integers(1, 2**40)),
    models=TUPLE,
    env=ENV,
)
COMMAND = st.one_of(
    st.builds(
        records.Load,
        st.builds(ProviderEntry, TEXT, TEXT, TEXT, TEXT),
        PATH,
        st.sampled_from(TransportKind),
        ENV,
        TABLE,
    ),
    st.builds(records.Open, SPEC),
    st.builds(records.Turn, TEXT, REQUEST),
    st.builds(records.Interrupt, TEXT),
    st.builds(records.Steer, TEXT, TEXT, FILLED),
    st.builds(records.Ack, TEXT),
    st.just(records.Attach()),
    st.just(records.Close()),
)

_FIELDS: dict[object, st.SearchStrategy[Any]] = {
    str: TEXT,
    bool: st.booleans(),
    int: NUMBER,
    float: REAL,
    type(None): st.none(),
    ProviderUsage: USAGE,
}


def _for(hint: object) -> st.SearchStrategy[Any]:
    if hint in _FIELDS:
        return _FIELDS[hint]
    if typing.get_origin(hint) is tuple:
        return TUPLE
    if typing.get_origin(hint) is typing.get_origin(typing.Mapping[str, object]):
        return TABLE
    return st.one_of([_for(arg) for arg in typing.get_args(hint)])


def _event(cls: type) -> st.SearchStrategy[AgentEvent]:
    return st.builds(cls, **{name: _for(hint) for name, hint in typing.get_type_hints(cls).items()})


EVENT = st.one_of([_event(cls) for cls in typing.get_args(AgentEvent)])
REPORT = st.one_of(
    st.builds(records.Ready, COUNT),
    st.builds(records.Loaded, PROFILE),
    st.builds(records.Opened, st.none() | TEXT),
    st.builds(records.Event, TEXT, EVENT),
    st.builds(records.Result, TEXT, RESULT, st.none() | TEXT),
    st.builds(
        records.Failed,
        st.sampled_from(Phase),
        st.builds(ErrorRecord, TEXT, TEXT, TEXT, TEXT, TABLE),
        TEXT,
        st.none() | TEXT,
    ),
    st.builds(records.Steered, TEXT, st.none() | st.builds(ErrorRecord, TEXT, TEXT)),
    st.builds(
        records.Attached,
        st.none() | st.sampled_from(Phase),
        TEXT,
        st.booleans(),
        st.none() | TEXT,
        st.none() | TEXT,
        st.none() | PROFILE,
    ),
    st.just(records.Closed()),
)


@given(COMMAND)
def test_every_command_comes_back_equal(command: Command) -> None:
    assert decode_command(encode_command(command)) == command


@given(REPORT)
def test_every_report_comes_back_equal(report: Report) -> None:
    assert decode_report(encode_report(report)) == report


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_a_record_error(data: bytes) -> None:
    for decode in (decode_command, decode_report):
        with contextlib.suppress(RecordError):
            assert decode(data)


@given(REPORT, st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_report_is_a_report_or_a_record_error(report: Report, place: int, byte: int) -> None:
    data = bytearray(encode_report(report))
    data[place % len(data)] = byte
    with contextlib.suppress(RecordError):
        assert decode_report(bytes(data))


def test_a_record_is_a_map_with_its_kind_under_t() -> None:
    event = records.Event("turn-1", events.AssistantText("hello"))
    assert msgpack.unpackb(encode_report(event)) == {
        "t": "event",
        "turn_id": "turn-1",
        "event": {"type": "AssistantText", "text": "hello"},
    }
    assert msgpack.unpackb(encode_command(records.Close())) == {"t": "close"}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "unknown t nothing"),
        ({"t": "dance"}, "unknown t 'dance'"),
        ({"t": "turn", "turn_id": "x"}, "lacks"),
        ({"t": "turn", "turn_id": "x", "request": {"prompt": ""}}, "prompt must not be empty"),
        ({"t": "turn", "turn_id": 7, "request": {"prompt": "hi"}}, "turn_id: text expected, not 7"),
        ({"t": "close", "now": True}, "unknown fields"),
        ([1, 2], "a map expected"),
    ],
)
def test_a_malformed_command_is_refused_with_its_place(body: object, why: str) -> None:
    with pytest.raises(RecordError) as caught:
        decode_command(msgpack.packb(body))
    assert why.replace("nothing", "None") in str(caught.value)


def test_a_report_that_cannot_be_sent_names_the_place() -> None:
    bad = records.Event("turn-1", events.AssistantText(b"bytes"))  # type: ignore[arg-type]
    with pytest.raises(RecordError, match=r"event\.text: text expected"):
        encode_report(bad)


def test_a_failure_gives_back_its_exception() -> None:
    fields = {"where": "", "why": "", "fix": "", "resets_at": None}
    failed = records.Failed(Phase.TURN, ErrorRecord("TurnFailedError", "busy", "transient", "", fields))
    error = failed.exception()
    assert isinstance(error, TurnFailedError)
    assert error.kind == "transient"
