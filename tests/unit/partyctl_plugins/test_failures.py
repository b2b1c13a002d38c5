"""Errors cross the channel with what they carry."""

import pytest

from partyctl_plugins.errors import (
    AgentSessionError,
    CliExitError,
    ContinuityError,
    FailureKind,
    NoRunningTurnError,
    PluginLoadError,
    ProviderCapabilityError,
    RecordError,
    SessionResumeError,
    TurnFailedError,
    TurnTimeoutError,
)
from partyctl_plugins.failures import TEXT_MAX, ErrorRecord, describe, rebuild
from partyctl_plugins.manager import ProviderEntry

ENTRY = ProviderEntry("mine", "mine.plugin", "mine-dist", "2.1")

ERRORS = [
    TurnFailedError("no", kind=FailureKind.USAGE_LIMIT, detail="429", resets_at=99.5, where="here", why="so", fix="do"),
    CliExitError(["claude", "-p"], -9, stdout="out", stderr="err", kind=FailureKind.AUTH),
    SessionResumeError(["claude"], 1, "conv-1", stderr="gone"),
    TurnTimeoutError(2.5),
    ContinuityError("a", None),
    ProviderCapabilityError("cannot", fix="do not"),
    NoRunningTurnError("none"),
    PluginLoadError("broken", detail="traceback"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_ours_comes_back_the_same(error: AgentSessionError) -> None:
    back = rebuild(describe(error, ENTRY, "turn"))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)


def test_a_subclass_of_a_plugin_arrives_as_its_nearest_class_of_ours() -> None:
    class Overloaded(TurnFailedError):
        pass

    back = rebuild(describe(Overloaded("busy", kind=FailureKind.TRANSIENT), ENTRY, "turn"))
    assert type(back) is TurnFailedError
    assert back.kind is FailureKind.TRANSIENT


@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit(3), KeyboardInterrupt(), RecordError("bad event")])
def test_anything_else_is_a_failed_turn_that_blames_the_plugin(error: BaseException) -> None:
    back = rebuild(describe(error, ENTRY, "turn"))
    assert type(back) is TurnFailedError
    assert back.kind is FailureKind.OTHER
    assert "plugin of provider 'mine' broke (turn)" in str(back)
    assert type(error).__name__ in str(back)
    assert "mine-dist 2.1" in str(back)


def test_an_error_that_cannot_even_say_itself_is_described() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "Mute" in str(rebuild(describe(Mute(), ENTRY, "turn")))


def test_a_subclass_that_did_not_initialize_ours_is_described_as_foreign() -> None:
    class Careless(TurnFailedError):
        def __init__(self) -> None:
            pass

    assert "Careless" in str(rebuild(describe(Careless(), ENTRY, "open")))


def test_a_huge_text_is_cut_to_its_end() -> None:
    record = describe(CliExitError(["x"], 1, stdout="a" * 10 * TEXT_MAX + "end"), ENTRY, "turn")
    text = record.fields["stdout"]
    assert isinstance(text, str)
    assert len(text) == TEXT_MAX
    assert text.endswith("end")


@pytest.mark.parametrize(
    "record",
    [
        ErrorRecord("SystemExit", "no"),
        ErrorRecord("TurnFailedError", "no", "transient"),
        ErrorRecord("TurnFailedError", "no", "bad kind", "", {"where": "", "why": "", "fix": "", "resets_at": None}),
        ErrorRecord("TurnTimeoutError", "no", "", "", {"where": "", "why": "", "fix": "", "timeout": "long"}),
    ],
)
def test_a_record_that_describes_none_of_ours_is_refused(record: ErrorRecord) -> None:
    with pytest.raises(RecordError):
        rebuild(record)
