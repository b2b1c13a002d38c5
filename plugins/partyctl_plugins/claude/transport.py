"""Claude Code over its stream: one `claude` process per conversation, kept between turns.

Its rules are those of docs/writing-a-transport.md. A transport opens, runs, reports; it never
retries, and a process that died is replaced only by the next turn.
"""

import os
from collections.abc import Mapping

from partyctl_base.clock import Clock, SystemClock
from partyctl_base.ids import IdAllocator, RandomIds
from partyctl_plugins.claude import command
from partyctl_plugins.claude.command import StreamOptions
from partyctl_plugins.claude.conversation import ClaudeConversation
from partyctl_plugins.contract import ConversationSpec, NativeMode, ProviderProfile, TransportKind

PROFILE = ProviderProfile(
    name="claude",
    display_name="Claude Code",
    binary="claude",
    transports=frozenset({TransportKind.STREAM}),
    native_permission_modes=frozenset({NativeMode.BYPASS}),
    supports_resume=True,
    supports_reasoning_effort=True,
    state_dirs=(".claude",),
    state_root_env="CLAUDE_CONFIG_DIR",
    auth_env_vars=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    auth_files=(".claude/.credentials.json",),
    resume_state_paths=(".claude/projects",),
    domains=("api.anthropic.com",),
    version=("claude", "--version"),
)


class ClaudeStreamTransport:
    """Opens conversations with Claude Code.

    Args:
        options: the provider's options, see `StreamOptions`.
        environ: the environment of the CLI; None: that of this process.
        clock, ids: where time and request ids come from; None: the machine's.

    Raises:
        ProviderOptionsError: an option is unknown or has no usable value.
    """

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        ids: IdAllocator | None = None,
    ) -> None:
        self._options = StreamOptions.parse(options or {})
        self._environ = os.environ if environ is None else environ
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()

    @property
    def profile(self) -> ProviderProfile:
        """What Claude Code can do over this transport."""
        return PROFILE

    def open(self, spec: ConversationSpec) -> ClaudeConversation:
        """Start a process and wait until it is ready.

        Raises:
            ProviderCapabilityError: the specification asks for what this transport does not offer.
            SessionResumeError: the conversation to resume is gone.
            TurnFailedError: the process did not come up; a CliExitError if it ended.
            TurnTimeoutError: it was not ready within `startup_timeout_s`.
        """
        command.check_spec(spec)
        conversation = ClaudeConversation(spec, self._options, self._environ, clock=self._clock, ids=self._ids)
        conversation.open()
        return conversation
