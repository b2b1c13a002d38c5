"""Models made of models: `fallback`, `retrying`, `metered`, `traced`. Each is a model again, so they nest.

When a model is asked again (`retrying`):

1. Only after a `ModelUnavailable`. Whatever else it raises comes out at once.
2. At most `attempts` more times.
3. After as many seconds as its service asked for, or else after 0.5 s, twice as long each time, at most 30 s.
4. A service that wants to be left alone for more than 60 s is not waited for: its error comes out at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from partyctl_actors.errors import AllowanceExceeded, ModelError, ModelUnavailable
from partyctl_actors.participants import models
from partyctl_actors.participants.conformity import Checked
from partyctl_actors.participants.function import in_thread
from partyctl_actors.participants.models import Answer, LanguageModel, ModelRequest
from partyctl_actors.protocol.protocol import Protocol as RunProtocol
from partyctl_actors.protocol.role import Role
from partyctl_base.clock import Clock, StopSignal

_log = logging.getLogger("partyctl.runs")

FIRST_PAUSE, LONGEST_PAUSE, PATIENCE = 0.5, 30.0, 60.0
"""Seconds, for rules 3 and 4."""


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """A role's model is asked; `corrections` counts its answers to the same question that could not be used."""

    role: str
    corrections: int


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    """It answered, after so many seconds and for so many tokens."""

    role: str
    seconds: float
    tokens: int


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """It did not answer, or its answer was no longer wanted."""

    role: str
    seconds: float
    error: str


class ModelTracer(Protocol):
    """Receives what happens to a model. Called on the event loop; what it raises is logged."""

    def record(self, event: ModelAsked | ModelAnswered | ModelFailed) -> None:
        """Take note of `event`."""
        ...


def fallback(first: LanguageModel, *others: LanguageModel) -> LanguageModel:
    """Asks the first model, and after a `ModelError` the next. The last one's error comes out.

    Raises:
        TypeError: one of them is no model.
    """
    return _Fallback(tuple(_model("fallback", each) for each in (first, *others)))


def retrying(model: LanguageModel, attempts: int = 3, *, clock: Clock | None = None) -> LanguageModel:
    """Asks again when the model was unavailable; the rules are at the head of this module.

    Args:
        model: the model.
        attempts: how many more times it is asked, at most.
        clock: where the pauses are waited; omitted, on the event loop.

    Raises:
        TypeError: no model, or no number.
        ValueError: a negative number.
    """
    if isinstance(attempts, bool) or not isinstance(attempts, int):
        raise TypeError(f"retrying(attempts) is a number of attempts, not {attempts!r}")
    if attempts < 0:
        raise ValueError(f"retrying(attempts={attempts}) cannot be negative")
    return _Retrying(_model("retrying", model), attempts, clock)


def metered(model: LanguageModel, *, tokens: int) -> LanguageModel:
    """Refuses to be asked once it cost so many tokens.

    Unlike an allowance, which belongs to a run, this belongs to the model: every role and every run that uses this same
    object draws on it. A question under way when the limit is reached is still answered.

    Args:
        model: the model.
        tokens: input and output together; 0 refuses at once.

    Raises:
        TypeError: no model, or no number.
        ValueError: a negative number.
    """
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        raise TypeError(f"metered(tokens=...) is a number of tokens, not {tokens!r}")
    if tokens < 0:
        raise ValueError(f"metered(tokens={tokens}) cannot be negative")
    return _Metered(_model("metered", model), tokens)


def traced(model: LanguageModel, tracer: ModelTracer | None = None) -> LanguageModel:
    """Tells `tracer` of each question and what became of it; omitted, the tracer of the run.

    Tokens need no tracing: what a model reports is counted in the run's allowance anyway.

    Raises:
        TypeError: no model, or no tracer.
    """
    if tracer is not None and not callable(getattr(tracer, "record", None)):
        raise TypeError(f"traced(tracer) has record(event), unlike {tracer!r:.100}")
    return _Traced(_model("traced", model), tracer)


def pause(attempt: int, error: ModelUnavailable) -> float | None:
    """Seconds to wait before asking again; None if it is not worth waiting.

    Args:
        attempt: how many times it was asked again already.
        error: what the model raised last.
    """
    if error.retry_after is None:
        # A huge power of two is no float.
        return min(FIRST_PAUSE * 2.0 ** min(attempt, 20), LONGEST_PAUSE)
    return error.retry_after if error.retry_after <= PATIENCE else None


