#!/usr/bin/env python3
"""Install the real Claude Code for tests, once, and print the path of its binary.

    python tests/real/install_claude.py [DIRECTORY]

DIRECTORY defaults to `.real` in the repository, which git ignores. The package for this platform holds a native binary
and needs neither a build nor Node at run time; it is installed with npm, 384 MB, about 15 s. It is proprietary: it is
installed where tests run and never shipped. A second call finds it there and is done; two calls at once wait for each
other; a call that was cut off leaves nothing that a later one takes for whole.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "2.1.332"
PACKAGE = "@anthropic-ai/claude-code-linux-x64"
REPOSITORY = Path(__file__).resolve().parents[2]


def install(directory: Path) -> Path:
    """The binary's path, installed below `directory` if it is not there yet.

    Raises:
        SystemExit: npm is missing or failed, or what it installed does not run.
    """
    whole = directory / f"claude-{VERSION}"
    binary = whole / "node_modules" / PACKAGE / "claude"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            npm = shutil.which("npm")
            if npm is None:
                raise SystemExit("npm is not on PATH: install Node.js, its package manager fetches Claude Code")
            draft = directory / f".claude-{VERSION}.part"
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(draft)]
            done = subprocess.run([*command, f"{PACKAGE}@{VERSION}"], stdout=sys.stderr, timeout=600)
            if done.returncode != 0:
                raise SystemExit(f"npm could not install {PACKAGE}@{VERSION}: status {done.returncode}, see above")
            check(draft / "node_modules" / PACKAGE / "claude")
            shutil.rmtree(whole, ignore_errors=True)
            os.rename(draft, whole)
    return binary


def check(binary: Path) -> None:
    """Raise SystemExit unless the binary says that it is the version we asked for."""
    said = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=60).stdout
    if not said.startswith(VERSION):
        raise SystemExit(f"{binary} should be Claude Code {VERSION} and says {said!r}")


if __name__ == "__main__":
    print(install(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else REPOSITORY / ".real"))
