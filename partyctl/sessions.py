"""The agent sessions of a party, as its files tell them: who each is, what it was asked, and where it stands.

    $XDG_STATE_HOME/partyctl/<party>/sessions/about/<name>.msgpack   who it is: role, settings, since when
    $XDG_STATE_HOME/partyctl/<party>/sessions/turns-NN.sqlite        state, intents and outcomes

A node writes them; anybody may look. A session is at the node that its name gives, so that two nodes never have one.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from partyctl.errors import NoSuchSession
from partyctl.logbook import timestamp
from partyctl.maps import Map
from partyctl_actors.errors import JournalError
from partyctl_actors.journals import refusals
from partyctl_actors.journals.seals import seal
from partyctl_actors.supervision.policy_events import Phase
from partyctl_actors.supervision.policy_state import SessionState, from_plain
from partyctl_actors.supervision.spending import Used, recorded
from partyctl_actors.supervision.turn_log import TurnLogs
from partyctl_actors.supervision.turn_shard import Looked, TurnRow
from partyctl_base.paths import state_directory
from partyctl_plugins.codec import Mismatch, codec, pack, unpack
from partyctl_plugins.contract import ProviderProfile, Turn
from partyctl_plugins.errors import RecordError

NAME_RULE: Final = "Use at most 64 letters, digits and . _ -, with no dot first"
WHY_MAX: Final = 1000
"""Characters of why a session failed; the whole is with its turn."""
ABOUT_VERSION: Final = 2

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_PROFILE = codec(ProviderProfile)
_TURN = codec(Turn)
_SUFFIX = ".msgpack"


def is_session_name(name: str) -> bool:
    """Whether `name` can name an agent session."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class About:
    """Who an agent session is, from its begin on.

    Attributes:
        name: its name.
        role: the role of party.toml whose settings it began with.
        agent: these settings, as `casting.describe_agent` gives them.
        idle_release_after: seconds after which it lets its worker go; None for never.
        begun: when, in seconds since 1970.
        profile: what its provider can do; None until a worker said so.
    """

    name: str
    role: str
    agent: Mapping[str, object]
    idle_release_after: float | None
    begun: float
    profile: ProviderProfile | None = None

    @property
    def provider(self) -> str:
        """Its provider's name."""
        return str(self.agent.get("source", ""))


class Shelf:
    """The files of a party's agent sessions.

    Args:
        directory: says where they are, or raises; they are made when the first is written.
    """

    def __init__(self, directory: Callable[[], Path]) -> None:
        self._directory = directory

    @classmethod
    def of(cls, party: str) -> "Shelf":
        """That of a party. What uses it raises PathError as `state_directory` does."""
        return cls(lambda: state_directory(party) / "sessions")

    @property
    def directory(self) -> Path:
        """Where they are."""
        return self._directory()

    def names(self) -> list[str]:
        """All sessions, by name."""
        found = (each.name.removesuffix(_SUFFIX) for each in self._about.glob(f"*{_SUFFIX}"))
        return sorted(name for name in found if is_session_name(name))

    def load(self, name: str) -> About | None:
        """Who a session is; None if there is none of this name.

        Raises:
            JournalError: its file cannot be read.
        """
        if not is_session_name(name):
            return None
        path = self._path(name)
        try:
            return _about_from(unpack(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, RecordError, Mismatch, LookupError, TypeError, ValueError) as error:
            raise JournalError(
                "What is known of an agent session cannot be read",
                where=str(path),
                why=str(error),
                fix="Restore the file from a copy, or delete the session and begin it anew",
            ) from error

    def check(self, name: str) -> None:
        """See that there is a session of this name, damaged or not. Raises NoSuchSession."""
        names = self.names()
        if name not in names:
            raise NoSuchSession(name, names)

    def get(self, name: str) -> About:
        """Who a session is.

        Raises:
            NoSuchSession: there is none of this name.
        """
        about = self.load(name)
        if about is None:
            raise NoSuchSession(name, self.names())
        return about

    def save(self, about: About) -> None:
        """Keep it: durable when this returns.

        Raises:
            JournalError: it cannot be kept.
        """
        path = self._path(about.name)
        try:
            self._about.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._about, prefix=".", delete=False) as file:
                try:
                    file.write(pack(_about_to(about)))
                    file.flush()
                    os.fsync(file.fileno())
                    Path(file.name).replace(path)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
            _sync(self._about)
        except OSError as error:
            why = error.strerror or str(error)
            raise JournalError("An agent session cannot be kept", where=str(path), why=why) from error

    def delete(self, name: str) -> None:
        """Delete a session, damaged or not: its log, then who it is. Nobody has it: see `partyctl.node.sessions`.

        Raises:
            NoSuchSession: there is none of this name.
            JournalError: it could not be deleted; then it is there, and can be deleted again.
        """
        self.check(name)
        with contextlib.closing(TurnLogs(self.directory, make=False)) as logs:
            logs.delete(name)
        path = self._path(name)
        try:
            path.unlink()
            _sync(self._about)
        except OSError as error:
            raise refusals.undeleted(str(path), error, path) from error

    def look(self, name: str) -> Looked:
        """State and turns of a session, without owning it; nothing, if it has no log yet. Raises JournalError."""
        with contextlib.closing(TurnLogs(self.directory, make=False)) as logs:
            return logs.look(name) or Looked(None, ())

    @property
    def _about(self) -> Path:
        return self.directory / "about"

    def _path(self, name: str) -> Path:
        return self._about / f"{name}{_SUFFIX}"


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _about_to(about: About) -> Map:
    profile = None if about.profile is None else _PROFILE.encode(about.profile)
    kept: Map = {"version": ABOUT_VERSION, "name": about.name, "role": about.role, "agent": dict(about.agent)}
    kept |= {"idle_release_after": about.idle_release_after, "begun": about.begun, "profile": profile}
    return kept | {"seal": seal(data=pack(kept))}


