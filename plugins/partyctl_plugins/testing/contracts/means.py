"""What a session is given beside its provider: time, a memory, a place to run commands in."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from partyctl_plugins.contract import (
    Checkpoint,
    CheckpointStore,
    Clock,
    Confinement,
    CostSource,
    ProviderUsage,
    StopSignal,
    TokenUsage,
)


class ClockContract:
    """Subclass it as `Test...` and implement `make_clock`."""

    def make_clock(self) -> Clock:
        """A clock."""
        raise NotImplementedError

    def test_monotonic_never_goes_backwards(self) -> None:
        clock = self.make_clock()
        times = [clock.monotonic() for _ in range(100)]
        assert times == sorted(times)

    def test_a_wait_on_a_set_stop_returns_true_at_once(self) -> None:
        clock, stop = self.make_clock(), StopSignal()
        stop.set()
        before = clock.monotonic()
        assert clock.wait(1000.0, stop) is True
        assert clock.monotonic() - before < 500.0

    @pytest.mark.parametrize("seconds", [0.0, -1.0])
    def test_a_wait_for_nothing_completes_and_reports_not_stopped(self, seconds: float) -> None:
        assert self.make_clock().wait(seconds, StopSignal()) is False

    def test_time_does_not_go_backwards_across_a_wait(self) -> None:
        clock = self.make_clock()
        before = clock.monotonic()
        clock.wait(0.01, StopSignal())
        assert clock.monotonic() >= before

    def test_waiting_does_not_set_the_stop(self) -> None:
        stop = StopSignal()
        self.make_clock().wait(0.01, stop)
        assert not stop.is_set()


class CheckpointStoreContract:
    """Subclass it as `Test...` and implement `make_store`."""

    def make_store(self) -> CheckpointStore:
        """An empty store."""
        raise NotImplementedError

    def test_a_missing_key_loads_none(self) -> None:
        assert self.make_store().load("nobody") is None

    @pytest.mark.parametrize(
        "checkpoint",
        [
            Checkpoint("conv-1"),
            Checkpoint(
                "conv-1",
                ProviderUsage(
                    TokenUsage(9, 3, 2, 1, 1, 1, turns=2),
                    0.25,
                    "codex",
                    {"total": {"inputTokens": 9, "nested": [1, "two", None, True, 0.5]}},
                    cost_source=CostSource.PRICE_TABLE,
                ),
            ),
            Checkpoint("conv-1", ProviderUsage(TokenUsage(turns=1), increment_known=False)),
        ],
        ids=["without usage", "with usage", "with usage that is unknown"],
    )
    def test_a_saved_checkpoint_loads_back(self, checkpoint: Checkpoint) -> None:
        store = self.make_store()
        store.save("key", checkpoint)
        assert store.load("key") == checkpoint

    def test_a_save_replaces_the_previous_one(self) -> None:
        store = self.make_store()
        for number in range(3):
            store.save("key", Checkpoint(f"conv-{number}"))
        assert store.load("key") == Checkpoint("conv-2")

    @pytest.mark.parametrize("other", ["key2", "KEY", "key/1", "../key", "", "ключ", "k" * 5000])
    def test_keys_are_independent(self, other: str) -> None:
        store = self.make_store()
        store.save("key", Checkpoint("conv-1"))
        store.save(other, Checkpoint("conv-2"))
        store.clear("key")
        assert (store.load("key"), store.load(other)) == (None, Checkpoint("conv-2"))

    def test_clearing_an_empty_key_is_not_an_error(self) -> None:
        store = self.make_store()
        store.clear("key")
        store.clear("key")
        assert store.load("key") is None


class ConfinementContract:
    """Subclass it as `Test...` and implement `make_confinement`."""

    host_paths: Sequence[str] = ("/", "/repo", "/repo/src/a b.py", "/repo/../etc", "/tmp/x")
    """Paths outside; those that the place maps should be among them."""

    def make_confinement(self) -> Confinement:
        """A place to run commands in."""
        raise NotImplementedError

    @pytest.mark.parametrize("cwd", [None, "/repo"])
    def test_wrap_keeps_the_argv_as_its_tail(self, cwd: str | None) -> None:
        argv = ["tool", "", "two words", "-e", "--", "$HOME", "a\nb"]
        wrapped = self.make_confinement().wrap(argv, cwd)
        assert wrapped[-len(argv) :] == argv

    def test_wrap_does_not_mutate_its_input(self) -> None:
        argv = ["tool", "-e"]
        self.make_confinement().wrap(argv, None)
        assert argv == ["tool", "-e"]

    def test_agent_path_is_stable_on_its_own_output(self) -> None:
        confinement = self.make_confinement()
        for path in self.host_paths:
            inside = confinement.agent_path(path)
            assert confinement.agent_path(inside) == inside

    def test_agent_path_accepts_path_objects(self) -> None:
        confinement = self.make_confinement()
        for path in self.host_paths:
            assert confinement.agent_path(Path(path)) == confinement.agent_path(path)

    def test_env_is_a_string_mapping(self) -> None:
        env = self.make_confinement().env
        assert isinstance(env, Mapping)
        assert all(isinstance(key, str) and isinstance(value, str) for key, value in env.items())

    def test_reap_is_idempotent(self) -> None:
        confinement = self.make_confinement()
        confinement.reap()
        confinement.reap()
