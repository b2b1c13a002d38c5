"""Where output schemas are written that a provider reads from files."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from partyctl_plugins.contract import OutputSchema, ProviderProfile, SchemaMechanism, TurnFailedError, TurnRequest
from partyctl_plugins.schema_places import PREFIX, SchemaPlace, sweep

BY_FILE = ProviderProfile("filed", output_schema=SchemaMechanism.FILE_PATH)
INLINE = ProviderProfile("inline", output_schema=SchemaMechanism.INLINE_JSON)
ASKED = TurnRequest("go", output_schema=OutputSchema({"type": "object"}))

KILLED = """
import os, sys
from partyctl_plugins.contract import OutputSchema, ProviderProfile, SchemaMechanism, TurnRequest
from partyctl_plugins.schema_places import SchemaPlace
profile = ProviderProfile("filed", output_schema=SchemaMechanism.FILE_PATH)
place = SchemaPlace(sys.argv[1])
request = place.placed(TurnRequest("go", output_schema=OutputSchema({})), profile)
open(os.path.join(request.output_schema.host_dir, "schema"), "w").close()
os.kill(os.getpid(), 9)
"""


def host_dir(request: TurnRequest) -> str | None:
    assert request.output_schema is not None
    return request.output_schema.host_dir


def test_a_conversation_has_one_for_its_owner_alone_until_it_is_closed(tmp_path: Path) -> None:
    place = SchemaPlace(str(tmp_path))
    first, second = (place.placed(ASKED, BY_FILE) for _ in range(2))
    assert host_dir(first) == host_dir(second)
    [path] = tmp_path.iterdir()
    assert (str(path), stat.S_IMODE(path.stat().st_mode)) == (host_dir(first), 0o700)
    (path / "schema.json").write_text("{}")
    place.remove()
    place.remove()
    assert list(tmp_path.iterdir()) == []
    assert host_dir(place.placed(ASKED, BY_FILE)) != host_dir(first)
    place.remove()


@pytest.mark.parametrize(
    ("request_", "profile"),
    [
        (ASKED, INLINE),
        (ASKED, None),
        (TurnRequest("go"), BY_FILE),
        (TurnRequest("go", output_schema=OutputSchema({}, host_dir="/somewhere")), BY_FILE),
    ],
)
def test_nothing_is_made_where_none_is_needed(
    tmp_path: Path, request_: TurnRequest, profile: ProviderProfile | None
) -> None:
    assert SchemaPlace(str(tmp_path)).placed(request_, profile) is request_
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    place = SchemaPlace(str(tmp_path))
    kept = host_dir(place.placed(ASKED, BY_FILE))
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    assert sweep(str(tmp_path)) == 1
    assert [str(path) for path in tmp_path.iterdir()] == [kept]
    place.remove()


def test_the_next_one_sweeps_too(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    place = SchemaPlace(str(tmp_path))
    place.placed(ASKED, BY_FILE)
    assert len(list(tmp_path.iterdir())) == 1
    place.remove()


def test_what_only_has_the_name_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}file").write_text("mine")
    assert sweep(str(tmp_path)) == 0
    assert len(list(tmp_path.iterdir())) == 3


def test_one_that_cannot_be_made_fails_the_turn_and_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TurnFailedError, match=rf"{tmp_path}/none.*No such file.*host_dir="):
        SchemaPlace(str(tmp_path / "none")).placed(ASKED, BY_FILE)
