"""Secrets in whatever is shown or kept are replaced by ***.

Pure, and linear in the length of the text: every pattern starts at a literal, and what may be repeated without a bound
cannot run past the place where the next match could begin. It errs on the side of hiding: a word after `password=` is
hidden even if it is no password. Ids are not touched: no pattern fits `run-0123456789abcdef`, a digest or a UUID that
does not follow the name of a secret.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeVar

Text = TypeVar("Text", str, bytes)

MASK: Final = "***"

_WORDS = (
    r"(?:api|access|secret|private|signing|encryption|auth|master|account|subscription)[_\- ]?key|"
    r"token|secret|passw(?:or)?d|passphrase|credentials?|connection[_-]?string|cookie|(?:proxy-)?authorization"
)
"""What a name ends with if its value is a secret. `max_tokens` and `token_count` do not end so."""

_WORD = r"[^\s\"'\\,;&<>(){}\[\]]+"
_VALUE = rf"(?:(?:[Bb]earer|[Bb]asic)[ \t]{{1,8}})?{_WORD}(?:(?<=[:=])[ \t]{{1,8}}{_WORD})*"
"""One word; behind a word that is itself a name (`password: token: x`) the next one too."""

_HARMLESS = r"(?!(?:none|null|true|false|undefined)\b)"

_PREFIXED = (
    r"\b(sk-(?:ant-|proj-)?|gh[opsur]_|github_pat_|glpat-|xox[abeoprs]-|hf_|npm_|pypi-|AIza|ya29\.|AKIA|ASIA|"
    r"[sr]k_(?:live|test)_)[A-Za-z0-9_\-.]{6,}"
)
_IS = r"[ \t]{0,8}[:=][ \t]{0,8}"
_NAMED = rf"(?:{_WORDS})\\{{0,3}}[\"']?{_IS}"
_QUOTED = r"(\\{0,3})([\"']))(?:(?!\2\3)(?:\\[^\n]|[^\n\\]))"
"""Closes group 1 behind the opening quote; then what stands before the same quote with the same backslashes."""

_LISTED = r"(?:digest|aws4-hmac-sha256|oauth|hawk)\b[^\n]+"
_HEADER = r"(?:authorization|cookie)"
_BEARER = r"\b(bearer[ \t]{1,8})(?!(?:token|auth\w{0,20}|scheme|realm)\b)[A-Za-z0-9._~+/=\-]{6,}"
_BASIC = r"\b([Bb]asic[ \t]{1,8})(?=[a-z+/]{0,200}[A-Z0-9=])[A-Za-z0-9+/]{6,}={0,2}"
_LONG = r"(?![a-z]{1,12}-[0-9a-f]{16}\b)(?=[A-Za-z+/_\-]{0,200}[0-9])[A-Za-z0-9+/_\-]{20,}={0,2}"
_PEM = r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----).*?(?=-----END |\Z)"

_STEMS = ("key", "token", "secret", "passw", "passphrase", "credential", "connection", "cookie", "authorization")
_MARKS = (
    "sk-",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xox",
    "hf_",
    "npm_",
    "pypi-",
    "aiza",
    "ya29",
    "akia",
    "asia",
    "k_live_",
    "k_test_",
)

_RULES: tuple[tuple[frozenset[str], re.Pattern[str], str], ...] = tuple(
    (frozenset(needles), re.compile(pattern, re.ASCII | flags), replacement)
    for needles, pattern, flags, replacement in (
        (("private key",), _PEM, re.DOTALL, rf"\1{MASK}"),
        # scheme://user:password@host; the part before @ ends at the next slash, so no two scans overlap.
        (("://",), r"(://)[^\s/?#\"'<>\\]+@", 0, rf"\1{MASK}@"),
        # A header's value is the rest of its line: `Authorization: Digest username="x", response="y"`.
        (("authorization", "cookie"), rf"({_HEADER}\\{{0,3}}[\"']?{_IS}{_QUOTED}+", re.I, rf"\1{MASK}"),
        (("authorization", "cookie"), rf"({_HEADER}{_IS})(?!\\?[\"'])(?:{_LISTED}|[^\n\"'\\])+", re.I, rf"\1{MASK}"),
        # NAME="a value with blanks", then NAME=value; the name may itself be quoted, and quotes escaped (JSON in JSON).
        (_STEMS, rf"({_NAMED}{_QUOTED}+", re.I, rf"\1{MASK}"),
        (_STEMS, rf"({_NAMED}){_HARMLESS}{_VALUE}", re.I, rf"\1{MASK}"),
        (("=",), rf"([A-Z0-9]_(?:KEY|PAT|PWD|PW|PASS|SECRET_KEY_BASE)=[\"']?){_VALUE}", 0, rf"\1{MASK}"),
        (("=",), rf"([?&](?:key|sig|signature|code)=){_VALUE}", re.I, rf"\1{MASK}"),
        (("--",), rf"(--(?:[a-z0-9]{{1,20}}-){{0,4}}(?:{_WORDS})[ \t]{{1,8}})(?!-){_VALUE}", re.I, rf"\1{MASK}"),
        # Behind the rules for names: `basic password: x` must not lose the word that tells where the secret is.
        (("bearer",), _BEARER, re.I, rf"\1{MASK}"),
        (("basic",), _BASIC, 0, rf"\1{MASK}"),
        (_MARKS, _PREFIXED, 0, rf"\1{MASK}"),
        (("eyj",), r"\b(eyJ)[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-.]{8,}", 0, rf"\1{MASK}"),
        # `the token is 3q2+7w...`: long, of the letters of base64, with a digit, and none of our own ids.
        (_STEMS, rf"((?:{_WORDS}|\bkey)(?:[ \t]{{1,8}}(?:is|was))?[ \t:=]{{1,8}}[\"'`(]?){_LONG}", re.I, rf"\1{MASK}"),
    )
)
"""For each rule: one of these must be in the lower-cased text for it to fit at all, what fits, what replaces it. The
look for fixed strings takes a hundredth of the time that the patterns take on a line without secrets."""

_NEEDLES = frozenset[str]().union(*(needles for needles, _, _ in _RULES))

_SECRET_NAME = re.compile(rf"(?:{_WORDS}|_key|_pat|_pwd|_pw|_pass)\Z", re.ASCII | re.IGNORECASE)


def masked(text: Text) -> Text:
    """The text, or the bytes of a text in any superset of ASCII, without its secrets. Masking twice changes nothing."""
    if isinstance(text, bytes):
        # Latin-1 maps every byte to one character and back, and the patterns know no letters beyond ASCII.
        return _mask(text.decode("latin-1")).encode("latin-1")
    return _mask(text)


def masked_value(value: object, name: str = "") -> object:
    """A value of maps, lists and scalars without its secrets.

    Args:
        value: what to show; it is not changed.
        name: the key it stands under; a string under the name of a secret is hidden whole.
    """
    if isinstance(value, Mapping):
        return {key: masked_value(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked_value(item, name) for item in value]
    if isinstance(value, str):
        return MASK if value and is_secret_name(name) else masked(value)
    return value


def is_secret_name(name: str) -> bool:
    """Whether what stands under this name is a secret: `ANTHROPIC_API_KEY`, `password`."""
    return _SECRET_NAME.search(name[-64:]) is not None


def _mask(text: str) -> str:
    lowered = text.lower()
    present = [needle for needle in _NEEDLES if needle in lowered]
    if present:
        for needles, pattern, replacement in _RULES:
            if not needles.isdisjoint(present):
                text = pattern.sub(replacement, text)
    return text
