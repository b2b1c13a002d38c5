"""Carries out a sample as it stands, `python samples.py FILE`, and supplies what it leaves out: names that it uses and
does not define, the directory, a `claude` on PATH, and values for arguments that are written as `...`. Nothing else:
no public name is changed or wrapped."""

import ast
import builtins
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import partyctl
import partyctl.plugins
from partyctl.testing import FakeTransport, FakeTurn, fake_profile

Names = dict[str, object]

DIRECTORY = "/work/repo"
FAKE_CLI = Path(__file__).parent.parent / "fakes" / "claude_cli.py"
ARGUMENTS: Names = {
    "permissions": partyctl.NativePermissions.bypass(),
    "approvals": partyctl.ApprovalPolicy.DENY,
}
LEFT_OUT: Names = {
    "journal": [].append,
    "threading": threading,
    **{name: getattr(partyctl.plugins, name) for name in ("Conversation", "ConversationSpec", "ProviderProfile")},
}


class Supplied(ast.NodeTransformer):
    """The sample with the directory and the arguments that it leaves open."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.copy_location(ast.Constant(self._directory), node) if node.value == DIRECTORY else node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Constant) and node.value.value is ...:
            node.value = ast.copy_location(ast.Name(f"_{node.arg}", ast.Load()), node.value)
        return node


def left_out(tree: ast.AST) -> set[str]:
    """Names that are used and neither defined here nor built in."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    defined = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            defined |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or (
            isinstance(node, ast.ExceptHandler) and node.name
        ):
            defined.add(node.name)
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
    return {node.id for node in names} - defined


def in_a_running_turn(sample: Callable[[Names], None], names: Names) -> None:
    """Carry the sample out where its `session` is one with a running turn that can be steered."""
    turn = FakeTurn(during=lambda: sample(names), awaits_steer=True)
    transport = FakeTransport([turn], fake_profile(supports_steer=True))
    agent = partyctl.Agent(
        transport, permissions=partyctl.NativePermissions.bypass(), approvals=partyctl.ApprovalPolicy.DENY
    )
    with agent.session(DIRECTORY) as session:
        names["session"] = session
        session.run(session.prepare_turn(partyctl.TurnRequest("go")))
    assert transport.conversations[0].steers


def main() -> None:
    """Carry out the sample in the file that is named."""
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        claude = directory / "claude"
        claude.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE_CLI} "$@"\n')
        claude.chmod(0o755)
        os.environ["PATH"] = f"{directory}{os.pathsep}{os.environ['PATH']}"
        tree = ast.parse(text)
        wanted = left_out(tree)
        code = compile(ast.fix_missing_locations(Supplied(directory).visit(tree)), sys.argv[1], "exec")
        names: Names = {"__name__": "sample", **{f"_{name}": value for name, value in ARGUMENTS.items()}}
        names |= {name: LEFT_OUT[name] for name in wanted & set(LEFT_OUT)}

        def sample(given: Names) -> None:
            exec(code, given)

        if "session" in wanted:
            in_a_running_turn(sample, names)
        else:
            sample(names)


if __name__ == "__main__":
    main()
