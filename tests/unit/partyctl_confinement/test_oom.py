import pytest

from partyctl_confinement.oom import OomCounter

V1 = "sys/fs/cgroup/memory/party/memory.oom_control"
V2 = "sys/fs/cgroup/party/memory.events"
MACHINE = "proc/vmstat"


@pytest.fixture
def counter(tmp_path):
    """Makes a counter over a tree of files, text by path."""
    made = []

    def make(cgroup, **files):
        for path, text in {"proc/self/cgroup": cgroup, **files}.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="ascii")
        made.append(OomCounter(tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    ("cgroup", "path", "source"),
    [
        ("0::/party\n", V2, "the cgroup /party"),
        ("4:memory,cpu:/party\n0::/\n", V1, "the cgroup /party"),
        ("4:memory:/hidden\n", "sys/fs/cgroup/memory/memory.oom_control", "the memory cgroup"),
        ("", MACHINE, "the machine"),
    ],
    ids=["v2", "v1", "v1 in a namespace", "machine"],
)
def test_the_nearest_count_is_read_and_read_anew(counter, tmp_path, cgroup, path, source) -> None:
    counting = counter(cgroup, **{MACHINE: "nr_free 5\noom_kill 40\n", path: "oom 9\noom_kill 2\noom_group_kill 0\n"})
    assert (counting.source, counting.read()) == (source, 2)
    (tmp_path / path).write_text("oom_kill 3\n", encoding="ascii")
    assert counting.read() == 3


def test_a_file_that_counts_nothing_is_passed_over(counter) -> None:
    counting = counter("0::/party\n", **{V2: "low 0\n", MACHINE: "oom_kill 1\n"})
    assert counting.source == "the machine"


def test_where_nobody_counts_there_is_no_count(counter) -> None:
    counting = counter("0::/party\n")
    assert (counting.source, counting.read()) == ("", None)
