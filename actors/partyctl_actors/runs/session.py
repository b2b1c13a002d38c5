"""A session: a protocol, a cast and an allowance, as a value that can be run any number of times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, TypeVar

from partyctl_actors.errors import ConformanceError, ProjectionError, SessionError
from partyctl_actors.journals import Archive, Journal
from partyctl_actors.participants.casting import Cast, checked_cast, missing_roles
from partyctl_actors.participants.human import Human
from partyctl_actors.participants.interface import Participant, WorkerSource
from partyctl_actors.participants.script import Script
from partyctl_actors.protocol.message import Message
from partyctl_actors.protocol.protocol import Protocol
from partyctl_actors.protocol.role import Role
from partyctl_actors.runs.allowance import Allowance
from partyctl_actors.runs.feed import Feed
from partyctl_actors.runs.local import LocalRun
from partyctl_actors.runs.opening import Opened, check_expected, check_opening
from partyctl_actors.runs.run import Run
from partyctl_actors.runs.tracing import Tracer, both
from partyctl_actors.transcript import Transcript
from partyctl_base.ids import RandomIds
from partyctl_base.looping import run_loop

M = TypeVar("M", bound=Message)


class Session:
    """A protocol, who plays its roles, and what a run of it may spend.

    Nothing is asked or started by making one. Each `run`, `ask` or `start` is a run of its own, in which every
    participant begins anew.

    Args:
        protocol: what is said.
        cast: who plays which role: participants, or functions called with the offer and what was heard. One role may
            be left out, for `ask` or `start` to play.
        allowance: the limits of each run.
        journal: where runs are recorded; omitted, in memory for as long as the run.
        tracer: told what happens.
        id: the id of the run, for a run that is to resume its record in `journal`; omitted, a fresh one each time.

    Raises:
        TypeError: an argument is of another kind; it is named.
        ConformanceError: the cast and the protocol's roles differ.
    """

    _workers: ClassVar[Callable[[], WorkerSource] | None] = None
    """Makes the source of worker processes for a run; the composition root's subclass sets it."""

    def __init__(
        self,
        protocol: Protocol,
        cast: Cast,
        *,
        allowance: Allowance = Allowance(),  # noqa: B008  (frozen)
        journal: Journal | None = None,
        tracer: Tracer | None = None,
        id: str | None = None,  # noqa: A002
    ) -> None:
        if not isinstance(protocol, Protocol):
            raise TypeError(f"Session(protocol) is a Protocol, not {protocol!r:.100}")
        if not isinstance(allowance, Allowance):
            raise TypeError(f"Session(allowance=...) is an Allowance, not {allowance!r:.100}")
        if journal is not None and not callable(getattr(journal, "open", None)):
            raise TypeError(f"Session(journal=...) is a journal, not {journal!r:.100}")
        if tracer is not None and not callable(getattr(tracer, "record", None)):
            raise TypeError(f"Session(tracer=...) is a tracer, such as watching(print), not {tracer!r:.100}")
        if id is not None and not is_run_id(id):
            raise TypeError(f"Session(id=...) is text without blanks, '/' and '*', not {id!r:.100}")
        self.protocol = protocol
        self.cast: Mapping[Role, Participant] = checked_cast(protocol, cast)
        self.allowance = allowance
        self.journal = journal
        self.tracer = tracer
        self.id = id

    @property
    def missing(self) -> tuple[Role, ...]:
        """The roles that nobody plays; at most one."""
        return missing_roles(self.protocol, self.cast)

    def run(self) -> Transcript:
        """Run to the end.

        Raises:
            ConformanceError: a role is played by nobody.
            PartyError: the run ended early: AllowanceExceeded, DeadlineExceeded, SelectionError and others.
            Exception: what a participant raised, with a note that names role and step.
            RuntimeError: an event loop is running here; await `arun`.
        """
        self._check_complete("run()")
        refuse_inside_loop("run", "arun")
        return run_loop(self.arun())

    async def arun(self) -> Transcript:
        """Like `run`, on the current event loop. Cancelling it stops every role first."""
        self._check_complete("arun()")
        return await self._execution(self.cast)[1].execute()

    def ask(self, role: Role, opening: Message, *, expect: type[M]) -> M:
        """Play `role`, which the cast leaves out: say `opening`, run to the end, return the newest `expect`.

        Raises:
            ProjectionError: the role is cast, says other than one opening message, or can never be told `expect`.
            ConformanceError: the protocol has no such role, or another is played by nobody.
            SessionError: the run ended without `expect`.
            RuntimeError: an event loop is running here; await `aask`.
            PartyError, Exception: as `run`.
        """
        cast = self._with_caller(role, opening, "ask()")
        check_expected(self.protocol, role, expect, where="ask()")
        refuse_inside_loop("ask", "aask")
        return run_loop(self._answer(cast, role, expect))

    async def aask(self, role: Role, opening: Message, *, expect: type[M]) -> M:
        """Like `ask`, on the current event loop."""
        cast = self._with_caller(role, opening, "aask()")
        check_expected(self.protocol, role, expect, where="aask()")
        return await self._answer(cast, role, expect)

    def start(self, role: Role | None = None, opening: Message | None = None) -> Run:
        """Run in the background of the current event loop.

        Args:
            role: the role that says `opening`: one that the cast leaves out, which then listens, or one that a Human
                plays, who then says the rest.
            opening: what it says.

        Raises:
            RuntimeError: no event loop is running here.
            ConformanceError, ProjectionError: as `run` and `ask`.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError("start() needs a running event loop; without one, use run() or ask()") from None
        if role is None:
            if opening is not None:
                raise TypeError("start(opening=...) needs the role that says it: start(role, opening)")
            self._check_complete("start()")
            return self._started(self.cast)
        if opening is None:
            raise TypeError(f"start({role}) needs the message that {role} opens with: start(role, opening)")
        human = self.cast.get(role)
        if isinstance(human, Human):
            check_opening(self.protocol, role, opening, where="start()", more=True)
            self._check_complete("start()")
            return self._started({**self.cast, role: Opened(opening, human)})
        return self._started(self._with_caller(role, opening, "start()"))

    def _started(self, cast: Mapping[Role, Participant]) -> Run:
        feed = Feed()
        return Run(*self._execution(cast, feed), feed)

    async def _answer(self, cast: Mapping[Role, Participant], role: Role, expect: type[M]) -> M:
        transcript = await self._execution(cast)[1].execute()
        for envelope in reversed(transcript):
            if envelope.receiver == role and isinstance(envelope.message, expect):
                return envelope.message
        raise SessionError(
            f"The run ended without {expect.__name__} for {role}",
            where="ask()",
            why=f"it was told {', '.join(e.label for e in transcript if e.receiver == role) or 'nothing'}",
            fix="Expect a message that every path of the protocol sends",
        )

    def _execution(self, cast: Mapping[Role, Participant], feed: Feed | None = None) -> tuple[str, LocalRun]:
        # A journal may know an id that suits it.
        new_id = self.journal.new_id if isinstance(self.journal, Archive) else partial(RandomIds().new_id, "run")
        run_id = self.id if self.id is not None else new_id()
        execution = LocalRun(
            self.protocol,
            cast,
            run_id,
            allowance=self.allowance,
            journal=self.journal,
            tracer=self.tracer if feed is None else both(feed, self.tracer),
            workers=type(self)._workers,
        )
        return run_id, execution

    def _with_caller(self, role: Role, opening: Message, where: str) -> Mapping[Role, Participant]:
        """The cast with `role` played by one opening message."""
        check_opening(self.protocol, role, opening, where=where)
        if role in self.cast:
            raise ProjectionError(
                f"{role} is played by the cast already",
                role=role,
                where=where,
                why="the caller plays the role that the cast leaves out",
                recipe=f"Leave {role} out of the cast, or use run()",
            )
        self._check_complete(where, but=role)
        return {**self.cast, role: Script([opening])}

    def _check_complete(self, where: str, *, but: Role | None = None) -> None:
        nobody = [role for role in self.missing if role != but]
        if nobody:
            raise ConformanceError(
                f"Nobody plays {nobody[0]}",
                where=where,
                fix=f"Cast {nobody[0]}, or play it yourself: ask({nobody[0]}, ...)",
            )


def is_run_id(value: object) -> bool:
    """Whether it can be the id of a run: text that is a part of an address."""
    return isinstance(value, str) and value != "" and not any(c in "/*\0" or c.isspace() for c in value)


def refuse_inside_loop(name: str, instead: str) -> None:
    """Raise a RuntimeError that names `instead`, if an event loop is running here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{name}() blocks, and an event loop is running here; await {instead}() instead")