def _about_from(kept: object) -> About:
    if not isinstance(kept, dict):
        raise TypeError("it is none of ours")
    if kept.get("version") != ABOUT_VERSION:
        raise ValueError(f"its version is {kept.get('version')!r}, and this partyctl reads {ABOUT_VERSION}")
    if kept.pop("seal") != seal(data=pack(kept)):
        raise ValueError("it does not have the checksum it was written with")
    idle, profile = kept["idle_release_after"], kept["profile"]
    about = About(str(kept["name"]), str(kept["role"]), dict(kept["agent"]), idle, float(kept["begun"]))
    with contextlib.suppress(Mismatch):  # of another version: a worker will say it again
        if profile is not None:
            about = replace(about, profile=cast(ProviderProfile, _PROFILE.decode(profile)))
    return about


# --- what is shown ---


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn, for whoever looks.

    Attributes:
        turn_id: its id.
        state: answered, interrupted, failed, lost (in flight: its outcome is unknown), not started, or under way.
        prompt: what was asked.
        text: the answer. why: if there is none, why not.
        conversation: where it ran.
        continuity: what became of the conversation.
        structured: the answer as data, where there is one.
        cost_usd, duration_ms: what all its attempts took at the provider, as far as known.
        input_tokens, output_tokens: what they used, 0 if that is not known.
        rules: the rules of recovery that were applied to it, in order.
    """

    turn_id: str
    state: str
    prompt: str
    text: str = ""
    conversation: str | None = None
    continuity: str | None = None
    structured: object = None
    cost_usd: float | None = None
    duration_ms: int | None = None
    why: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    rules: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it may be asked anew: nobody knows an answer to it."""
        return self.state in ("lost", "not started", "failed", "interrupted")

    def document(self) -> Map:
        """For --json."""
        has_answer = self.state in ("answered", "interrupted") and not self.why
        told: Map = {"turn": self.turn_id, "state": self.state, "prompt": self.prompt}
        told |= {"answer": self.text if has_answer else None, "why": self.why or None}
        told |= {"conversation": self.conversation, "continuity": self.continuity, "structured": self.structured}
        told |= {"usage": {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}}
        return told | {"cost_usd": self.cost_usd, "duration_ms": self.duration_ms, "rules": list(self.rules)}


def turn_view(row: TurnRow, under_way: str | None) -> TurnView:
    """One turn.

    Args:
        row: what the log has of it.
        under_way: the turn that a node is at, None if it is at none.
    """
    prompt = str(row.request.get("prompt", ""))
    outcome = row.outcome or {}
    applied = outcome.get("rules")
    rules = tuple(map(str, applied)) if isinstance(applied, list) else ()
    failed, finished, used = outcome.get("failed"), outcome.get("finished"), recorded(outcome)
    if isinstance(failed, dict):
        lost = {True: "lost", False: "not started", None: "failed"}[failed.get("in_flight")]
        cancelled = failed.get("type") == "TurnCancelledError"
        why = str(failed.get("message", ""))
        return _with_use(
            TurnView(row.turn_id, "interrupted" if cancelled else lost, prompt, why=why, rules=rules), used
        )
    if isinstance(finished, dict):
        try:
            return _with_use(finished_view(prompt, cast(Turn, _TURN.decode(finished)), rules), used)
        except Mismatch:
            return TurnView(row.turn_id, "answered", prompt, "(by another version of partyctl, which can show it)")
    return TurnView(row.turn_id, "under way" if row.turn_id == under_way else "lost", prompt)


