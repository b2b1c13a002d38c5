"""CURVE key pairs for peers beyond this machine, and the directory that keeps them.

A key pair is two keys of 32 bytes, written in Z85 (40 characters). The broker has one pair, and each peer has one. A
peer proves itself by its secret key alone, which never leaves it; the broker's public key is part of its endpoint, so
that a peer knows whom it talks to. Files: `NAME.key` has the peer's public key and its claim rules, `broker.secret`
the broker's own pair. All are 0600, in a directory of 0700.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partyctl_broker.errors import KeyRefused, Malformed

KEY_SIZE: Final = 32
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES: Final = {digit: value for value, digit in enumerate(_DIGITS)}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BROKER: Final = "broker.secret"


def encode_z85(data: bytes) -> str:
    """Bytes, a multiple of four, in Z85 (ZeroMQ RFC 32)."""
    text = []
    for start in range(0, len(data), 4):
        value = int.from_bytes(data[start : start + 4], "big")
        text.append("".join(_DIGITS[value // 85**power % 85] for power in (4, 3, 2, 1, 0)))
    return "".join(text)


def decode_z85(text: str) -> bytes:
    """The bytes of a text in Z85.

    Raises:
        ValueError: it is none.
    """
    if len(text) % 5:
        raise ValueError("its length is no multiple of five")
    data = bytearray()
    for start in range(0, len(text), 5):
        value = 0
        for digit in text[start : start + 5]:
            if digit not in _VALUES:
                raise ValueError("it has a character that Z85 does not have")
            value = value * 85 + _VALUES[digit]
        if value >= 1 << 32:
            raise ValueError("a group of it is too large")
        data += value.to_bytes(4, "big")
    return bytes(data)


def decode_public(text: object, name: str) -> bytes:
    """The 32 bytes of a public key in Z85. Raises Malformed."""
    try:
        key = decode_z85(text) if isinstance(text, str) else b""
    except ValueError as error:
        raise Malformed("a public key is not Z85", where=name, why=str(error)) from error
    if len(key) != KEY_SIZE:
        raise Malformed("a public key is not 40 characters of Z85", where=name)
    return key


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A CURVE key pair in Z85."""

    public: str
    secret: str = field(repr=False)

    @property
    def secret_bytes(self) -> bytes:
        """The secret key as `ZmqBus.connect` takes it, 32 bytes."""
        return decode_z85(self.secret)


def new_pair() -> KeyPair:
    """A fresh key pair."""
    import zmq  # not at the head: whoever reads key files only does not load ZeroMQ

    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode(), secret.decode())


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A peer beyond this machine: its name, its public key in Z85, and the addresses it may claim."""

    name: str
    public: str
    claims: tuple[str, ...]

    def encode(self) -> str:
        """The content of its file."""
        return json.dumps({"name": self.name, "public": self.public, "claims": list(self.claims)}) + "\n"

    @staticmethod
    def decode(text: str, where: str) -> "KnownKey":
        """Raises KeyRefused, which names the file."""
        try:
            content = json.loads(text)
            name, public, claims = content["name"], content["public"], content["claims"]
            decode_public(public, where)
            if not (isinstance(name, str) and all(isinstance(claim, str) for claim in claims)):
                raise ValueError("a name or a claim is not text")
        except (ValueError, KeyError, TypeError, Malformed) as error:
            raise KeyRefused("this is no key file", where=where, why=str(error), fix="Revoke it and add it") from error
        return KnownKey(name, public, tuple(claims))


class KeyStore:
    """The directory of keys. Made on the first write.

    Args:
        directory: where the files are; nobody but its owner may enter it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, name: str, claims: tuple[str, ...], public: str = "") -> KeyPair:
        """Let a peer in; the pair it needs. With a `public` key of its own the pair has no secret.

        Raises:
            KeyRefused: the name is none, taken, the public key is none or another's, or the directory cannot be used.
        """
        if public:
            try:
                decode_public(public, name)
            except Malformed as error:
                raise KeyRefused("this key cannot be added", where=name, why=error.what) from error
            others = [known.name for known in self.known() if known.public == public and known.name != name]
            if others:
                raise KeyRefused(
                    "this key has another name",
                    where=name,
                    why=f"{others[0]} has it, and a peer is known by its key",
                    fix=f"Use a key of its own, or: partyctl key revoke {others[0]}",
                )
        pair = KeyPair(public, "") if public else new_pair()
        path = self._path(name)
        if not self._write(path, KnownKey(name, pair.public, claims).encode()):
            raise KeyRefused("this name has a key", where=name, fix=f"partyctl key revoke {name}")
        return pair

    def known(self) -> list[KnownKey]:
        """All peers that are let in, by name. One that is revoked meanwhile is not among them.

        Raises:
            KeyRefused: a file of the directory is no key file, or cannot be read; names it.
        """
        with _named(self._directory):
            paths = sorted(self._directory.glob("*.key"))
        found: list[KnownKey] = []
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                found.append(KnownKey.decode(_read(path), str(path)))
        return found

    def revoke(self, name: str) -> None:
        """Let a peer in no more.

        Raises:
            KeyRefused: nobody of that name is known, or its file cannot be removed.
        """
        path = self._path(name)
        try:
            with _named(path):
                path.unlink()
        except FileNotFoundError as error:
            raise KeyRefused("this name has no key", where=name, fix="partyctl key list") from error

    def broker(self) -> KeyPair:
        """The broker's own pair; made when it is first asked for.

        Raises:
            KeyRefused: the file is there and holds something else, or it cannot be written or read.
        """
        path = self._directory / _BROKER
        pair = new_pair()
        self._write(path, f"{pair.public}\n{pair.secret}\n")
        lines = _read(path).split("\n")
        try:
            if len(lines) != 3 or any(len(decode_z85(line)) != KEY_SIZE for line in lines[:2]):
                raise ValueError("it does not have two keys")
        except ValueError as error:
            raise KeyRefused(
                "this is not the broker's key file",
                where=str(path),
                why=str(error),
                fix="Move it away; a new pair is made, and every peer needs its new endpoint",
            ) from error
        return KeyPair(lines[0], lines[1])

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise KeyRefused(
                "a key cannot have this name",
                where=ascii(name[:80]),
                why="a name is 1 to 64 letters, digits, dots, dashes and underscores",
            )
        return self._directory / f"{name}.key"

    def _write(self, path: Path, content: str) -> bool:
        """Write a new file, all of it or nothing; False if there is one. It is on the disk afterwards."""
        with _named(path):
            return self._link(path, content)

    def _link(self, path: Path, content: str) -> bool:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)  # unlike a rename it never replaces
        except FileExistsError:
            return False
        finally:
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return True


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """What the system says against a file, as a KeyRefused; that a file is not there is let through."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KeyRefused(
            "a key file cannot be used",
            where=error.filename if isinstance(error.filename, str) else str(path),
            why=error.strerror or str(error),
            fix="See that you own it, that its directory can be written, and that the disk has room",
        ) from error


def _read(path: Path) -> str:
    """The text of a key file; FileNotFoundError if it is gone."""
    try:
        with _named(path):
            return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise KeyRefused(
            "this is no key file", where=str(path), why="it is not UTF-8 text", fix="Move it away, or revoke it"
        ) from error
