"""Models behind a service, through the service's own client library: `model("openai:NAME")`, `model("anthropic:NAME")`.

The libraries are extras (`pip install "partyctl[openai]"`) and are imported when a model of theirs is made. They never
retry: `retrying` has the rules for that. A client lives on one event loop, so each role of each run has its own.
"""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeAlias

from partyctl_actors.errors import ModelError, ModelNotFound, ModelRefused, ModelUnavailable
from partyctl_actors.participants.models import Answer, LanguageModel, ModelRequest
from partyctl_actors.participants.prompts import again, answer_of, form, told

# What a client library returns is its own; it is looked into here and leaves as an Answer.
_Client: TypeAlias = Any
_Turn: TypeAlias = dict[str, str]

_BUSY = frozenset({408, 409, 425, 429})


@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is reached and asked.

    Attributes:
        name: the model, as its service calls it.
        key, url: the service's key and address; None for what its library finds in the environment.
        timeout: seconds one request may take.
        answer: tokens of an answer, at most.
    """

    name: str
    key: str | None = field(repr=False)
    url: str | None
    timeout: float
    answer: int


@dataclass(frozen=True, slots=True)
class _Service:
    """A service: the class of its client and how that is asked. Its library, its extra and it have one name."""

    name: str
    client: str
    key: str
    ask: Callable[[_Client, Settings, str, list[_Turn]], Awaitable[Answer]]

    def library(self) -> ModuleType:
        try:
            return importlib.import_module(self.name)
        except ModuleNotFoundError as error:
            if error.name != self.name:
                raise
            raise ModelNotFound(
                f"The client library of {self.name} is not installed",
                where=f'model("{self.name}:...")',
                fix=f'Install it: pip install "partyctl[{self.name}]"',
            ) from None


async def _ask_openai(client: _Client, settings: Settings, system: str, turns: list[_Turn]) -> Answer:
    response = await client.responses.create(
        model=settings.name,
        instructions=system,
        input=turns,
        max_output_tokens=settings.answer,
        text={"format": {"type": "json_object"}},
        store=False,
    )
    usage = response.usage
    tokens = usage.input_tokens + usage.output_tokens if usage is not None else 0
    if response.error is not None:
        raise ModelUnavailable("The model failed", where=f"openai:{settings.name}", why=response.error.message)
    refusals = [part.refusal for item in response.output for part in getattr(item, "content", None) or [] if _no(part)]
    if refusals:
        raise ModelRefused("The model refused to answer", where=f"openai:{settings.name}", why="; ".join(refusals))
    return Answer(response.output_text, tokens)


def _no(part: _Client) -> bool:
    return bool(part.type == "refusal")


async def _ask_anthropic(client: _Client, settings: Settings, system: str, turns: list[_Turn]) -> Answer:
    message = await client.messages.create(
        model=settings.name, system=system, messages=turns, max_tokens=settings.answer
    )
    usage = message.usage
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    if message.stop_reason == "refusal":
        raise ModelRefused("The model refused to answer", where=f"anthropic:{settings.name}")
    text = "".join(block.text for block in message.content if block.type == "text")
    return Answer(text, usage.input_tokens + cached + usage.output_tokens)


SERVICES: Mapping[str, _Service] = {
    "openai": _Service("openai", "AsyncOpenAI", "OPENAI_API_KEY", _ask_openai),
    "anthropic": _Service("anthropic", "AsyncAnthropic", "ANTHROPIC_API_KEY", _ask_anthropic),
}


class HostedModel:
    """See `model`."""

    def __init__(self, service: _Service, settings: Settings, client: _Client = None) -> None:
        self._service = service
        self._settings = settings
        self._library = service.library()
        self._client = client

    def fresh(self) -> HostedModel:
        """The same model with a client of its own."""
        return HostedModel(self._service, self._settings, self.connect())

    async def complete(self, request: ModelRequest) -> Answer:
        """See `LanguageModel.complete`."""
        if self._client is None:
            model = self.fresh()
            try:
                return await model.complete(request)
            finally:
                await model.close()
        system, turns = conversation(request)
        try:
            return await self._service.ask(self._client, self._settings, system, turns)
        except ModelError:
            raise
        except Exception as error:
            known = self._known(error)
            if known is None:
                raise
            raise known from error

    async def close(self) -> None:
        """Close the client's connections."""
        if self._client is not None:
            await self._client.close()

    def connect(self) -> _Client:
        """A client of the service's own library.

        Raises:
            ModelNotFound: it has no key, or another setting that the library does not take.
        """
        settings = self._settings
        given = {"api_key": settings.key, "base_url": settings.url}
        try:
            return getattr(self._library, self._service.client)(
                timeout=settings.timeout, max_retries=0, **{name: value for name, value in given.items() if value}
            )
        except self._library_error() as error:
            raise self._no_key(error) from None

    def _known(self, error: Exception) -> ModelError | None:
        """What the client raised, as an error of ours; None if it is not the service's or the library's."""
        library, where = self._library, repr(self)
        if isinstance(error, library.APIConnectionError):
            why = "it took too long" if isinstance(error, library.APITimeoutError) else str(error.__cause__ or error)
            return ModelUnavailable("The model cannot be reached", where=where, why=why)
        if isinstance(error, library.APIStatusError):
            status, why = error.status_code, f"HTTP {error.status_code}: {_said(error)}"
            if status in _BUSY or status >= 500:
                wait = retry_after(error.response.headers)
                return ModelUnavailable("The model cannot answer now", where=where, why=why, retry_after=wait)
            fix = f"Look at {self._service.key}" if status in (401, 403) else ""
            return ModelRefused("The model's service refused the request", where=where, why=why, fix=fix)
        if isinstance(error, self._library_error()):
            return ModelRefused("The model's client failed", where=where, why=str(error))
        # How the library of Anthropic says that it has no key, at the first request.
        if isinstance(error, TypeError) and "authentication" in str(error):
            return self._no_key(error)
        return None

    def _library_error(self) -> type[Exception]:
        root: type[Exception] = self._library.APIError.__mro__[1]
        return root

    def _no_key(self, error: Exception) -> ModelNotFound:
        fix = f"Set {self._service.key}, or give model(..., api_key=...)"
        return ModelNotFound("There is no key for this model", where=repr(self), why=str(error), fix=fix)

    def __repr__(self) -> str:
        return f'model("{self._service.name}:{self._settings.name}")'


