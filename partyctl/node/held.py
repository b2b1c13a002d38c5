"""One agent session at a node: its turns, and where it stands.

Whatever of it blocks runs off the loop. Followers (`followers`) hear `turn` once the intent is durable, then what the
provider says and what the policy decides, and at last `ended` or `failed`.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from partyctl.casting import agent_from
from partyctl.errors import exit_code, told
from partyctl.happenings import happening
from partyctl.maps import Map
from partyctl.node.followers import Followers, Tell
from partyctl.node.noting_log import NotingLog
from partyctl.sessions import About, Shelf, TurnView, document, finished_view, lost_turns, standing, turn_view
from partyctl_actors.errors import JournalError
from partyctl_actors.participants.sessions import HiredParts, begin_hired, hired_plan
from partyctl_actors.supervision.agent_session import AgentSession
from partyctl_actors.supervision.hired import Grounds, HiredEngine
from partyctl_actors.supervision.off_loop import off_loop
from partyctl_actors.supervision.policy_commands import Decided
from partyctl_actors.supervision.policy_events import Found, Phase
from partyctl_actors.supervision.turn_log import SqliteTurnLog
from partyctl_plugins.contract import (
    AgentEvent,
    NoRunningTurnError,
    ProviderCapabilityError,
    SessionStateError,
    TurnRequest,
    TurnTicket,
)

Happened = Callable[[str, str, str, Map], None]

_log = logging.getLogger("partyctl.node")


class HeldSession:
    """One agent session. Lives on the node's loop; see `open`.

    Attributes:
        about: who it is.
        turn_id: the turn that runs, None if none does.
        asked_by: whoever asked for that; "" if it is a turn that was taken up, or none.
    """

    def __init__(self, about: About, shelf: Shelf, tell: Tell, happened: Happened) -> None:
        self.about = about
        self.turn_id: str | None = None
        self.asked_by = ""
        self._shelf = shelf
        self._tell = tell
        self._followers = Followers(tell)
        self._happened = happened
        self._loop = asyncio.get_running_loop()
        self._asking = asyncio.Lock()
        self._session: AgentSession | None = None
        self._engine: HiredEngine | None = None
        self._task: asyncio.Task[None] | None = None
        self._cause = ""
        self._idle: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._turns: tuple[TurnView, ...] = ()

    async def open(self, log: SqliteTurnLog, grounds: Grounds) -> Found:
        """Take the session up where it was; a turn that goes on is gone on with. What was found of its worker.

        Raises:
            PartyError: no worker could be started, or its plugin could not be loaded; the log cannot be read.
        """
        about = self.about
        noting = NotingLog(log, self._intended_off_loop, self._unkept_off_loop)
        parts = HiredParts(
            grounds, log, noting, about.profile, about.idle_release_after, (self,), self._decided_off_loop
        )  # fmt: skip
        agent = agent_from(about.agent)
        plan = await off_loop(lambda _: hired_plan(agent, {"role": about.role}))
        self._session, engine = await off_loop(lambda _: begin_hired(agent, plan, parts))
        self._engine = engine
        try:
            if engine.profile != about.profile:
                self.about = known = replace(about, profile=engine.profile)
                await off_loop(lambda _: self._shelf.save(known))
            await self._look()
            unfinished = await off_loop(lambda _: self.session.unfinished)
        except BaseException:
            await asyncio.shield(off_loop(lambda _: engine.close()))
            raise
        if unfinished is not None:
            self._begin(unfinished, None)
        return engine.found

    @property
    def session(self) -> AgentSession:
        """The session itself, once it is open."""
        assert self._session is not None
        return self._session

    def status(self) -> Map:
        """What `partyctl status` and `partyctl sessions` show of it: of its last turn not what was asked and answered,
        which may be long."""
        state = self.session.state
        last = self._turns[-1] if self._turns else None
        stands = standing(state, last, at=time.monotonic(), epoch=time.time(), is_held=True, cause=self._cause)
        told = document(self.about, state, stands, self._turns)
        if isinstance(turn := told["last_turn"], dict):
            told["last_turn"] = {key: turn[key] for key in turn if key not in ("prompt", "answer", "structured", "why")}
        return told

    @property
    def workers(self) -> list[Map]:
        """What its workers are doing, by the launcher's ids."""
        engine = self._engine
        return [] if engine is None else [{"id": each, "state": doing} for each, doing in engine.workers.items()]

    @property
    def is_busy(self) -> bool:
        """Whether a turn is at its provider."""
        return self.session.state.phase in (Phase.OPENING, Phase.RUNNING)

    @property
    def is_unused(self) -> bool:
        """Whether it may as well begin with other settings: it never came to a conversation."""
        state = self.session.state
        return self.turn_id is None and not (state.conversation_id or state.last_turn_conversation_id)

    # --- what is asked of it ---

    async def send(
        self, request: TurnRequest, timeout: float | None, follower: str, *, detach: bool, is_wanted: Callable[[], bool]
    ) -> None:
        """Ask the agent.

        Args:
            request: what.
            timeout: within how many seconds the turn must be over, with all its retries.
            follower: who hears what comes of it.
            detach: not after the turn has begun.
            is_wanted: whether whoever asks has not thought better of it.

        Raises:
            SessionStateError: a turn is under way, or this one is not wanted any more.
        """
        async with self._asking:
            if self.turn_id is not None:
                raise self._busy("a turn is under way in this session")
            ticket = await off_loop(lambda _: self.session.prepare_turn(request))
            if not is_wanted():
                self.session.interrupt(ticket)
                raise SessionStateError("the turn was withdrawn before it began", where=f"session {self.about.name}")
            self._followers.add(follower, detach=detach)
            self._begin(ticket, timeout)
            self.asked_by = follower

    def follow(self, turn_id: str, follower: str) -> None:
        """Hear what comes of a turn that runs, or of one that is over.

        Raises:
            SessionStateError: the session does not know it.
        """
        if turn_id == self.turn_id:
            self._followers.catch_up(follower, turn_id)
            return
        view = next((each for each in self._turns if each.turn_id == turn_id), None)
        if view is None:
            raise SessionStateError("the session does not know this turn", where=turn_id)
        if view.state in ("answered", "interrupted"):
            self._tell(follower, {"event": "ended", **view.document(), "session": self.about.name})
        else:
            self._tell(follower, {"event": "failed", "error": view.why or f"turn {turn_id} is {view.state}", "code": 1})

    def interrupt(self, turn_id: str | None) -> str:
        """End the turn that runs; which that is.

        Raises:
            NoRunningTurnError: none runs, or not this one.
        """
        running = self.turn_id
        if running is None or turn_id not in (None, running):
            raise NoRunningTurnError(
                "there is no running turn to interrupt" if turn_id is None else "this turn does not run",
                where=f"session {self.about.name}" + (f", turn {turn_id}" if turn_id else ""),
                why=f"turn {running} does" if running else "",
            )
        self.session.interrupt()
        return running

    async def steer(self, text: str) -> str:
        """Say something into the turn that runs; which that is."""
        await off_loop(lambda _: self.session.steer(text))
        return self.turn_id or ""

    async def release(self) -> None:
        """Let its worker go and keep its conversation.

        Raises:
            ProviderCapabilityError: the provider could not reopen it.
            SessionStateError: a turn is under way.
        """
        async with self._asking:
            if self.turn_id is not None:
                raise self._busy("a session cannot be released in a turn")
            if self.about.profile is not None and not self.about.profile.supports_resume:
                raise ProviderCapabilityError(
                    "the provider cannot reopen a conversation, so the worker stays",
                    where=f"session {self.about.name}",
                    fix=f"If the session is over, delete it with: partyctl sessions delete {self.about.name}",
                )
            await off_loop(lambda _: self.session.release())
        self._happened("session_released", self.about.name, "", {})

    async def retire(self) -> None:
        """Let its worker go, for good: it is about to be deleted.

        Raises:
            SessionStateError: a turn is under way.
        """
        async with self._asking:
            if self.turn_id is not None:
                raise self._busy("a session cannot be deleted in a turn")
            await self.close(0.0)

    async def go_on(self) -> None:
        """A person says: go on."""
        await off_loop(lambda _: self.session.go_on())

    def view(self, turn_id: str) -> TurnView:
        """One of its turns.

        Raises:
            SessionStateError: its log does not have it, or not any more.
        """
        for each in self._turns:
            if each.turn_id == turn_id:
                return each
        fix = f"See partyctl sessions turns {self.about.name}"
        raise SessionStateError("the session does not know this turn", where=turn_id, fix=fix)

    @property
    def lost(self) -> list[str]:
        """See `lost_turns`."""
        return lost_turns(self._turns)

    async def close(self, limit: float) -> None:
        """The party goes down: end the turn, let the worker go. The session goes on another time."""
        if self._session is None or self._engine is None:
            return
        self._wake_never()
        self._session.interrupt()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=limit)
        engine, session = self._engine, self._session
        with contextlib.suppress(Exception):  # what could not be written is found by whoever opens it next
            await off_loop(lambda _: session.release())
        await off_loop(lambda _: engine.close())

    def _busy(self, what: str) -> SessionStateError:
        where = f"session {self.about.name}, turn {self.turn_id}"
        return SessionStateError(
            what, where=where, fix=f"Wait for its end, or end it with: partyctl interrupt {self.about.name}"
        )

    # --- its turns ---

    def _decided_off_loop(self, decided: Decided) -> None:
        self._loop.call_soon_threadsafe(self._decided, decided)

    def _intended_off_loop(self, turn_id: str) -> None:
        self._loop.call_soon_threadsafe(self._intended, turn_id)

    def _unkept_off_loop(self, turn_id: str, error: JournalError) -> None:
        self._loop.call_soon_threadsafe(self._unkept, turn_id, told(error))

    def _begin(self, ticket: TurnTicket, deadline: float | None) -> None:
        self._wake_never()
        self._followers.begin()
        self.turn_id = ticket.turn_id
        self._cause = ""
        self._task = self._loop.create_task(self._run(ticket, deadline))

    async def _run(self, ticket: TurnTicket, deadline: float | None) -> None:
        said: Map
        try:
            turn = await self.session.arun(ticket, deadline=deadline)
        # Whatever it is, it ends this turn and is told to whoever asked for it.
        except Exception as error:
            said = {"event": "failed", "error": told(error), "code": exit_code(error), "turn": ticket.turn_id}
        else:
            said = {"event": "ended", **finished_view(ticket.request.prompt, turn).document()}
        self.turn_id, self._task, self.asked_by = None, None, ""
        try:
            await self._look()
        except JournalError as error:
            _log.warning("The turns of session %s cannot be shown: %s", self.about.name, error)
        logged: Map = next((each.document() for each in self._turns if each.turn_id == ticket.turn_id), {"rules": []})
        of_all_attempts = {key: logged[key] for key in ("usage", "cost_usd", "duration_ms", "rules") if key in logged}
        self._followers.end(said | of_all_attempts | {"session": self.about.name})
        self._wake_later()

    def _intended(self, turn_id: str) -> None:
        if all(each.turn_id != turn_id for each in self._turns):
            self._turns += (TurnView(turn_id, "under way", ""),)  # read whole when it is over
        began: Map = {"event": "turn", "session": self.about.name, "turn": turn_id}
        began["conversation"] = self.session.conversation_id
        left: Map = {"event": "ended", "turn": turn_id, "session": self.about.name, "state": "under way"}
        self._followers.began(began, left)

    def _unkept(self, turn_id: str, why: str) -> None:
        self._happened("turn_not_recorded", self.about.name, why, {"turn": turn_id})
        self._followers.say({"event": "unrecorded", "session": self.about.name, "turn": turn_id, "why": why})

    def on_event(self, event: AgentEvent) -> None:
        """See `EventHandler`; on the loop."""
        self._followers.said(event, self.turn_id)

    def _decided(self, decided: Decided) -> None:
        line = happening(decided)
        assert line is not None
        kind, cause, fields = line
        if decided.wait is not None:
            self._cause = (cause.splitlines() or [""])[0]
        self._happened(kind, self.about.name, cause, fields)
        self._followers.say({"event": "decided", "turn": self.turn_id, "cause": cause, **fields})

    async def _look(self) -> None:
        looked = await off_loop(lambda _: self._shelf.look(self.about.name))
        state = self.session.state
        under_way = None if state.turn is None else state.turn.turn_id
        self._turns = tuple(turn_view(row, under_way) for row in looked.turns)

    # --- letting an idle worker go ---

    def _wake_later(self) -> None:
        if self.about.idle_release_after is not None:
            self._idle = self._loop.call_later(self.about.idle_release_after, self._let_go)

    def _wake_never(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _let_go(self) -> None:
        if self.turn_id is None and self.session.state.live:
            task = self._loop.create_task(self._released())
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _released(self) -> None:
        with contextlib.suppress(SessionStateError):  # a turn began meanwhile
            await self.release()
