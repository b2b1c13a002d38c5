"""Checkpoints on the disk: whole or not there, for their owner alone, and never a stranger's."""

import contextlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partyctl_plugins.checkpoints import Checkpoint, FileCheckpointStore, InMemoryCheckpointStore
from partyctl_plugins.codec import pack
from partyctl_plugins.errors import CheckpointError
from partyctl_plugins.usage import ProviderUsage, TokenUsage

WRITE_FOR_EVER = """
import itertools, sys
from partyctl_plugins.contract import Checkpoint, FileCheckpointStore, ProviderUsage

store = FileCheckpointStore(sys.argv[1])
for number in itertools.count(1):
    name = f"conv-{number}"
    store.save("k", Checkpoint(name, ProviderUsage(raw={"all": [name] * 500})))
"""
USED = Checkpoint("conv-1", ProviderUsage(TokenUsage(5, 2, turns=1), 0.25, "codex", {"total": [1, {"b": "\udcff"}]}))


@pytest.mark.parametrize("fields", [("",), (None,), ("a\nb",), ("x" * 1025,), ("conv-1", {"tokens": 1})])
def test_a_checkpoint_that_is_not_as_described_is_refused(fields: tuple[object, ...]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Checkpoint(*fields)  # type: ignore[arg-type]


NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=9)


@given(st.lists(st.tuples(st.text(max_size=5), NAMES), max_size=9))
def test_a_store_holds_what_a_dictionary_would(saves: list[tuple[str, str]]) -> None:
    store, expected = InMemoryCheckpointStore(), dict(saves)
    for key, conversation in saves:
        store.save(key, Checkpoint(conversation))
    assert {key: store.load(key) for key in expected} == {key: Checkpoint(c) for key, c in expected.items()}


class TestOnDisk:
    @pytest.mark.parametrize("key", ["a", "", "a/b/../c", "\0", "x" * 10_000, "\udcff", "Ä" * 300])
    def test_any_text_is_a_key(self, tmp_path: Path, key: str) -> None:
        FileCheckpointStore(tmp_path).save(key, USED)
        assert FileCheckpointStore(tmp_path).load(key) == USED

    def test_only_the_owner_may_read(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            store = FileCheckpointStore(tmp_path / "kept")
            store.save("k", USED)
        finally:
            os.umask(before)
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "kept").iterdir()}
        assert modes == {0o600}
        assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700

    @pytest.mark.parametrize("cut", [0, 1, 40])
    def test_a_torn_file_is_refused_by_name(self, tmp_path: Path, cut: int) -> None:
        store = FileCheckpointStore(tmp_path)
        store.save("k", USED)
        store.path("k").write_bytes(store.path("k").read_bytes()[:cut])
        with pytest.raises(CheckpointError, match="no checkpoint") as refused:
            store.load("k")
        assert refused.value.where == str(store.path("k"))

    def test_the_file_of_another_key_is_refused(self, tmp_path: Path) -> None:
        store = FileCheckpointStore(tmp_path)
        store.save("mine", USED)
        os.replace(store.path("mine"), store.path("yours"))
        with pytest.raises(CheckpointError, match="belongs to 'mine'"):
            store.load("yours")

    def test_what_changed_on_the_disk_is_refused_by_name(self, tmp_path: Path) -> None:
        store = FileCheckpointStore(tmp_path)
        store.save("k", USED)
        path = store.path("k")
        path.write_bytes(path.read_bytes().replace(b"conv-1", b"conv-2"))
        with pytest.raises(CheckpointError, match=rf"damaged \({path}\): .*checksum.*move it away"):
            store.load("k")

    @given(where=st.integers(min_value=0), bit=st.integers(0, 7))
    def test_no_flipped_bit_gives_another_checkpoint(
        self, tmp_path_factory: pytest.TempPathFactory, where: int, bit: int
    ) -> None:
        store = FileCheckpointStore(tmp_path_factory.getbasetemp() / "flipped")
        store.save("k", USED)
        path = store.path("k")
        data = bytearray(path.read_bytes())
        data[where % len(data)] ^= 1 << bit
        path.write_bytes(data)
        with contextlib.suppress(CheckpointError):
            assert store.load("k") == USED

    def test_one_that_was_written_before_there_were_checksums_is_read(self, tmp_path: Path) -> None:
        store = FileCheckpointStore(tmp_path)
        store.path("k").write_bytes(pack({"version": 1, "key": "k", "checkpoint": {"conversation_id": "conv-1"}}))
        assert store.load("k") == Checkpoint("conv-1")

    def test_a_later_version_is_refused(self, tmp_path: Path) -> None:
        store = FileCheckpointStore(tmp_path)
        store.save("k", USED)
        path = store.path("k")
        path.write_bytes(path.read_bytes().replace(b"\xa7version\x01", b"\xa7version\x02"))
        with pytest.raises(CheckpointError, match="of version 2"):
            store.load("k")

    def test_a_save_that_fails_leaves_the_checkpoint_before_it(self, tmp_path: Path) -> None:
        store = FileCheckpointStore(tmp_path)
        store.save("k", USED)
        with pytest.raises(CheckpointError, match="written down"):
            store.save("k", Checkpoint("conv-2", ProviderUsage(raw={"bad": object()})))
        (tmp_path / store.path("k").with_suffix(".draft").name).mkdir()
        with pytest.raises(CheckpointError, match="cannot be written"):
            store.save("k", Checkpoint("conv-2"))
        assert store.load("k") == USED

    def test_a_directory_that_cannot_be_made_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(CheckpointError, match="cannot be made"):
            FileCheckpointStore(tmp_path / "file" / "kept")

    def test_what_a_killed_writer_leaves_is_whole(self, tmp_path: Path) -> None:
        store = FileCheckpointStore(tmp_path)
        store.save("k", Checkpoint("conv-0"))
        for number in range(5):
            before = store.path("k").stat().st_mtime_ns
            writer = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(tmp_path)])
            while store.path("k").stat().st_mtime_ns == before:
                os.sched_yield()
            for _ in range(number * 400):
                os.sched_yield()
            writer.kill()
            writer.wait()
            kept = store.load("k")
            assert kept is not None
            assert kept.usage is not None
            assert kept.usage.raw == {"all": [kept.conversation_id] * 500}
        store.save("k", USED)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["lock", store.path("k").name])
