"""Errors across a worker's channel: described in the worker, rebuilt at the other end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast, get_type_hints

from partyctl_plugins import errors
from partyctl_plugins.codec import Codec, Mismatch, codec
from partyctl_plugins.errors import AgentSessionError, FailureKind, RecordError, TurnFailedError
from partyctl_plugins.manager import ProviderEntry, cause, trace

TEXT_MAX = 64 * 1024
"""How much of one text of an error crosses the channel, in characters; the end says most."""

_KNOWN: dict[str, type[AgentSessionError]] = {
    cls.__name__: cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, AgentSessionError)
}
_PLACES = ("where", "why", "fix")


def _layout(cls: type[AgentSessionError]) -> dict[str, Codec]:
    hints = get_type_hints(cls)
    return {name: codec(hints.get(name, str)) for name in (*_PLACES, *cls.wire_fields)}


_LAYOUTS = {name: _layout(cls) for name, cls in _KNOWN.items()}


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """An error as data.

    Attributes:
        type: the name of its class in `partyctl_plugins.errors`.
        message: what happened.
        kind: the `FailureKind` of a failed turn, empty for other errors.
        detail: the provider's own words, or the end of a traceback.
        fields: its other attributes.
    """

    type: str
    message: str
    kind: str = ""
    detail: str = ""
    fields: Mapping[str, object] = field(default_factory=dict)


def describe(error: BaseException, entry: ProviderEntry | None, doing: str) -> ErrorRecord:
    """An error as data. One that is not ours is described as a `TurnFailedError` that blames the plugin.

    Args:
        error: what was raised.
        entry: whose plugin raised it, if that is known.
        doing: what the plugin was asked to do, as "turn" or "open".
    """
    if isinstance(error, AgentSessionError) and not isinstance(
        error, RecordError
    ):  # a bad record is the plugin's doing
        try:
            return _described(error)
        except (AttributeError, Mismatch):  # a plugin's own subclass that did not initialize ours
            pass
    foreign = TurnFailedError(
        f"the plugin of provider {entry.name!r} broke" if entry else "the transport broke",
        where=doing,
        why=cause(error),
        fix=f"Report this to the authors of {entry.package}" if entry else "",
        detail=trace(error),
    )
    return _described(foreign)


def rebuild(record: ErrorRecord) -> AgentSessionError:
    """The error that a record describes.

    Raises:
        RecordError: it describes none of ours.
    """
    cls = _KNOWN.get(record.type)
    if cls is None:
        raise RecordError("a worker reported an error of a class that does not exist", why=record.type)
    given: dict[str, object] = dict(record.fields)
    for name in ("kind", "detail"):
        if name in cls.wire_fields:
            given[name] = getattr(record, name)
    try:
        values = {name: attribute.decode(given[name]) for name, attribute in _LAYOUTS[record.type].items()}
    except (KeyError, Mismatch) as error:
        raise RecordError(f"a worker reported a malformed {record.type}", why=str(error)) from error
    # Not by its constructor: that words the message anew, and takes other arguments in each class.
    rebuilt = cls.__new__(cls)
    AgentSessionError.__init__(rebuilt, record.message, **{name: cast(str, values.pop(name)) for name in _PLACES})
    for name, value in values.items():
        setattr(rebuilt, name, value)
    return rebuilt


def _described(error: AgentSessionError) -> ErrorRecord:
    name = next(cls.__name__ for cls in type(error).__mro__ if _KNOWN.get(cls.__name__) is cls)
    values = {field: attribute.encode(_cut(getattr(error, field))) for field, attribute in _LAYOUTS[name].items()}
    kind, detail = values.pop("kind", ""), values.pop("detail", "")
    return ErrorRecord(name, str(_cut(error.what)), str(kind), str(detail), values)


def _cut(value: object) -> object:
    return value[-TEXT_MAX:] if isinstance(value, str) and not isinstance(value, FailureKind) else value
