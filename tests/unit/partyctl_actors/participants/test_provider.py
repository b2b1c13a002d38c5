"""A role played by a provider: its prompts, what it makes of the answers, and its worker."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from fakes.launcher import FakeLauncher, FakeWorker
from fakes.quiet import quietly
from fakes.runs import A, B, Ping, Pong, Stop, rally
from hypothesis import given
from hypothesis import strategies as st

from partyctl_actors.errors import ContentError, SelectionError, SessionError
from partyctl_actors.journals import JsonlJournal
from partyctl_actors.participants import Agent, Meter, Offer, Seat
from partyctl_actors.participants.answers import read as read_answer
from partyctl_actors.participants.provider import ProviderPlayer, form, told
from partyctl_actors.participants.sessions import session_label
from partyctl_actors.supervision import TakenUp, WorkerStarted
from partyctl_actors.supervision.policy_commands import Decided
from partyctl_actors.supervision.policy_events import Found
from partyctl_actors.supervision.run_logs import run_logs
from partyctl_actors.transcript import Envelope
from partyctl_confinement.client import LauncherClient
from partyctl_confinement.errors import ConfinementRefused
from partyctl_confinement.requests import LABEL_MAX
from partyctl_plugins.contract import (
    ApprovalPolicy,
    NativePermissions,
    OutputSchema,
    ProviderProfile,
    ProviderUsage,
    RetryPolicy,
    SchemaMechanism,
    TokenUsage,
    TransportKind,
    TurnResult,
)
from partyctl_plugins.errors import (
    AgentSessionError,
    FailureKind,
    ProviderNotFound,
    SessionResumeError,
    TurnFailedError,
)
from partyctl_plugins.events import UsageReport
from partyctl_plugins.failures import describe
from partyctl_plugins.records import (
    Ack,
    Closed,
    Event,
    Failed,
    Load,
    Loaded,
    Open,
    Opened,
    Phase,
    Ready,
    Result,
    Turn,
    decode_command,
    encode_report,
)

OFFER = Offer(B, A, (Pong, Stop))


def answer(label: object, payload: object) -> str:
    return json.dumps({"label": label, "payload": payload})


# --- reading answers


@given(st.text())
def test_any_text_is_a_message_or_an_error_of_ours(text: str) -> None:
    with contextlib.suppress(ContentError, SelectionError):
        assert type(read_answer(text, OFFER)) in OFFER.messages


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["label", "payload", "Pong"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["label", "payload", "text"]) | st.text(), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(json_values)
def test_any_json_is_a_message_or_an_error_of_ours(value: object) -> None:
    with contextlib.suppress(ContentError, SelectionError):
        assert type(read_answer(json.dumps(value), OFFER)) in OFFER.messages


@given(st.sampled_from(["Pong", "Stop"]) | json_values, json_values)
def test_any_payload_is_a_message_or_an_error_of_ours(label: object, payload: object) -> None:
    with contextlib.suppress(ContentError, SelectionError):
        assert type(read_answer(answer(label, payload), OFFER)) in OFFER.messages


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_a_message_says_comes_back(text: str) -> None:
    assert read_answer(answer("Pong", {"text": text}), OFFER) == Pong(text)


@pytest.mark.parametrize("around", ["{}", "Here it is:\n```json\n{}\n```\nBye.", "\n {} \n"])
def test_prose_around_the_object_is_left_aside(around: str) -> None:
    assert read_answer(around.replace("{}", answer("Pong", {"text": "x"})), OFFER) == Pong("x")


def test_a_message_without_fields_needs_no_payload() -> None:
    assert read_answer('{"label": "Stop"}', OFFER) == Stop()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", ContentError),
        ("I would rather not.", ContentError),
        ("}{", ContentError),
        ("[" * 100_000, ContentError),
        ("{" * 100_000 + "}", ContentError),
        (answer("Ping", {}), SelectionError),
        (answer(["Pong"], {}), SelectionError),
        (answer({"a": 1}, {}), SelectionError),
        (answer(None, {}), SelectionError),
        (answer("Pong", "text"), ContentError),
        (answer("Pong", {"text": 1}), ContentError),
        (answer("Pong", {"more": 1}), ContentError),
    ],
)
def test_what_is_no_answer_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_answer(text, OFFER)


# --- asking


def test_the_form_names_receiver_labels_and_schemas() -> None:
    text = form(OFFER)
    assert "Write your message to A" in text
    for kind in OFFER.messages:
        assert f'"label": "{kind.label}"' in text


def test_envelopes_are_told_one_a_line() -> None:
    assert told([Envelope(A, B, Ping("hö"))]) == 'A to B: Ping {"text": "hö"}'


class FakeProvider:
    """A worker that gives these answers, one a turn, and remembers its prompts. None: the turn has no end.

    An answer that is a mapping is one by the output schema.
    """

    def __init__(
        self, *answers: str | Mapping[str, object] | AgentSessionError | None, profile: ProviderProfile | None = None
    ) -> None:
        self.answers = list(answers)
        self.profile = profile or ProviderProfile("scripted")
        self.reports = False
        self.schemas: list[OutputSchema | None] = []
        self.resumed: list[str | None] = []
        self.asked = asyncio.Semaphore(0)
        self.prompts: list[str] = []
        self.loads: list[Load] = []

    async def __call__(self, worker: FakeWorker) -> None:
        await worker.says(encode_report(Ready(1)))
        while (received := await worker.channel.receive()) is not None:
            command = decode_command(received.data)
            if isinstance(command, Load):
                self.loads.append(command)
                await worker.says(encode_report(Loaded(self.profile)))
            elif isinstance(command, Open):
                self.resumed.append(command.spec.resume_id)
                await worker.says(encode_report(Opened("c-1")))
            elif isinstance(command, Turn):
                self.prompts.append(command.request.prompt)
                self.schemas.append(command.request.output_schema)
                self.asked.release()
                await self._turn(worker, command.turn_id)
            elif not isinstance(command, Ack):
                await worker.says(encode_report(Closed()))
                return

    async def _turn(self, worker: FakeWorker, turn_id: str) -> None:
        text = self.answers.pop(0) if self.answers else ""
        if self.reports:
            used = ProviderUsage(tokens=TokenUsage(input_tokens=3, output_tokens=2))
            await worker.says(encode_report(Event(turn_id, UsageReport(used))))
        if isinstance(text, AgentSessionError):
            await worker.says(encode_report(Failed(Phase.TURN, describe(text, None, "turn"), turn_id)))
        elif text is not None:
            usage = ProviderUsage(tokens=TokenUsage(input_tokens=3, output_tokens=2))
            said, structured = (text, None) if isinstance(text, str) else ("", dict(text))
            result = TurnResult(said, structured_output=structured, usage=usage)
            await worker.says(encode_report(Result(turn_id, result, "c-1")))


class Source:
    """A source of workers over a fake launcher."""

    def __init__(self, launcher: FakeLauncher) -> None:
        self.launcher = launcher

    async def client(self) -> LauncherClient:
        return self.launcher.client

    async def close(self) -> None:
        pass


def agent(repair: int = 1, instructions: str = "Be brief.", **more: object) -> Agent:
    return Agent(  # type: ignore[call-overload, no-any-return]
        "scripted",
        instructions,
        permissions=NativePermissions.bypass(),
        approvals=ApprovalPolicy.DENY,
        repair=repair,
        **more,
    )


class Stage:
    """A player and what it told."""

    def __init__(self, played: Agent, provider: FakeProvider, directory: Path | None = None) -> None:
        self.launcher = FakeLauncher(provider)
        self.seen: list[object] = []
        self.meter = Meter()
        logs = None if directory is None else run_logs(JsonlJournal(directory))
        seat = Seat("run-1", B, rally, Source(self.launcher), self.seen.append, self.meter, logs)
        player = played.bind(seat)
        assert isinstance(player, ProviderPlayer)
        self.player = player


def playing(
    provider: FakeProvider,
    work: Callable[[Stage], Awaitable[None]],
    played: Callable[[], Agent] = agent,
    directory: Path | None = None,
) -> Stage:
    async def play() -> Stage:
        stage = Stage(played(), provider, directory)
        try:
            await work(stage)
        finally:
            await stage.player.close()
            await stage.launcher.close()
        return stage

    return quietly(play())


PONG = answer("Pong", {"text": "x"})


def test_a_role_says_what_its_agent_answers_and_counts_the_tokens() -> None:
    async def work(stage: Stage) -> None:
        assert stage.player.supervisor is None
        assert await stage.player.author(OFFER) == Pong("x")
        assert stage.seen == [WorkerStarted("B", "scripted", 1000, "unconfined")]
        assert stage.meter.take() == 5

    playing(FakeProvider(PONG), work)


def test_the_first_prompt_introduces_and_later_ones_tell_what_is_new() -> None:
    provider = FakeProvider(PONG, PONG)

    async def work(stage: Stage) -> None:
        stage.player.recall(Envelope(B, A, Pong("before")))
        stage.player.hear(Envelope(A, B, Ping("one")))
        await stage.player.author(OFFER)
        stage.player.hear(Envelope(A, B, Ping("two")))
        await stage.player.author(OFFER)

    playing(provider, work)
    first, second = provider.prompts
    assert first.startswith("You are B, in a conversation with A.\n\nBe brief.\n\nSaid before:\nB to A: Pong")
    assert '"one"' in first
    assert second.startswith('New messages:\nA to B: Ping {"text": "two"}')
    assert '"one"' not in second


def test_a_fresh_conversation_is_told_everything() -> None:
    provider = FakeProvider(PONG, SessionResumeError(session_id="c-1"), SessionResumeError(session_id="c-1"), PONG)

    async def work(stage: Stage) -> None:
        stage.player.hear(Envelope(A, B, Ping("one")))
        await stage.player.author(OFFER)
        stage.player.hear(Envelope(A, B, Ping("two")))
        assert await stage.player.author(OFFER) == Pong("x")

    playing(provider, work)
    _, short, full, again = provider.prompts
    assert short.startswith('New messages:\nA to B: Ping {"text": "two"}')
    # The pinned turn was refused; the ordinary one after it was, too, and then asked again in a fresh conversation.
    assert full == again
    said = 'Said before:\nA to B: Ping {"text": "one"}\nB to A: Pong {"text": "x"}'
    assert f'Be brief.\n\n{said}\n\nNew messages:\nA to B: Ping {{"text": "two"}}' in full


def test_a_provider_that_is_overloaded_is_asked_again_by_the_agents_own_retries() -> None:
    provider = FakeProvider(TurnFailedError("overloaded", kind=FailureKind.TRANSIENT), PONG)

    async def work(stage: Stage) -> None:
        assert await stage.player.author(OFFER) == Pong("x")

    playing(provider, work, lambda: agent(retry=RetryPolicy((0.01,))))
    assert len(provider.prompts) == 2


def test_an_answer_that_cannot_be_used_is_asked_for_again() -> None:
    provider = FakeProvider("no", answer("Ping", {}), PONG)

    async def work(stage: Stage) -> None:
        assert await stage.player.author(OFFER) == Pong("x")
        assert stage.meter.take() == 15

    playing(provider, work, lambda: agent(repair=2))
    assert [prompt.partition(":")[0] for prompt in provider.prompts[1:]] == ["That answer cannot be used"] * 2


def test_after_the_last_repair_the_error_is_raised() -> None:
    async def work(stage: Stage) -> None:
        with pytest.raises(ContentError):
            await stage.player.author(OFFER)

    playing(FakeProvider("no", PONG), work, lambda: agent(repair=0))


def test_a_worker_that_cannot_start_is_let_go_and_the_cause_is_told() -> None:
    async def dying(worker: FakeWorker) -> None:
        await worker.says(encode_report(Ready(1)))
        await worker.exits(9)

    async def work() -> None:
        launcher = FakeLauncher(dying)
        player = agent().bind(Seat("run-1", B, rally, Source(launcher)))
        with pytest.raises(Exception, match="exited with status 9"):
            await player.author(OFFER)  # type: ignore[misc]
        await player.close()
        await launcher.close()

    quietly(work())


def test_a_cancelled_role_ends_its_worker() -> None:
    async def work(stage: Stage) -> None:
        authoring = asyncio.ensure_future(stage.player.author(OFFER))
        await asyncio.sleep(0.1)
        authoring.cancel()
        await asyncio.wait((authoring,))
        await stage.player.cancel("enough")
        await stage.player.close()
        assert stage.launcher.workers[0].exited

    playing(FakeProvider(None), work)


def test_settings_reach_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    provider = FakeProvider(PONG)

    async def work(stage: Stage) -> None:
        await stage.player.author(OFFER)

    settings = {"cwd": tmp_path, "env": {"MINE": "1"}, "options": {"script": "s"}, "transport": TransportKind.ONE_SHOT}
    playing(provider, work, lambda: agent(**settings))  # type: ignore[arg-type]
    (load,) = provider.loads
    assert (load.cwd, load.kind, load.options) == (str(tmp_path), TransportKind.ONE_SHOT, {"script": "s"})
    assert load.env["MINE"] == "1"
    assert "CLAUDECODE" not in load.env


def test_what_cannot_be_had_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfinementRefused):
        agent(confinement="strict").bind(Seat("run-1", B, rally))
    nobody = Agent("nobody", permissions=NativePermissions.bypass(), approvals=ApprovalPolicy.DENY)
    with pytest.raises(ProviderNotFound):
        nobody.bind(Seat("run-1", B, rally))


def test_without_a_source_of_workers_a_role_says_so() -> None:
    async def work() -> None:
        player = agent().bind(Seat("run-1", B, rally))
        with pytest.raises(SessionError, match="no source of workers"):
            await player.author(OFFER)  # type: ignore[misc]
        await player.close()

    quietly(work())


# --- output schemas

SCHEMAS = ProviderProfile("scripted", output_schema=SchemaMechanism.INLINE_JSON)


def test_a_provider_that_takes_schemas_gets_the_same_one_in_every_turn_and_prompts_that_say_only_the_choice() -> None:
    provider = FakeProvider({"message": {"label": "Pong", "payload": {"text": "x"}}}, PONG, profile=SCHEMAS)

    async def work(stage: Stage) -> None:
        assert await stage.player.author(Offer(B, A, (Pong,))) == Pong("x")
        assert await stage.player.author(OFFER) == Pong("x")

    playing(provider, work)
    first, second = provider.schemas
    assert first is not None
    assert first == second
    forms = first.schema["properties"]["message"]["anyOf"]  # type: ignore[index]
    assert [each["properties"]["label"]["enum"] for each in forms] == [["Pong"], ["Stop"]]
    assert provider.prompts[0].endswith('What you may say now, by its label: "Pong" (A pong.).')
    assert provider.prompts[1].endswith('What you may say now, by its label: "Pong" (A pong.), "Stop" (Enough.).')
    assert "schema" not in "".join(provider.prompts)


def test_what_the_schema_allows_and_the_step_does_not_is_asked_for_again() -> None:
    stop = {"message": {"label": "Stop", "payload": {}}}
    provider = FakeProvider(stop, {"message": {"label": "Pong", "payload": {"text": "x"}}}, profile=SCHEMAS)

    async def work(stage: Stage) -> None:
        assert await stage.player.author(Offer(B, A, (Pong,))) == Pong("x")
        assert stage.meter.take() == 10

    playing(provider, work)
    assert "'Stop' is not on offer" in provider.prompts[1]
    assert "PAYLOAD" not in provider.prompts[1]


def test_a_turn_that_fails_by_its_schema_is_repaired_like_an_answer_that_cannot_be_used() -> None:
    failed = TurnFailedError("no output by the schema", kind=FailureKind.SCHEMA)
    provider = FakeProvider(failed, PONG, profile=SCHEMAS)

    async def work(stage: Stage) -> None:
        assert await stage.player.author(OFFER) == Pong("x")

    playing(provider, work)
    assert "That answer cannot be used: no output by the schema" in provider.prompts[1]


def test_after_the_last_repair_a_failure_by_the_schema_is_raised() -> None:
    async def work(stage: Stage) -> None:
        with pytest.raises(TurnFailedError, match="no output"):
            await stage.player.author(OFFER)

    failed = TurnFailedError("no output by the schema", kind=FailureKind.SCHEMA)
    playing(FakeProvider(failed, PONG, profile=SCHEMAS), work, lambda: agent(repair=0))


def test_a_provider_that_takes_none_finds_the_schema_in_the_prompt() -> None:
    provider = FakeProvider(PONG)

    async def work(stage: Stage) -> None:
        await stage.player.author(OFFER)

    playing(provider, work)
    assert provider.schemas == [None]
    assert "PAYLOAD by schema" in provider.prompts[0]


# --- a run that goes on


def test_a_worker_of_a_durable_run_is_found_by_its_run_and_role_and_another_by_nothing(tmp_path: Path) -> None:
    stage = playing(FakeProvider(PONG), _first, directory=tmp_path)
    (worker,) = stage.launcher.workers
    assert worker.spawn["labels"] == {"role": "B", "run": "run-1", "provider": "scripted", "session": "run-1/B"}
    assert (worker.spawn["epoch"], stage.launcher.attaches) == (1, [])
    (worker,) = playing(FakeProvider(PONG), _first).launcher.workers
    assert "session" not in worker.spawn["labels"]


def test_a_name_that_is_no_label_is_shortened_to_one_of_its_own() -> None:
    names = ["x" * length for length in (LABEL_MAX, LABEL_MAX + 1, LABEL_MAX + 2)]
    labels = [session_label(name) for name in names]
    assert labels[0] == names[0]
    assert len(set(labels)) == 3
    assert max(map(len, labels)) <= LABEL_MAX


async def _first(stage: Stage) -> None:
    stage.player.hear(Envelope(A, B, Ping("one")))
    assert await stage.player.author(OFFER) == Pong("x")


def _recalled(stage: Stage) -> None:
    stage.player.hear(Envelope(A, B, Ping("one")))
    stage.player.recall(Envelope(B, A, Pong("x")))
    stage.player.hear(Envelope(A, B, Ping("two")))


def test_a_run_that_goes_on_continues_the_conversation_and_tells_only_what_is_new(tmp_path: Path) -> None:
    playing(FakeProvider(PONG), _first, directory=tmp_path)
    provider = FakeProvider(PONG)

    async def second(stage: Stage) -> None:
        _recalled(stage)
        await stage.player.author(OFFER)

    stage = playing(provider, second, directory=tmp_path)
    assert stage.launcher.attaches == [("run-1/B", 2)]
    assert TakenUp("B", Found.GONE, None) in stage.seen
    assert provider.resumed == ["c-1"]
    (prompt,) = provider.prompts
    assert prompt.startswith('New messages:\nA to B: Ping {"text": "two"}')
    assert '"one"' not in prompt


def test_a_role_that_is_taken_up_attaches_before_it_is_asked_and_knows_its_past_then(tmp_path: Path) -> None:
    playing(FakeProvider(PONG), _first, directory=tmp_path)
    provider = FakeProvider(PONG)

    async def second(stage: Stage) -> None:
        stage.player.take_up()
        async with asyncio.timeout(10):
            while TakenUp("B", Found.GONE, None) not in stage.seen:
                await asyncio.sleep(0)
        _recalled(stage)
        assert await stage.player.author(OFFER) == Pong("x")

    assert len(playing(provider, second, directory=tmp_path).launcher.attaches) == 1
    assert provider.prompts[0].startswith("New messages:")


def test_an_answer_that_the_run_did_not_come_to_record_is_not_asked_for_again(tmp_path: Path) -> None:
    playing(FakeProvider(PONG), _first, directory=tmp_path)
    provider = FakeProvider(answer("Stop", {}))

    async def second(stage: Stage) -> None:
        await _first(stage)
        assert stage.meter.take() == 5
        assert provider.prompts == []
        stage.player.hear(Envelope(A, B, Ping("two")))
        assert await stage.player.author(OFFER) == Stop()

    playing(provider, second, directory=tmp_path)
    assert len(provider.prompts) == 1


def test_what_an_answer_cost_that_the_run_did_not_come_to_record_is_counted_with_its_attempts(tmp_path: Path) -> None:
    provider = FakeProvider(TurnFailedError("overloaded", kind=FailureKind.TRANSIENT), "no", PONG)
    provider.reports = True
    playing(provider, _first, lambda: agent(retry=RetryPolicy((0.01,))), directory=tmp_path)

    async def second(stage: Stage) -> None:
        await _first(stage)
        assert stage.meter.take() == 15

    playing(FakeProvider(), second, directory=tmp_path)


def test_an_answer_of_before_that_cannot_be_used_is_corrected_and_costs_no_repair(tmp_path: Path) -> None:
    async def failing(stage: Stage) -> None:
        with pytest.raises(ContentError):
            await stage.player.author(OFFER)

    playing(FakeProvider("no"), failing, lambda: agent(repair=0), directory=tmp_path)
    provider = FakeProvider(PONG)

    async def second(stage: Stage) -> None:
        assert await stage.player.author(OFFER) == Pong("x")

    playing(provider, second, lambda: agent(repair=0), directory=tmp_path)
    assert provider.prompts[0].startswith("That answer cannot be used")


def test_a_turn_that_was_interrupted_is_asked_again_in_its_conversation(tmp_path: Path) -> None:
    async def cut(stage: Stage) -> None:
        await _first(stage)
        await first.asked.acquire()
        stage.player.hear(Envelope(A, B, Ping("two")))
        authoring = asyncio.ensure_future(stage.player.author(OFFER))
        await first.asked.acquire()
        authoring.cancel()
        await asyncio.wait((authoring,))

    first, provider = FakeProvider(PONG, None), FakeProvider(PONG)
    playing(first, cut, directory=tmp_path)

    async def second(stage: Stage) -> None:
        _recalled(stage)
        assert await stage.player.author(OFFER) == Pong("x")

    playing(provider, second, directory=tmp_path)
    assert provider.resumed == ["c-1"]
    assert provider.prompts[0].startswith("New messages:")


def test_a_conversation_that_missed_something_is_told_everything(tmp_path: Path) -> None:
    playing(FakeProvider(PONG), _first, directory=tmp_path)
    provider = FakeProvider(PONG)

    async def third(stage: Stage) -> None:
        _recalled(stage)
        stage.player.recall(Envelope(B, A, Pong("said by another")))
        await stage.player.author(OFFER)

    playing(provider, third, directory=tmp_path)
    assert "said by another" in provider.prompts[0]


def test_the_tokens_of_an_answer_after_retries_and_repairs_are_counted_once_each() -> None:
    overloaded = TurnFailedError("overloaded", kind=FailureKind.TRANSIENT)

    async def work(stage: Stage) -> None:
        assert await stage.player.author(OFFER) == Pong("x")
        assert stage.meter.take() == 10
        assert stage.meter.take() == 0
        await asyncio.sleep(0)
        decided = [each for each in stage.seen if isinstance(each, Decided)]
        assert [each.wait for each in decided] == [0.01, 0.01]

    provider = FakeProvider(overloaded, "no", overloaded, PONG)
    playing(provider, work, lambda: agent(retry=RetryPolicy((0.01,))))
    assert len(provider.prompts) == 4


def test_the_tokens_that_failed_attempts_reported_are_counted_too() -> None:
    overloaded = TurnFailedError("overloaded", kind=FailureKind.TRANSIENT)
    unshaped = TurnFailedError("no shape", kind=FailureKind.SCHEMA)

    async def work(stage: Stage) -> None:
        assert await stage.player.author(OFFER) == Pong("x")
        assert stage.meter.take() == 20

    provider = FakeProvider(overloaded, unshaped, overloaded, PONG)
    provider.reports = True
    playing(provider, work, lambda: agent(retry=RetryPolicy((0.01,))))
    assert len(provider.prompts) == 4
