"""Commands that meet hostile transcripts and damaged stores: one line, and all others as before."""

from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ..fuzz_reader import unseen_in
from ..transcripts import assistant, boundary, launch, launched, summary, user, write
from .writing import session_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

    Run = Callable[..., Ended]

GOOD = "00000001-0000-4000-8000-000000000000"
BAD = "00000002-0000-4000-8000-000000000000"
ODD_ID = "a1\u202e\u200b\x1b[31m"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one sound session that was compacted."""
    place = tmp_path / "claude"
    lines = [user("Build it", at=1), assistant("m1", 150_000, at=2), boundary(3, postTokens=9_000)]
    write(session_file(place, 1), [*lines, summary("Built.", at=4), assistant("m2", 12_000, at=5)])
    return place


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "state" / "store.db"


@pytest.fixture
def run(root: Path, store: Path, call_ctxtop: Run) -> Run:
    return lambda *words: call_ctxtop(*words, "--config-dir", str(root), "--db", str(store))


def rows_of(listed: str) -> list[str]:
    return [line for line in listed.splitlines() if "00000001" in line]


def test_a_trigger_of_3000_characters_leaves_the_other_compactions_as_they_are(
    run: Run, root: Path
) -> None:
    before = run("compactions"), run("compactions", "--json").json
    cut = boundary(3, postTokens=8_000)
    cut["compactMetadata"]["trigger"] = "manual " * 430
    write(session_file(root, 2), [user("Go", at=1), assistant("n1", 90_000, at=2), cut])
    after = run("compactions"), run("compactions", "--json")

    assert (after[0].code, after[0].err, after[1].code) == (0, "", 0)
    assert rows_of(before[0].out)
    assert [line.split() for line in rows_of(after[0].out)] == [
        line.split() for line in rows_of(before[0].out)
    ]
    assert [each for each in after[1].json if each["session_id"] == GOOD] == before[1]
    assert max(map(len, after[0].out.splitlines())) <= 200


@pytest.mark.parametrize(
    "words",
    [
        ("--session", "\ud800\x00", "--agent-type", "x"),
        ("--session", "../../etc/passwd", "--agent-type", "x"),
        ("--session", "z" * 100_000, "--agent-type", "x"),
        ("--session", "%s{0}\n\n", "--agent-type", "\x1b[31m" * 99),
    ],
    ids=["half a sign", "a path", "too long", "two lines"],
)
def test_inject_refuses_what_names_no_session_in_one_line(run: Run, words: tuple[str, ...]) -> None:
    ended = run("inject", *words)

    assert (ended.code, ended.out) == (1, "")
    assert len(ended.err.splitlines()) == 1
    assert not unseen_in(ended.err)


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["text", "json"])
def test_inject_of_an_odd_type_and_prompt_of_an_odd_session(
    run: Run, root: Path, as_json: tuple[str, ...]
) -> None:
    lines = [user("\ud800" * 9, at=1), launch("t1", "re\u202eviewer", at=2)]
    write(session_file(root, 2), [*lines, launched("t1", ODD_ID, at=3), assistant("n1", 9, at=4)])
    odd = ("--agent-type", "x\u200b\x1b[31m" * 500, "--prompt", "tags: \x00\u202e" * 500)
    ended = run("inject", "--session", BAD, *odd, *as_json)

    assert (ended.code, ended.err) == (0, "")
    assert not unseen_in(ended.out)


def test_a_timeline_for_programs_has_no_id_that_was_not_cleaned(run: Run, root: Path) -> None:
    lines = [user("Go", at=1), launch(f"t1{ODD_ID}", "reviewer", at=2)]
    lines += [launched(f"t1{ODD_ID}", ODD_ID, at=3), assistant(f"n1{ODD_ID}", 9_000, at=4)]
    write(session_file(root, 2), [*lines, boundary(5, postTokens=800, uuid=ODD_ID)])
    ended = run("timeline", BAD, "--json")

    assert ended.code == 0
    assert ended.json["turns"]
    # With the escapes of JSON nothing odd would be seen.
    assert not unseen_in(json.dumps(ended.json, ensure_ascii=False))


def test_a_store_that_others_could_read_is_private_after_a_command(run: Run, store: Path) -> None:
    assert run("sessions").code == 0
    places = [store.with_name(store.name + suffix) for suffix in ("", "-wal", "-shm")]
    with closing(sqlite3.connect(store)) as held:
        held.execute("SELECT count(*) FROM session").fetchall()
        for place in places:
            assert place.exists()
            place.chmod(0o666)
        assert run("sessions", "--no-scan").code == 0
        modes = {stat.S_IMODE(place.stat().st_mode) for place in places}

    assert modes == {0o600}


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE session SET cwd = CAST(x'80ff' AS TEXT), first_prompt = CAST(x'fe' AS TEXT)",
        "ALTER TABLE boundary RENAME TO other",
        "UPDATE about SET value = CAST(x'80ff' AS TEXT)",
    ],
)
def test_a_command_heals_a_damaged_store_once_in_one_line(
    run: Run, store: Path, damage: str
) -> None:
    before = run("compactions", "--json").json
    with closing(sqlite3.connect(store)) as db, db:
        db.execute(damage)
    first, second = run("compactions", "--json"), run("compactions", "--json")

    assert [each.code for each in (first, second)] == [0, 0]
    assert first.json == second.json == before
    assert len(first.err.splitlines()) == 1
    assert "rebuilt" in first.err
    assert second.err == ""


def test_a_summary_of_one_endless_line_takes_no_more_room_than_any(run: Run, root: Path) -> None:
    cut = [boundary(3, postTokens=8_000), summary("word " * 9_000, at=4)]
    write(session_file(root, 2), [user("Go", at=1), assistant("n1", 90_000, at=2), *cut])
    lines = run("summaries").out.splitlines()

    assert max(map(len, lines)) <= 200
    assert len(lines) < 30
    assert any(line.endswith("…") for line in lines)
    assert "  Built." in lines
