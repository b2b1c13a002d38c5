"""How the host's books call what befell a worker."""

import pytest

from partyctl.host.chronicle import worker_death
from partyctl.maps import Map, unpack
from partyctl_confinement import messages
from partyctl_confinement.endings import Hit

RUN = {"run": "run-1", "session": "run-1/Writer", "role": "Writer", "provider": "claude"}


def told(wait_status: int, labels: dict[str, str], hit: Hit | None = None) -> Map:
    return unpack(messages.died("w-1", "Writer claude", labels, 7, wait_status, *(() if hit is None else (hit,))))


@pytest.mark.parametrize(
    ("wait_status", "labels", "hit", "subject", "cause"),
    [
        (9, RUN, None, "run-1", "killed by SIGKILL"),
        (3 << 8, {"session": "essay", "role": "Helper"}, None, "essay", "exited with status 3"),
        (24, {}, Hit("cpu_seconds", "over its limit"), "Writer claude", "killed by SIGXCPU: over its limit"),
    ],
)
def test_a_death_is_told_of_the_run_or_the_session_with_how_it_ended(
    wait_status: int, labels: dict[str, str], hit: Hit | None, subject: str, cause: str
) -> None:
    about: Map = {"worker": "Writer claude", "pid": 7}
    about |= {name: labels[name] for name in ("role", "provider") if name in labels}
    assert worker_death(told(wait_status, labels, hit)) == (subject, cause, about)


@pytest.mark.parametrize("wrong", [{"pid": "x"}, {"signal": []}])
def test_what_is_no_death_is_an_error_that_the_host_takes_for_no_message_of_ours(wrong: Map) -> None:
    with pytest.raises((ValueError, LookupError, TypeError)):
        worker_death({**told(9, RUN), **wrong})
    with pytest.raises(LookupError):
        worker_death({"t": "died"})
