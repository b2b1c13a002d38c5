"""docs/party-toml.md has every key that the parser knows, and no other."""

import re
from pathlib import Path

import pytest
from support.documents import Document

from partyctl.config import parse
from partyctl.errors import ConfigError

PAGE = Document("docs/party-toml.md")
ROLE = 'permissions = {{ mode = "bypass"{permissions} }}\napprovals = "deny"\nprovider = "claude"\n'
UNKNOWN = "zzzzzzzz"

TABLES = {
    "`[party]`": f"[party]\n{UNKNOWN} = 1",
    "`[defaults]`": f"[defaults]\n{UNKNOWN} = 1",
    "`[roles.NAME]`": f"[roles.Writer]\n{UNKNOWN} = 1",
    "`permissions`": "[roles.Writer]\n" + ROLE.format(permissions=f", {UNKNOWN} = 1"),
    "`retry`": "[roles.Writer]\n" + ROLE.format(permissions="") + f"retry = {{ {UNKNOWN} = 1 }}",
    "`confinement`": "[roles.Writer]\n" + ROLE.format(permissions="") + f"confinement = {{ {UNKNOWN} = 1 }}",
    "`[limits]`": f"[limits]\n{UNKNOWN} = 1",
    "`[restarts]`": f"[restarts]\n{UNKNOWN} = 1",
    "`[listen]`": f"[listen]\n{UNKNOWN} = 1",
}
"""The heading of each table's section, and a file with a key in it that nobody knows."""


def known(text: str) -> set[str]:
    """The keys that the parser names when it refuses the unknown one in `text`."""
    with pytest.raises(ConfigError, match=UNKNOWN) as refused:
        parse(text, Path("party.toml"), lambda provider: provider)
    assert refused.value.fix.startswith("Known are ")
    return set(refused.value.fix.removeprefix("Known are ").split(", "))


def own_rows(section: str) -> list[str]:
    """The keys in a section without its subsections."""
    text = re.split(r"^#", PAGE.section(section), maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE)


@pytest.mark.parametrize("section", TABLES)
def test_every_key_of_a_table_has_a_row(section: str) -> None:
    assert sorted(own_rows(section)) == sorted(known(TABLES[section]))


def test_every_table_has_a_section() -> None:
    tables = {section.strip("`[]").partition(".")[0] for section in TABLES if section.startswith("`[")}
    assert tables == known(f"[{UNKNOWN}]")


def test_the_whole_file_has_every_key() -> None:
    (whole,) = [block.text for block in PAGE.blocks if block.file == "every-key.toml"]
    for section in TABLES:
        for key in own_rows(section):
            assert re.search(rf"\b{key} = ", whole), key
