"""The user's file: imported, and asked for the session that `partyctl run FILE[:name]` is to run."""

import hashlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from partyctl.casting import cast_from
from partyctl.config import PartyConfig
from partyctl.errors import ProgramError
from partyctl.session import Session
from partyctl_actors.protocol import Protocol
from partyctl_base.errors import text_of
from partyctl_base.paths import open_regular


def split_target(target: str) -> tuple[Path, str | None]:
    """`FILE` or `FILE:name` as a path and a name.

    Raises:
        ProgramError: there is no such file, or it is no regular file.
    """
    path, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier() or Path(target).is_file():
        path, name = target, ""
    file = Path(path)
    try:
        # An empty text is the current directory to Path.
        os.stat(path)
        open_regular(file).close()
    except FileNotFoundError:
        fix = "Give the path of a file that is there, or FILE:NAME"
        raise ProgramError("there is no such file", where=path, fix=fix) from None
    except OSError as error:
        why = error.strerror or str(error)
        raise ProgramError(
            "the file cannot be read", where=path, why=why, fix="Give the path of a Python file"
        ) from None
    return file.resolve(), name or None


def digest(path: Path) -> str:
    """The sha256 of the file's bytes, in hexadecimal.

    Raises:
        ProgramError: it cannot be read.
    """
    return hashlib.sha256(_read(path)).hexdigest()


def session_in(module: ModuleType, path: Path, name: str | None, config: PartyConfig) -> Session:
    """The session that an imported file offers.

    Args:
        module: the imported file.
        path: where it was read from, for messages.
        name: which Session or Protocol in it; None if there is just one Session, or no Session and one Protocol.
        config: gives a Protocol its cast, by role name.

    Raises:
        ProgramError: the file does not hold what was asked for.
    """
    found = _find(module, path, name)
    if isinstance(found, Session):
        return found
    return Session(found, cast_from(config, found))


def import_program(path: Path, *, expected: str | None = None) -> ModuleType:
    """Import the file as a module of its own name.

    Args:
        path: a Python file.
        expected: the digest it was submitted with; None for whatever is there now.

    Raises:
        ProgramError: it is no Python file, could not be imported, or changed since it was submitted.
    """
    if path.suffix == ".json":
        raise ProgramError(
            "this is no Python file",
            where=str(path),
            why="a definition in JSON casts nobody",
            fix="Run a Python file; look at the definition with: partyctl check",
        )
    # Read once, so that what runs is what was compared, and no cached bytecode of an earlier version is.
    source = _read(path)
    found = hashlib.sha256(source).hexdigest()
    if expected not in (None, found):
        raise ProgramError("the file changed after it was submitted", where=str(path), fix="Run it again")
    directory = str(path.parent)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    module = ModuleType(f"partyctl_program_{found[:16]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        sys.modules.pop(module.__name__, None)
        why = f"{type(error).__name__}: {text_of(error)}"
        where, fix = f"{path}{_line_in(path, error)}", f"See that this works: {Path(sys.executable).name} {path.name}"
        raise ProgramError("the file could not be imported", where=where, why=why, fix=fix) from error
    return module


def _read(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read()
    except OSError as error:
        why, fix = error.strerror or str(error), "Give the path of a Python file that you may read"
        raise ProgramError("the file cannot be read", where=str(path), why=why, fix=fix) from error


def _line_in(path: Path, error: BaseException) -> str:
    """The line of the user's file the error came through last."""
    if isinstance(error, SyntaxError):
        return f":{error.lineno}" if error.filename == str(path) else ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f":{lines[-1]}" if lines else ""


def _find(module: ModuleType, path: Path, name: str | None) -> Session | Protocol:
    held = vars(module)
    if name is not None:
        if name not in held:
            known = ", ".join(sorted(key for key, value in held.items() if isinstance(value, Session | Protocol)))
            why, fix = f"it has {known or 'no Session'}", "Name one of these" if known else "Make one at module level"
            raise ProgramError(f"the file has no {name!r}", where=str(path), why=why, fix=fix)
        value = held[name]
        if not isinstance(value, Session | Protocol):
            kind = type(value).__name__
            fix = "Name a Session or a Protocol of the file"
            raise ProgramError(f"{name!r} is a {kind}, not a Session or a Protocol", where=str(path), fix=fix)
        return value
    for wanted in (Session, Protocol):
        names = [key for key, value in held.items() if isinstance(value, wanted)]
        if len({id(held[key]) for key in names}) == 1:
            found: Session | Protocol = held[names[0]]
            return found
        if names:
            raise ProgramError(
                f"the file has several of kind {wanted.__name__}",
                where=str(path),
                why=", ".join(sorted(names)),
                fix=f"Name one: partyctl run {path.name}:{names[0]}",
            )
    raise ProgramError("the file has no Session and no Protocol", where=str(path), fix="Make one at module level")
