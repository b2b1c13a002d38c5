"""The provider as a plugin: what it declares and what it refuses."""

import subprocess
import sys

import pytest

from partyctl_plugins import claude
from partyctl_plugins.claude import ClaudeStreamTransport
from partyctl_plugins.contract import (
    NativeMode,
    ProviderCapabilityError,
    ProviderOptionsError,
    TransportKind,
)


def test_the_profile_says_what_can_be_done() -> None:
    profile = ClaudeStreamTransport().profile
    assert (profile.name, profile.binary, profile.supports_resume) == ("claude", "claude", True)
    assert profile.native_permission_modes == {NativeMode.BYPASS}


def test_one_shot_is_refused_and_names_stream() -> None:
    with pytest.raises(ProviderCapabilityError, match=r"TransportKind\.STREAM"):
        claude.partyctl_transport(TransportKind.ONE_SHOT, {})


def test_options_are_checked_when_the_transport_is_made() -> None:
    with pytest.raises(ProviderOptionsError):
        claude.partyctl_transport(TransportKind.STREAM, {"nonsense": 1})


def test_the_worker_side_stays_light() -> None:
    code = "import sys, partyctl_plugins.claude; print({'asyncio', 'pydantic', 'zmq'} & set(sys.modules) or 'light')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "light"
