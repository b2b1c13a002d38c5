"""Requests for workers that wait for their turn: bounded, and no client waits behind another's burst. Pure."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from partyctl_confinement.requests import Spawn

WAITING_OF_CLIENT: Final = 512
"""Requests of one client that may wait."""

WAITING_MAX: Final = 1024
"""Requests of all clients that may wait."""

Client = TypeVar("Client", bound=Hashable)


class Waiting(Generic[Client]):
    """First come, first served for each client; clients take turns.

    Args:
        per_client: how many requests of one client may wait.
        total: how many may wait of all.
    """

    def __init__(self, *, per_client: int = WAITING_OF_CLIENT, total: int = WAITING_MAX) -> None:
        self._per_client = per_client
        self._total = total
        self._queues: OrderedDict[Client, OrderedDict[str, Spawn]] = OrderedDict()
        self._owners: dict[str, Client] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, worker_id: str) -> bool:
        return worker_id in self._owners

    def put(self, client: Client, request: Spawn) -> str:
        """Let the request wait.

        Returns:
            Why it may not, naming the bound and what to do; empty if it waits now.
        """
        queue = self._queues.get(client, ())
        if len(queue) >= self._per_client:
            return (
                f"{len(queue)} requests of this client wait already and {self._per_client} may; "
                "ask again when some of them are answered"
            )
        if len(self) >= self._total:
            return (
                f"{len(self)} requests of all clients wait already and {self._total} may; ask again in a second, "
                "or start fewer workers at once"
            )
        self._queues.setdefault(client, OrderedDict())[request.id] = request
        self._owners[request.id] = client
        return ""

    def take(self) -> tuple[Client, Spawn] | None:
        """The next request, of the client whose turn it is; None if none waits."""
        if not self._queues:
            return None
        client, queue = self._queues.popitem(last=False)
        worker_id, request = queue.popitem(last=False)
        del self._owners[worker_id]
        if queue:
            self._queues[client] = queue  # at the end: all others come before it
        return client, request

    def withdraw(self, client: Client, worker_id: str) -> bool:
        """Forget one request; whether this client had it waiting."""
        if self._owners.get(worker_id) != client:
            return False
        del self._owners[worker_id]
        queue = self._queues[client]
        del queue[worker_id]
        if not queue:
            del self._queues[client]
        return True

    def drop(self, client: Client) -> list[Spawn]:
        """Forget all requests of a client, and hand them out."""
        queue = self._queues.pop(client, OrderedDict())
        for worker_id in queue:
            del self._owners[worker_id]
        return list(queue.values())

    def clients(self) -> list[Client]:
        """Who has requests waiting."""
        return list(self._queues)
