"""What every journal does, shown by the one in memory and by those on disk alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from partyctl_actors.errors import JournalError, ProtocolMismatch
from partyctl_actors.journals import Archive, Decision, JsonlJournal, MemoryJournal, SqliteJournal

FIRST = Decision(1, "A", "B", "Ping", b"\x81\xa4text\xa2hi", 0)
SECOND = Decision(2, "B", "A", "Pong", b"\x80", 7)
ODD = Decision(3, "A", "B", "Ping", b"\x81\xa4text\xa8a\nb\xe2\x80\xa8\xf0", 0)

Make = Callable[[], Archive]


@pytest.fixture(params=["memory", "jsonl", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes journals over the same records."""
    memory = MemoryJournal()
    makers: dict[str, Make] = {
        "memory": lambda: memory,
        "jsonl": lambda: JsonlJournal(tmp_path / "j"),
        "sqlite": lambda: SqliteJournal(tmp_path / "s"),
    }
    return makers[request.param]


def test_a_record_keeps_its_decisions_in_order(make: Make) -> None:
    record = make().open("run-1", "p")
    for decision in (FIRST, SECOND, ODD):
        record.append(decision)
    assert list(record.decisions()) == [FIRST, SECOND, ODD]
    record.close()


def test_records_are_kept_by_run_and_found_again(make: Make) -> None:
    record = make().open("run-1", "p")
    record.append(FIRST)
    record.close()
    again, other = make().open("run-1", "p"), make().open("run-2", "p")
    assert (list(again.decisions()), list(other.decisions())) == ([FIRST], [])
    again.append(SECOND)
    assert list(again.decisions()) == [FIRST, SECOND]
    again.close()
    other.close()


def test_two_runs_cannot_write_one_record(make: Make) -> None:
    journal = make()
    first = journal.open("run-1", "p")
    for another in (journal, make()):
        with pytest.raises(JournalError, match="another run"):
            another.open("run-1", "p")
    first.close()
    first.close()
    make().open("run-1", "p").close()


def test_a_record_of_another_protocol_is_refused_with_both_named(make: Make) -> None:
    record = make().open("run-1", "p")
    record.append(FIRST)
    record.close()
    with pytest.raises(ProtocolMismatch, match="protocol p then, q now"):
        make().open("run-1", "q")
    make().open("run-1", "p").close()


def test_a_closed_record_takes_nothing(make: Make) -> None:
    record = make().open("run-1", "p")
    record.close()
    with pytest.raises(JournalError, match="not open any more"):
        record.append(FIRST)


def test_records_are_listed_with_how_their_runs_ended(make: Make) -> None:
    for run, ending in (("run-1", "complete"), ("run-2", "Nobody answered"), ("run-3", "")):
        record = make().open(run, "p", about={"file": "review.py"})
        record.append(FIRST)
        record.close(ending)
    kept = {each.run: each for each in make().runs()}
    assert {run: each.ending for run, each in kept.items()} == {
        "run-1": "complete",
        "run-2": "Nobody answered",
        "run-3": "",
    }
    assert {(each.protocol, each.decisions, each.about["file"]) for each in kept.values()} == {("p", 1, "review.py")}
    assert make().read("run-2")[0] == kept["run-2"]


def test_a_run_that_goes_on_has_not_ended(make: Make) -> None:
    record = make().open("run-1", "p")
    record.append(FIRST)
    record.close("Nobody answered")
    record = make().open("run-1", "p")
    record.append(SECOND)
    record.close()
    assert [(each.ending, each.decisions) for each in make().runs()] == [("", 2)]


def test_a_record_can_be_forked_at_each_decision(make: Make) -> None:
    record = make().open("run-1", "p", about={"file": "review.py"})
    record.append(FIRST)
    record.append(SECOND)
    record.close("complete")
    for upto in (0, 1, 2):
        make().fork("run-1", f"fork-{upto}", upto=upto)
        kept, decisions = make().read(f"fork-{upto}")
        assert list(decisions) == [FIRST, SECOND][:upto]
        assert (kept.protocol, kept.ending) == ("p", "")
        assert kept.about == {"file": "review.py", "forked": f"run-1 at {upto}"}
    fork = make().open("fork-1", "p")
    fork.append(SECOND._replace(label="Other"))
    fork.close()
    assert [each.label for each in make().read("fork-1")[1]] == ["Ping", "Other"]
    assert list(make().read("run-1")[1]) == [FIRST, SECOND]


def test_what_cannot_be_forked_is_refused(make: Make) -> None:
    record = make().open("run-1", "p")
    record.append(FIRST)
    with pytest.raises(JournalError, match=r"no record of this run \(run run-9"):
        make().fork("run-9", "run-2", upto=0)
    with pytest.raises(JournalError, match=r"no decision 2 to fork at .*holds 1"):
        make().fork("run-1", "run-2", upto=2)
    with pytest.raises(JournalError, match="already"):
        make().fork("run-1", "run-1", upto=1)
    with pytest.raises(ValueError, match="-1"):
        make().fork("run-1", "run-2", upto=-1)
    record.close()
    assert [each.run for each in make().runs()] == ["run-1"]


# --- deleting ---


def test_a_record_is_deleted_and_its_id_is_free_again(make: Make) -> None:
    make().create("run-1", "p", [FIRST, SECOND])
    make().create("run-2", "p", [FIRST])
    make().delete("run-1")
    assert [kept.run for kept in make().runs()] == ["run-2"]
    with pytest.raises(JournalError, match="no record of this run"):
        make().read("run-1")
    record = make().open("run-1", "another protocol")
    assert list(record.decisions()) == []
    record.append(FIRST)
    record.close()
    assert list(make().read("run-1")[1]) == [FIRST]
    assert list(make().read("run-2")[1]) == [FIRST]


def test_a_record_that_there_is_not_cannot_be_deleted(make: Make) -> None:
    called: list[str] = []
    with pytest.raises(JournalError, match="no record of this run"):
        make().delete("run-1", lambda: called.append("before"))
    assert called == []


def test_a_record_that_a_run_has_open_is_not_deleted(make: Make) -> None:
    called: list[str] = []
    record = make().open("run-1", "p")
    record.append(FIRST)
    with pytest.raises(JournalError, match="another run"):
        make().delete("run-1", lambda: called.append("before"))
    record.append(SECOND)
    record.close()
    assert (called, list(make().read("run-1")[1])) == ([], [FIRST, SECOND])


def test_what_belongs_to_a_record_is_deleted_first_while_nobody_can_open_it(make: Make) -> None:
    make().create("run-1", "p", [FIRST])
    found = []

    def before() -> None:
        found.append(make().read("run-1")[0].run)
        raise OSError(28, "No space left on device")

    with pytest.raises((JournalError, OSError), match="No space left"):
        make().delete("run-1", before)
    assert found == ["run-1"]
    make().delete("run-1")


@pytest.mark.parametrize("make", ["jsonl", "sqlite"], indirect=True)
def test_a_record_that_is_removed_while_it_is_open_takes_nothing_more(make: Make, tmp_path: Path) -> None:
    record = make().open("run-1", "p")
    record.append(FIRST)
    for directory in ("j", "s"):
        for file in (tmp_path / directory).glob("*"):
            file.unlink()
    with pytest.raises(JournalError, match="was removed or replaced while it was in use"):
        record.append(SECOND)
    record.close()
