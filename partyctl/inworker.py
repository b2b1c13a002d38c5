"""A contract's subject in a real worker: mix it into a contract's subclass, in front of the contract."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest

from partyctl.workers import Workers, WorkerTransport


class InWorker:
    """Starts one launcher for the checks of a class; `in_worker` gives the provider in workers of it.

    Attributes:
        provider: the provider's name.
        target: what to import, "module" or "module:attribute"; that of the installed provider if omitted.
        options: the provider's own settings.
        env: variables of its environment besides PATH and HOME.
    """

    provider: ClassVar[str] = ""
    target: ClassVar[str] = ""
    options: ClassVar[Mapping[str, object]] = {}
    env: ClassVar[Mapping[str, str]] = {}
    _workers: ClassVar[Workers]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _launcher(cls) -> Iterator[None]:
        with Workers() as cls._workers:
            yield

    def in_worker(self, **options: object) -> WorkerTransport:
        """The provider, each of its conversations in a worker of its own.

        Args:
            options: settings besides `options` of the class, or in their place.
        """
        return self._workers.transport(
            self.provider, target=self.target, options={**self.options, **options}, env=self.env
        )

    def make_transport(self) -> WorkerTransport:
        """The provider with the options of the class, as `TransportContract` wants it."""
        return self.in_worker()
