"""The agent sessions of a node: taken up after a death, begun and continued by orders, let go when the party goes down.

submitter -> node   session {run, session, do, ...}
    do = send       {prompt, timeout, idle_timeout, detach, role, agent, idle_release_after}: the last three to begin
         again      {turn}: ask a turn anew whose answer nobody knows, else as for send
         follow     {turn}
         interrupt  {turn}
         withdraw: what the submitter asked, whether it has begun or not
         steer      {text}
         release, resume, delete
node -> submitter   turn, said, decided, unrecorded, and at last ended or failed

The order of a law holds here as well: who a session is, is durable before its first turn is.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Protocol

from partyctl.errors import NoSuchSession, exit_code, told
from partyctl.maps import Map
from partyctl.node.followers import Tell
from partyctl.node.held import Happened, HeldSession
from partyctl.nodes import owner_of
from partyctl.sessions import About, Shelf, is_session_name, read_state
from partyctl_actors.errors import JournalError
from partyctl_actors.participants import WorkerSource
from partyctl_actors.participants.sessions import LoopGrounds
from partyctl_actors.supervision.off_loop import off_loop
from partyctl_actors.supervision.policy_events import Found
from partyctl_actors.supervision.turn_log import TurnLogs
from partyctl_base.paths import PathError
from partyctl_plugins.contract import SessionStateError, TurnRequest

CLOSE_LIMIT = 1.5
"""Seconds a turn may take to end when its party goes down; then its worker is ended."""

TAKEN_AT_ONCE = 16
"""Sessions that are taken up at once: a worker waits 10 s for that, and one that is stuck must not hold up the rest."""


class Order(Protocol):
    """Carries out one order; the last word to give, None if that comes later."""

    async def __call__(self, order: Map, submitter: str) -> Map | None: ...


class NodeSessions:
    """All agent sessions of one node. Lives on its loop.

    Args:
        shelf: their files.
        workers: where their workers come from.
        tell: says something to a submitter.
        happened: tells the host what happened, for its book of events.
    """

    def __init__(self, shelf: Shelf, workers: WorkerSource, tell: Tell, happened: Happened) -> None:
        self._shelf = shelf
        self._grounds = LoopGrounds(workers)
        self._tell = tell
        self._happened = happened
        self._logs: TurnLogs | None = None
        self._held: dict[str, HeldSession] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wanted: dict[str, bool] = {}  # by submitter: whether it still wants its turn, which has not begun yet
        self._is_closed = False
        self._orders: dict[str, Order] = {
            "send": self._send,
            "again": self._again,
            "follow": self._follow,
            "interrupt": self._interrupt,
            "withdraw": self._withdraw,
            "steer": self._steer,
            "release": self._release,
            "resume": self._resume,
            "delete": self._delete,
        }

    def status(self) -> list[Map]:
        """The sessions that are held here."""
        return [held.status() for held in self._held.values()]

    @property
    def workers(self) -> list[Map]:
        """What their workers are doing, by the launcher's ids."""
        return [worker for held in self._held.values() for worker in held.workers]

    async def take_up(self, name: str, nodes: Sequence[str]) -> None:
        """Take up the sessions of the node `name` that may have a worker, or a turn that is not over."""
        try:
            names = await off_loop(lambda _: self._shelf.names())
        except PathError as error:
            self._happened("session_not_taken_up", name, told(error), {})
            return
        room = asyncio.Semaphore(TAKEN_AT_ONCE)
        await asyncio.gather(*(self._take(each, room) for each in names if owner_of(each, nodes) == name))

    async def _take(self, session: str, room: asyncio.Semaphore) -> None:
        async with room:
            try:
                state = read_state(await off_loop(lambda _: self._shelf.look(session)))
                if state is not None and (state.turn is not None or state.connection is not None):
                    await self._open(session, None)
            # Whatever is wrong with one session, the others are taken up.
            except Exception as error:
                self._happened("session_not_taken_up", session, told(error), {})

    def obey(self, order: Map, submitter: str) -> None:
        """Carry out an order in the background.

        Raises:
            LookupError, ValueError, TypeError: it is no order for a session.
        """
        carry_out = self._orders[str(order["do"])]
        if not is_session_name(str(order["session"])):
            raise ValueError(f"{str(order['session'])[:80]!r} cannot name a session")
        if order["do"] in ("send", "again"):
            self._wanted[submitter] = True
        task = asyncio.get_running_loop().create_task(self._carried_out(carry_out, order, submitter))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """The party goes down: turns are ended, workers let go. The sessions go on when it is up again."""
        self._is_closed = True
        await asyncio.gather(*(held.close(CLOSE_LIMIT) for held in self._held.values()), return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        if self._logs is not None:
            self._logs.close()

    async def _carried_out(self, carry_out: Order, order: Map, submitter: str) -> None:
        try:
            last = await carry_out(order, submitter)
        # Whatever it is, it ends this order and is told to whoever gave it; nothing of it may reach another session.
        except Exception as error:
            last = {"event": "failed", "error": told(error), "code": exit_code(error)}
        if order["do"] in ("send", "again"):
            self._wanted.pop(submitter, None)
        if last is not None:
            self._tell(submitter, last)

    # --- orders ---

    async def _send(self, order: Map, submitter: str) -> Map | None:
        name = str(order["session"])
        await self._drop_unused(name, order)
        held = await self._open(name, order)
        request = TurnRequest(str(order["prompt"]), idle_timeout=_seconds(order, "idle_timeout"))
        await held.send(
            request, _seconds(order, "timeout"), submitter, detach=bool(order.get("detach")),
            is_wanted=lambda: self._wanted.get(submitter, True),
        )  # fmt: skip
        return None

    async def _again(self, order: Map, submitter: str) -> Map | None:
        held = await self._open(str(order["session"]), None)
        view = held.view(str(order["turn"]))
        if not view.is_open:
            raise SessionStateError(
                f"a turn that is {view.state} is not asked again",
                where=f"session {held.about.name}, turn {view.turn_id}",
                fix=f"See its answer with: partyctl sessions turns {held.about.name}",
            )
        await held.go_on()
        return await self._send({**order, "prompt": view.prompt}, submitter)

    async def _follow(self, order: Map, submitter: str) -> None:
        held = await self._open(str(order["session"]), None)
        held.follow(str(order["turn"]), submitter)

    async def _interrupt(self, order: Map, submitter: str) -> Map:
        held = await self._open(str(order["session"]), None)
        turn = order.get("turn")
        return _done(held, "interrupt", turn=held.interrupt(None if turn is None else str(turn)))

    async def _withdraw(self, order: Map, submitter: str) -> None:
        if submitter in self._wanted:
            self._wanted[submitter] = False
            return
        held = self._held.get(str(order["session"]))
        if held is not None and held.asked_by == submitter:
            held.interrupt(None)

    async def _steer(self, order: Map, submitter: str) -> Map:
        held = await self._open(str(order["session"]), None)
        return _done(held, "steer", turn=await held.steer(str(order["text"])))

    async def _release(self, order: Map, submitter: str) -> Map:
        held = await self._open(str(order["session"]), None)
        await held.release()
        return _done(held, "release")

    async def _resume(self, order: Map, submitter: str) -> Map:
        held = await self._open(str(order["session"]), None)
        await held.go_on()
        return _done(held, "resume", lost=held.lost)

    async def _delete(self, order: Map, submitter: str) -> Map:
        """Not opened for it: it may be damaged, or its provider gone."""
        name = str(order["session"])
        async with self._opening.setdefault(name, asyncio.Lock()):
            held = self._held.get(name)
            if held is not None:
                await held.retire()
                del self._held[name]
            await off_loop(lambda _: self._shelf.delete(name))
        self._happened("session_deleted", name, "", {})
        return {"event": "ended", "do": "delete", "session": name, "state": "deleted"}

    # --- holding them ---

    async def _open(self, name: str, order: Map | None) -> HeldSession:
        """The session, opened if it is not held yet, begun if there is none and the order says with which settings."""
        async with self._opening.setdefault(name, asyncio.Lock()):
            held = self._held.get(name)
            if held is not None:
                return held
            about = await off_loop(lambda _: self._shelf.load(name))
            is_new = about is None
            if about is None or await self._may_begin_anew(about, order):
                about = await self._begun(name, order)
            held = HeldSession(about, self._shelf, self._tell, self._happened)
            try:
                found = await self._opened(held)
            except Exception:
                if is_new:  # it was asked nothing, and may never be
                    with contextlib.suppress(JournalError, NoSuchSession):
                        await off_loop(lambda _: self._shelf.delete(name))
                raise
            self._held[name] = held
        if is_new:
            self._happened("session_begun", name, "", {"role": about.role, "provider": about.provider})
        else:
            self._happened("session_taken_up", name, "", {"worker": found.value, "turn": held.turn_id})
        return held

    async def _drop_unused(self, name: str, order: Map) -> None:
        """A session that never came to a conversation begins with the settings of the newest order."""
        held = self._held.get(name)
        if held is not None and held.is_unused and order.get("agent") not in (None, held.about.agent):
            del self._held[name]
            await held.close(CLOSE_LIMIT)

    async def _may_begin_anew(self, about: About, order: Map | None) -> bool:
        if order is None or order.get("agent") in (None, about.agent):
            return False
        state = read_state(await off_loop(lambda _: self._shelf.look(about.name)))
        return state is None or not (state.turn or state.conversation_id or state.last_turn_conversation_id)

    async def _begun(self, name: str, order: Map | None) -> About:
        if order is None or order.get("agent") is None:
            raise NoSuchSession(name, await off_loop(lambda _: self._shelf.names()))
        about = _settings(order, name, time.time())
        await off_loop(lambda _: self._shelf.save(about))
        return about

    async def _opened(self, held: HeldSession) -> Found:
        if self._is_closed:
            raise SessionStateError("the party is going down", where=f"session {held.about.name}")
        name = held.about.name
        log = await off_loop(lambda _: self._log_directory().open(name))
        return await held.open(log, self._grounds)

    def _log_directory(self) -> TurnLogs:
        if self._logs is None:
            self._logs = TurnLogs(self._shelf.directory)
        return self._logs


def _settings(order: Map, name: str, now: float) -> About:
    """Who a session is that begins with an order.

    Raises:
        LookupError, TypeError: the order does not say.
    """
    agent, idle = order["agent"], order["idle_release_after"]
    if not isinstance(agent, dict):
        raise TypeError("a session begins with the settings of an agent")
    return About(name, str(order["role"]), agent, float(idle) if isinstance(idle, int | float) else None, now)


def _seconds(order: Map, name: str) -> float | None:
    given = order.get(name)
    return float(given) if isinstance(given, int | float) else None


def _done(held: HeldSession, doing: str, **more: object) -> Map:
    return {"event": "ended", "do": doing, "session": held.about.name, "state": held.status()["state"], **more}