def _with_use(view: TurnView, used: Used | None) -> TurnView:
    """The view with what all attempts of its turn used, where its log says so."""
    if used is None:
        return view
    return replace(
        view, input_tokens=used.input_tokens, output_tokens=used.output_tokens, cost_usd=used.cost_usd,
        duration_ms=used.duration_ms or view.duration_ms,
    )  # fmt: skip


def lost_turns(turns: Sequence[TurnView]) -> list[str]:
    """The ids of turns, oldest first, that were lost in flight and have not been asked anew since."""
    asked_after = [{later.prompt for later in turns[number:]} for number in range(1, len(turns) + 1)]
    return [
        each.turn_id
        for each, prompts in zip(turns, asked_after, strict=True)
        if each.state == "lost" and each.prompt not in prompts
    ]


def finished_view(prompt: str, turn: Turn, rules: Sequence[str] = ()) -> TurnView:
    """A turn that came to its result, after these rules were applied to it."""
    result, tokens = turn.result, turn.result.usage.tokens
    return TurnView(
        turn.turn_id,
        "interrupted" if result.interrupted or turn.forced else "answered",
        prompt,
        result.text,
        turn.conversation_id,
        turn.continuity.value,
        result.structured_output,
        result.cost_usd,
        result.duration_ms,
        input_tokens=tokens.input_tokens,
        output_tokens=tokens.output_tokens,
        rules=tuple(rules),
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a session stands: idle, busy, waiting, limited, degraded or failed; and why, or until when."""

    word: str
    why: str = ""


def standing(
    state: SessionState | None, last: TurnView | None, *, at: float, epoch: float, is_held: bool, cause: str = ""
) -> Standing:
    """Where a session stands.

    Args:
        state: its state, None if it was asked nothing yet.
        last: its last turn.
        at: now, on the clock that never goes back. epoch: now, in seconds since 1970.
        is_held: whether a node is there that goes on with a turn that is not over.
        cause: what a wait is for, as far as it is known.
    """
    turn = None if state is None else state.turn
    if state is not None and turn is not None and turn.phase is not Phase.PREPARED:
        if not is_held:
            return Standing("degraded", f"turn {turn.turn_id} was under way when its node ended")
        if turn.phase is Phase.WAITING:
            left = max(0.0, turn.due - at)
            why = f"attempt {turn.attempts + 1} of turn {turn.turn_id} in {left:.0f} s"
            return Standing("waiting", f"{why}: {cause}" if cause else why)
        return Standing("busy", f"attempt {max(1, turn.attempts)} of turn {turn.turn_id}")
    if state is not None and state.limited_until is not None and state.limited_until > epoch:
        return Standing("limited", f"until {timestamp(state.limited_until)}")
    if last is None:
        return Standing("idle")
    if last.state == "lost":
        return Standing("degraded", f"turn {last.turn_id} was lost in flight: its outcome is unknown")
    if last.continuity == "replaced":
        return Standing("degraded", f"turn {last.turn_id} was answered in a fresh conversation")
    if last.state in ("failed", "not started"):
        first, *_ = last.why.splitlines() or [""]
        return Standing("failed", first if len(first) <= WHY_MAX else f"{first[:WHY_MAX]} ...")
    return Standing("idle")


def document(about: About, state: SessionState | None, stands: Standing, turns: Sequence[TurnView]) -> Map:
    """One session, for --json and for `status`."""
    last = turns[-1] if turns else None
    told: Map = {"session": about.name, "state": stands.word, "why": stands.why or None, "role": about.role}
    told |= {"provider": about.provider, "begun": timestamp(about.begun)}
    told |= {
        "conversation": None if state is None else state.conversation_id,
        "last_conversation": None if state is None else state.last_turn_conversation_id,
        "limited_until": None if state is None or state.limited_until is None else timestamp(state.limited_until),
        "turns": len(turns),
        "counts": {} if state is None else dict(state.counts),
        "stalled": 0 if state is None else state.stalled,
    }
    return told | {"last_turn": None if last is None else last.document()}


def read_state(looked: Looked) -> SessionState | None:
    """The state in a log. Raises JournalError: it is of another version."""
    return None if looked.state is None else from_plain(dict(looked.state))
