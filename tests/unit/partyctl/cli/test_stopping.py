"""Work that a signal ends, and what it leaves of the process's own handlers."""

import asyncio
import signal

import pytest

from partyctl.cli.stopping import until_signalled


async def signalled(number: signal.Signals, ended: list[str]) -> int:
    signal.raise_signal(number)
    try:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    finally:
        ended.append("cleared away")
    return 0


@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_a_signal_cancels_the_work_and_is_its_exit_code(
    number: signal.Signals, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    ended: list[str] = []
    assert until_signalled(signalled(number, ended)) == 128 + number
    assert ended == ["cleared away"]
    assert capsys.readouterr().err == f"partyctl: {word}\n"
    assert signal.getsignal(number) is before


def test_a_signal_that_was_to_be_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert until_signalled(signalled(signal.SIGINT, [])) == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_the_work_raises_is_raised_and_a_cancelling_of_its_own_is_no_signal() -> None:
    async def cancels() -> int:
        raise asyncio.CancelledError

    async def fails() -> int:
        raise ValueError("no")

    with pytest.raises(asyncio.CancelledError):
        until_signalled(cancels())
    with pytest.raises(ValueError, match="no"):
        until_signalled(fails())