def model(
    name: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    timeout: float = 60.0,
    max_tokens: int = 4096,
) -> LanguageModel:
    """A language model behind a service: `model("openai:gpt-5")`, `model("anthropic:claude-sonnet-4-5")`.

    What it costs is counted in the run's allowance. It is asked once for each answer; `retrying` asks again.

    Args:
        name: the service and its model.
        api_key, base_url: the service's key and address; omitted, what its client library finds in the environment.
        timeout: seconds one request may take.
        max_tokens: tokens of one answer, at most.

    Raises:
        ModelNotFound: there is no such service, or its client library is not installed.
        TypeError: the name is no text.
        ValueError: a limit is not above zero.
    """
    if not isinstance(name, str):
        raise TypeError(f'model(name) is text such as "openai:gpt-5", not {name!r:.100}')
    if not timeout > 0 or math.isinf(timeout) or max_tokens < 1:
        raise ValueError(f"model(timeout={timeout!r}, max_tokens={max_tokens!r}): both are limits above zero")
    service, colon, wanted = name.partition(":")
    if service not in SERVICES or not wanted:
        raise _unknown(name, service, bool(colon and wanted))
    return HostedModel(SERVICES[service], Settings(wanted, api_key, base_url, float(timeout), max_tokens))


def conversation(request: ModelRequest) -> tuple[str, list[_Turn]]:
    """A request as instructions and turns: what the role said is the assistant's, all else the user's.

    The first and the last turn are the user's, and no two in a row are of one side, as every service takes it.
    """
    offer = request.offer
    system = f"You are {offer.role}, in a conversation by declared messages. {request.instructions}".strip()
    turns: list[_Turn] = []
    for envelope in request.history:
        if envelope.sender == offer.role:
            _add(turns, "assistant", answer_of(envelope.message))
        else:
            _add(turns, "user", told([envelope]))
    _add(turns, "user", form(offer))
    for correction in request.corrections:
        _add(turns, "assistant", correction.answer.strip() or "(nothing)")
        _add(turns, "user", again(correction.why, offer))
    return system, turns


def _add(turns: list[_Turn], role: str, content: str) -> None:
    if not turns and role == "assistant":
        turns.append({"role": "user", "content": "Begin."})
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += "\n\n" + content
    else:
        turns.append({"role": role, "content": content})


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds after which a service wants to be asked again; None if it does not say, or says it as a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= seconds < math.inf:
            return seconds
    return None


def _said(error: _Client) -> str:
    body = error.body
    fault = body.get("error", body) if isinstance(body, dict) else None
    text = fault.get("message") if isinstance(fault, dict) else None
    return str(text or error)[:500]


def _unknown(name: str, service: str, whole: bool) -> ModelNotFound:
    near = difflib.get_close_matches(service, SERVICES, n=1)
    known = ", ".join(f'"{each}:NAME"' for each in SERVICES)
    if service in SERVICES:
        fix = f'Name one of its models: "{service}:NAME"'
    elif near:
        fix = f'Did you mean "{near[0]}:{name.partition(":")[2] or "NAME"}"?'
    else:
        fix = f"Use {known}"
    why = f"there is no service {service!r}; known are {known}" if whole else f"a model is named {known}"
    return ModelNotFound("There is no such model", where=f"model({name!r:.100})", why=why, fix=fix)
