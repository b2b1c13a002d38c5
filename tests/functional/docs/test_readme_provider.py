"""The provider that the README shows keeps the contract, word by word as it stands there."""

import importlib
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.documents import Document

from partyctl.events import AgentEvent, AssistantText
from partyctl.plugins import (
    ApprovalPolicy,
    Conversation,
    ConversationSpec,
    FailureKind,
    HostExecutor,
    NativePermissions,
    ProviderCapabilityError,
    ProviderOptionsError,
    Transport,
    TransportKind,
    TurnRequest,
    TurnTimeoutError,
)
from partyctl.testing import (
    Act,
    ConversationContract,
    Dies,
    Fails,
    InWorker,
    Says,
    Scene,
    Stalls,
    Streams,
    TransportContract,
)
from partyctl_plugins.processes import HostProcess

NAME = "shell_provider"
SPEC = ConversationSpec("/", NativePermissions.bypass(), ApprovalPolicy.DENY)

ACTOR = """
import json, os, signal, sys, time
prompt = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
act = json.loads(prompt) if prompt.startswith("{") else {"say": ["ok"]}
for piece in act.get("say", []):
    sys.stdout.buffer.write(piece.encode())
    sys.stdout.buffer.flush()
if "stall" in act:
    os.system("sleep 60")  # a child that holds the output open
if "die" in act:
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(act.get("exit", 0))
"""
"""A command that does what its prompt says."""

ARGV = [sys.executable, "-c", ACTOR]


@pytest.fixture(scope="module", autouse=True)
def _written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The README's own text, where it can be imported, in this process and in workers."""
    directory = tmp_path_factory.mktemp("readme")
    (block,) = [block for block in Document("README.md").blocks if block.file == f"{NAME}.py"]
    Path(directory, f"{NAME}.py").write_text(block.text, encoding="utf-8")
    sys.path.insert(0, str(directory))
    yield
    sys.path.remove(str(directory))
    sys.modules.pop(NAME, None)


def module() -> Any:
    return importlib.import_module(NAME)


def transport() -> Transport:
    made: Transport = module().ShellTransport(ARGV)
    return made


def prompt_of(act: Act) -> str | None:
    """What has the command do it; None where no command can."""
    if isinstance(act, Says | Streams):
        pieces = [act.text] if isinstance(act, Says) else list(act.pieces)
        try:
            "".join(pieces).encode()
        except UnicodeError:
            return None  # what is no text of any encoding comes out of no command
        return json.dumps({"say": pieces})
    if isinstance(act, Fails):
        return json.dumps({"exit": 3}) if act.kind is FailureKind.OTHER else None
    return json.dumps({"stall": 1} if isinstance(act, Stalls) else {"die": 1} if isinstance(act, Dies) else {})


class TestConversation(ConversationContract):
    def make_conversation(self) -> Conversation:
        return transport().open(SPEC)

    def make_scene(self, *acts: Act) -> Scene | None:
        prompts = [prompt_of(act) for act in acts]
        known = [prompt for prompt in prompts if prompt is not None]
        return Scene(transport().open(SPEC), known) if len(known) == len(prompts) else None


class TestTransport(TransportContract):
    def make_transport(self) -> Transport:
        return transport()


class TestTransportInAWorker(InWorker, TransportContract):
    provider = "shell"
    target = NAME
    options = {"argv": ARGV}  # noqa: RUF012


def test_a_command_that_reads_nothing_is_heard_all_the_same() -> None:
    conversation = module().ShellTransport(["echo", "hello"]).open(SPEC)
    try:
        assert conversation.turn(TurnRequest("x" * 1_000_000), lambda event: None).text == "hello\n"
    finally:
        conversation.close()


def test_a_command_that_reads_nothing_keeps_neither_a_timeout_nor_an_interrupt_waiting() -> None:
    conversation = module().ShellTransport(["sleep", "60"]).open(SPEC)
    prompt = "x" * 2_000_000
    try:
        began = time.monotonic()
        with pytest.raises(TurnTimeoutError):
            conversation.turn(TurnRequest(prompt, timeout=0.5), lambda event: None)
        interrupting = threading.Timer(0.3, conversation.interrupt)
        interrupting.start()
        assert conversation.turn(TurnRequest(prompt), lambda event: None).interrupted
        interrupting.join()
        assert time.monotonic() - began < 5
    finally:
        conversation.close()


def test_a_command_that_ends_well_at_an_interrupt_was_interrupted_all_the_same() -> None:
    class Obliging(HostExecutor):
        def spawn(self, argv: Sequence[str], **more: Any) -> HostProcess:
            process = super().spawn(argv, **more)
            process.kill = process.terminate  # type: ignore[method-assign]
            return process

    polite = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); time.sleep(60)"
    )
    conversation = module().ShellTransport([sys.executable, "-c", polite]).open(SPEC)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module(), "HostExecutor", Obliging)

        def interrupt(event: AgentEvent) -> None:
            if isinstance(event, AssistantText):
                conversation.interrupt()

        assert conversation.turn(TurnRequest("x"), interrupt).interrupted


@pytest.mark.parametrize("field", ["model", "resume_id", "reasoning_effort"])
def test_what_it_cannot_keep_it_refuses(field: str) -> None:
    with pytest.raises(ProviderCapabilityError):
        transport().open(ConversationSpec("/", NativePermissions.bypass(), ApprovalPolicy.DENY, **{field: "x"}))


@pytest.mark.parametrize("options", [{}, {"argv": ["cat"], "shell": True}])
def test_options_that_it_does_not_know_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ProviderOptionsError):
        module().partyctl_transport(TransportKind.STREAM, options)
