"""Permissions and tool servers: what is refused at construction."""

import math
from typing import Any

import pytest

from partyctl_plugins.permissions import (
    ApprovalPolicy,
    HttpMcpServer,
    NativeMode,
    NativePermissions,
    StdioMcpServer,
)


def test_the_named_constructors_choose_their_modes() -> None:
    assert NativePermissions.bypass().mode is NativeMode.BYPASS
    assert NativePermissions.read_only().mode is NativeMode.READ_ONLY
    write = NativePermissions.workspace_write(["/a"], network=True)
    assert (write.mode, write.writable_roots, write.network) == (NativeMode.WORKSPACE_WRITE, ("/a",), True)


@pytest.mark.parametrize(
    ("roots", "network", "error"),
    [
        ("/a", False, TypeError),
        ({"/a"}, False, TypeError),
        ([1], False, TypeError),
        ((), "yes", TypeError),
        (["a"], False, ValueError),
        (["/a\0b"], False, ValueError),
    ],
)
def test_roots_are_absolute_paths_and_network_is_a_bool(roots: Any, network: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        NativePermissions(NativeMode.WORKSPACE_WRITE, roots, network)


@pytest.mark.parametrize("mode", [NativeMode.BYPASS, NativeMode.READ_ONLY])
def test_roots_and_network_belong_to_workspace_write(mode: NativeMode) -> None:
    with pytest.raises(ValueError, match="workspace_write"):
        NativePermissions(mode, ("/a",))
    with pytest.raises(ValueError, match="workspace_write"):
        NativePermissions(mode, network=True)


def test_one_string_is_no_sequence_of_roots() -> None:
    with pytest.raises(TypeError, match="sequence of paths"):
        NativePermissions.workspace_write("/a")


def test_a_mode_may_be_given_by_its_word() -> None:
    assert NativePermissions("bypass").mode is NativeMode.BYPASS  # type: ignore[arg-type]
    assert ApprovalPolicy("fail_turn") is ApprovalPolicy.FAIL_TURN


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan])
def test_limits_of_tool_servers_are_positive_and_finite(seconds: float) -> None:
    with pytest.raises(ValueError, match="positive, finite"):
        StdioMcpServer("files", "mcp-files", startup_timeout_s=seconds)
    with pytest.raises(ValueError, match="positive, finite"):
        HttpMcpServer("files", "http://localhost", tool_timeout_s=seconds)


def test_tool_servers_need_names_and_a_way_to_reach_them() -> None:
    with pytest.raises(ValueError, match="name"):
        StdioMcpServer(" ", "mcp-files")
    with pytest.raises(ValueError, match="command"):
        StdioMcpServer("files", "")
    with pytest.raises(ValueError, match="url"):
        HttpMcpServer("files", "")
    with pytest.raises(ValueError, match="transport"):
        HttpMcpServer("files", "http://localhost", transport="smoke")  # type: ignore[arg-type]
