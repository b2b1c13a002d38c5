"""Every block of code in the documents does what the document says.

The blocks of one document are carried out in order, in one directory with a party of its own. A block whose first line
is a comment with a file's name is written to that file. What a console block shows is compared with what comes out; in
it `...` stands for anything. `pip install -e .` is carried out, in an environment of the document's own, with the
package index that this environment was set up from.
"""

import doctest
import os
import shlex
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.documents import Block, Document
from support.party import REPOSITORY, Party

from partyctl.config import parse
from partyctl_plugins import manager
from partyctl_plugins.scripted import script

LIMIT = 60.0
"""Seconds a command may take."""

SET_UP = {"cd", "git", "make", "npm"}
"""Commands that change more than a test may; the makefile's targets are looked up, and `make demo` is carried out."""

INSTALL = "pip install -e ."

SHOWN = {"text", "mermaid"}
"""Blocks that are only looked at."""

SAMPLED = {"docs/agent-sessions.md", "docs/writing-a-transport.md"}
"""Documents with samples that leave something out, which `SAMPLES` supplies."""

SAMPLES = REPOSITORY / "tests" / "support" / "samples.py"

DEMO = "partyctl run examples/review.py"
_LIKE = doctest.OutputChecker()


class Reader:
    """Somebody who follows a document word by word."""

    def __init__(self, party: Party, document: Document) -> None:
        self._root = party.root
        self._environment = party.environment | {"PYTHONPATH": str(party.root)}
        self._status = 0
        self._interpreter = sys.executable
        self._before = [str(SAMPLES)] if document.path in SAMPLED else []
        (self._root / "examples").symlink_to(REPOSITORY / "examples")

    def follow(self, block: Block) -> None:
        if block.file is not None:
            (self._root / block.file).write_text(block.text, encoding="utf-8")
        known = {"python": self._python, "toml": self._toml, "console": self._console}
        if block.language in SHOWN:
            return
        known[block.language](block)

    def _python(self, block: Block) -> None:
        file = self._root / (block.file or "block.py")
        file.write_text(block.text, encoding="utf-8")
        self._call([self._interpreter, *self._before, str(file)])
        assert self._status == 0, self._said

    def _toml(self, block: Block) -> None:
        if block.file == "pyproject.toml":
            tomllib.loads(block.text)
        elif "[[turn]]" in block.text:
            script.read(str(self._root / str(block.file)), str(self._root))
        else:
            parse(block.text, self._root / "party.toml", manager.resolve)

    def _install(self) -> None:
        """Install the directory, editable, beside what is installed here."""
        place = self._root / "venv"
        venv.create(place, with_pip=False)
        self._interpreter = str(place / "bin" / "python")
        own, ours = (sysconfig.get_path("purelib", vars={"base": str(base)}) for base in (place, sys.prefix))
        # The line also reads our own editable installation, which a mere path would not.
        Path(own, "beside.pth").write_text(f"import site; site.addsitedir({ours!r})\n", encoding="utf-8")
        words = [self._interpreter, "-m", *shlex.split(INSTALL), "--quiet", "--disable-pip-version-check"]
        # pip's own environment, which says where the index is.
        done = subprocess.run(
            words, cwd=self._root, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _console(self, block: Block) -> None:
        command, expected = "", ""
        for line in [*block.text.splitlines(), "$ "]:
            if not line.startswith("$ "):
                expected += line + "\n"
                continue
            if command:
                self._check(command, expected)
            command, expected = line[2:].partition("  #")[0].strip(), ""

    def _check(self, command: str, expected: str) -> None:
        words = shlex.split(DEMO if command == "make demo" else command)
        if command == INSTALL:
            assert not expected, f"no test sees what {command!r} shows"
            self._install()
            return
        if command == "echo $?":
            self._said = f"{self._status}\n"
        elif words[0] == "partyctl":
            self._call([self._interpreter, "-P", "-m", "partyctl", *words[1:]])
        elif words[0] == "python":
            self._call([self._interpreter, *words[1:]])
        else:
            assert words[0] in SET_UP, f"no test carries out {command!r}"
            assert not expected, f"no test sees what {command!r} shows"
            return
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if not _LIKE.check_output(expected, self._said, options):
            raise AssertionError(f"$ {command}\n{self._said}--- and not\n{expected}")

    def _call(self, argv: list[str]) -> None:
        done = subprocess.run(
            argv, cwd=self._root, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        self._status, self._said = done.returncode, done.stdout


@pytest.fixture
def party() -> Iterator[Party]:
    made = Party()
    yield made
    made.close()


@pytest.mark.timeout(300)
def test_a_document_does_what_it_says(document: Document, request: pytest.FixtureRequest) -> None:
    if all(block.language in SHOWN for block in document.blocks):
        return
    reader = Reader(request.getfixturevalue("party"), document)
    for block in document.blocks:
        try:
            reader.follow(block)
        except Exception as error:
            error.add_note(f"{document.path}:{block.line}")
            raise


def test_every_make_target_that_is_named_exists(document: Document) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for word in document.text.split("`make ")[1:]:
        assert f"\n{word.partition('`')[0]}:" in makefile, word


def test_make_demo_is_the_command_that_stands_for_it_here() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert f"$(BIN)/{DEMO}\n" in makefile


def test_every_file_that_is_linked_exists(document: Document) -> None:
    for link in document.prose.split("](")[1:]:
        target = link.partition(")")[0].partition("#")[0]
        if target and "://" not in target:
            assert Path(os.path.normpath(REPOSITORY / Path(document.path).parent / target)).exists(), target
