import signal

import pytest

from partyctl_confinement.endings import NOTHING_HIT, Ending, explain
from partyctl_confinement.limits import MIB
from partyctl_confinement.mains import BROKEN_MAIN, OUT_OF_MEMORY

MEMORY_EXIT = OUT_OF_MEMORY << 8


@pytest.mark.parametrize(
    ("number", "limit"), [(signal.SIGXCPU, "cpu_seconds"), (signal.SIGXFSZ, "file_size_max")], ids=str
)
def test_a_limit_that_the_kernel_tells_by_its_signal(number, limit) -> None:
    hit = explain(Ending(number, limits={limit: 7}))
    assert hit.limit == limit
    assert f"over its limit {limit} = 7" in hit.evidence
    assert explain(Ending(number)).limit == limit


def test_a_worker_that_ignores_sigxcpu_and_is_killed_for_it_was_over_its_processor_time() -> None:
    hit = explain(Ending(signal.SIGKILL, limits={"cpu_seconds": 2}, cpu=4.0))
    assert (hit.limit, hit.evidence) == ("cpu_seconds", "over its limit cpu_seconds = 2 seconds: it took 4.0 s")
    assert explain(Ending(signal.SIGKILL, limits={"cpu_seconds": 2}, cpu=0.1)) == NOTHING_HIT


def test_a_memory_error_under_an_address_space_limit_says_so() -> None:
    hit = explain(Ending(MEMORY_EXIT, limits={"address_space": 64 * MIB}, resident=20 * MIB))
    assert hit.limit == "address_space"
    assert hit.evidence == (
        "possible out of memory: its main ended in a MemoryError under address_space = 64 MiB; it held at most 20 MiB"
    )


def test_the_status_alone_is_no_evidence_for_a_main_may_return_it() -> None:
    assert explain(Ending(MEMORY_EXIT)) == NOTHING_HIT
    assert explain(Ending(MEMORY_EXIT, last_line=b"MemoryError")).limit == "memory"
    assert explain(Ending(BROKEN_MAIN << 8, last_line=b"MemoryError")) == NOTHING_HIT


def test_a_counted_out_of_memory_kill_is_evidence_for_a_sigkill_nobody_sent() -> None:
    hit = explain(Ending(signal.SIGKILL, oom_kills=1, oom_source="the cgroup /party", resident=9 * MIB))
    assert hit.limit == "memory"
    assert "possible out of memory: the cgroup /party counted 1 out-of-memory kills" in hit.evidence


def test_without_a_counter_a_sigkill_is_possibly_out_of_memory_and_says_that_nobody_counts() -> None:
    assert "no counter" in explain(Ending(signal.SIGKILL, oom_kills=None)).evidence
    assert explain(Ending(signal.SIGKILL, oom_kills=0)) == NOTHING_HIT


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS], ids=str)
def test_a_crash_near_an_address_space_limit_is_possibly_out_of_memory(number) -> None:
    near = Ending(number, limits={"address_space": 64 * MIB}, resident=40 * MIB)
    assert explain(near).limit == "address_space"
    assert explain(Ending(number, limits={"address_space": 64 * MIB}, resident=4 * MIB)) == NOTHING_HIT
    assert explain(Ending(number, resident=40 * MIB)) == NOTHING_HIT


@pytest.mark.parametrize("status", [signal.SIGKILL, signal.SIGXCPU, MEMORY_EXIT], ids=str)
def test_a_worker_the_launcher_killed_hit_no_limit(status) -> None:
    ending = Ending(status, asked=True, limits={"address_space": 1, "cpu_seconds": 0}, cpu=9, oom_kills=3)
    assert explain(ending) == NOTHING_HIT


def test_an_ordinary_end_hit_no_limit() -> None:
    assert explain(Ending(0, limits={"address_space": 1}, oom_kills=3)) == NOTHING_HIT
    assert explain(Ending(signal.SIGTERM, oom_kills=3)) == NOTHING_HIT