class _Wrapper:
    """Hands on to all of its models what concerns a role as a whole."""

    def __init__(self, inner: Sequence[LanguageModel]) -> None:
        self._inner = tuple(inner)

    def skip(self) -> None:
        for model in self._inner:
            models.skip(model)

    async def close(self) -> None:
        for model in self._inner:
            await models.close(model)

    def check(self, protocol: RunProtocol, role: Role) -> None:
        for model in self._inner:
            if isinstance(model, Checked):
                model.check(protocol, role)


class _Fallback(_Wrapper):
    def check(self, protocol: RunProtocol, role: Role) -> None:
        """Nothing can be told: any of its models may answer at any place."""

    def fresh(self) -> _Fallback:
        return _Fallback([models.fresh(model) for model in self._inner])

    async def complete(self, request: ModelRequest) -> Answer:
        *others, last = self._inner
        for model in others:
            try:
                return await models.complete(model, request)
            except ModelError as error:
                request.watch(ModelFailed(request.offer.role.name, 0.0, str(error)))
        return await models.complete(last, request)


class _Retrying(_Wrapper):
    def __init__(self, model: LanguageModel, attempts: int, clock: Clock | None) -> None:
        super().__init__([model])
        self._model = model
        self._attempts = attempts
        self._clock = clock

    def fresh(self) -> _Retrying:
        return _Retrying(models.fresh(self._model), self._attempts, self._clock)

    async def complete(self, request: ModelRequest) -> Answer:
        attempt = 0
        while True:
            try:
                return await models.complete(self._model, request)
            except ModelUnavailable as error:
                seconds = pause(attempt, error)
                if attempt == self._attempts or seconds is None:
                    raise
            attempt += 1
            await _wait(self._clock, seconds)


@dataclass(slots=True)
class _Spent:
    tokens: int = 0


class _Metered(_Wrapper):
    def __init__(self, model: LanguageModel, tokens: int, spent: _Spent | None = None) -> None:
        super().__init__([model])
        self._model = model
        self._allowed = tokens
        self._spent = spent or _Spent()

    def fresh(self) -> _Metered:
        return _Metered(models.fresh(self._model), self._allowed, self._spent)

    async def complete(self, request: ModelRequest) -> Answer:
        if self._spent.tokens >= self._allowed:
            raise AllowanceExceeded("tokens", self._spent.tokens, self._allowed, where="metered()")
        answer = await models.complete(self._model, request)
        self._spent.tokens += answer.tokens
        return answer


class _Traced(_Wrapper):
    def __init__(self, model: LanguageModel, tracer: ModelTracer | None) -> None:
        super().__init__([model])
        self._model = model
        self._tracer = tracer

    def fresh(self) -> _Traced:
        return _Traced(models.fresh(self._model), self._tracer)

    async def complete(self, request: ModelRequest) -> Answer:
        record = request.watch if self._tracer is None else _harmless(self._tracer)
        role, clock = request.offer.role.name, asyncio.get_running_loop().time
        record(ModelAsked(role, len(request.corrections)))
        began = clock()
        try:
            answer = await models.complete(self._model, request)
        except BaseException as error:
            record(ModelFailed(role, clock() - began, str(error) or type(error).__name__))
            raise
        record(ModelAnswered(role, clock() - began, answer.tokens))
        return answer


def _harmless(tracer: ModelTracer) -> Callable[[ModelAsked | ModelAnswered | ModelFailed], None]:
    def record(event: ModelAsked | ModelAnswered | ModelFailed) -> None:
        try:
            tracer.record(event)
        # Somebody else's code, and nobody who watches can end a run.
        except Exception:
            _log.exception("A tracer failed at %s; the run goes on", type(event).__name__)

    return record


async def _wait(clock: Clock | None, seconds: float) -> None:
    if clock is None:
        await asyncio.sleep(seconds)
        return
    stop = StopSignal()
    try:
        await in_thread("partyctl model pause", lambda: clock.wait(seconds, stop))
    finally:
        stop.set()


def _model(where: str, given: object) -> LanguageModel:
    if isinstance(given, type) or not isinstance(given, LanguageModel):
        raise TypeError(f"{where}(...) takes a language model, with complete(request), not {given!r:.100}")
    return given
