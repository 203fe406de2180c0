"""`ctxtop search`: its table and JSON, filters, and what it says when there is nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.made_up_secrets import ALL_OF_THEM, told_in
from tests.transcripts import PROJECT, SESSION, append, assistant, text, user, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

    Run = Callable[..., Ended]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lines = [
        user("Fix the connection pool.", at=1),
        assistant(content=[text("The pool is [red]fixed[/]: \x1b[31mdone.")], at=2),
    ]
    return write(tmp_path / ".claude" / "projects" / PROJECT / f"{SESSION}.jsonl", lines)


@pytest.mark.usefixtures("path")
def test_the_table_names_time_role_session_and_text(call_ctxtop: Run) -> None:
    ended = call_ctxtop("search", "the", "pool")
    assert ended.code == 0, ended.err
    head, answer, prompt = ended.out.splitlines()
    assert head.split() == ["TIME", "ROLE", "SESSION", "ID", "SNIPPET"]
    assert answer.startswith("2026-11-20 10:00  answer  ")
    assert answer.endswith(f"{SESSION[:8]}  The pool is [red]fixed[/]: [31mdone.")
    assert "  prompt  Fix the connection pool  " in prompt
    assert "\x1b" not in ended.out


def test_json_says_where_each_hit_is(call_ctxtop: Run, path: Path) -> None:
    answer, prompt = call_ctxtop("search", "pool", "--json").json
    assert list(answer) == [
        *("session_id", "agent_id", "role", "at", "transcript_path"),
        *("deleted", "byte_offset"),
        *("uuid", "snippet", "matches", "forked_from", "fork_kind"),
    ]
    assert prompt["snippet"] == "Fix the connection pool."
    assert prompt["matches"] == [[19, 23]]
    assert (prompt["session_id"], prompt["agent_id"], prompt["role"]) == (SESSION, None, "prompt")
    assert prompt["transcript_path"] == str(path)
    line = path.read_bytes()[answer["byte_offset"] :].split(b"\n")[0].decode()
    assert answer["uuid"] in line
    assert answer["at"] == "2026-11-20T10:00:02.000Z"
    assert call_ctxtop("search", "pool", "role:prompt", "--json").json == [prompt]
    assert call_ctxtop("search", "pool", "project:proj", "--json").json == [answer, prompt]
    assert call_ctxtop("search", "pool", "project:other", "--json").json == []
    assert call_ctxtop("search", "pool", "--limit", "1", "--json").json == [answer]


def test_it_is_up_to_date_unless_told_otherwise(call_ctxtop: Run, path: Path) -> None:
    assert call_ctxtop("search", "lantern", "--json").json == []
    append(path, [user("Light the lantern.", at=3)])
    assert call_ctxtop("search", "lantern", "--no-scan", "--json").json == []
    assert len(call_ctxtop("search", "lantern", "--json").json) == 1


@pytest.mark.usefixtures("path")
def test_an_index_that_is_not_complete_is_told(call_ctxtop: Run) -> None:
    call_ctxtop("sessions")
    ended = call_ctxtop("search", "pool", "--no-scan")
    assert "only 0 of 1 transcripts are indexed" in ended.err


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["lvel:high"], 'unknown filter "lvel:". Use project:, since:, role: or session:'),
        (["since:soon"], "since:soon is not valid"),
        (["..."], "the query contains no words"),
        ([], "Missing argument 'WORDS...'"),
    ],
)
def test_what_cannot_be_searched_is_one_line(
    call_ctxtop: Run, words: list[str], error: str
) -> None:
    ended = call_ctxtop("search", *words)
    assert ended.code == 2
    assert error in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.usefixtures("path")
def test_nothing_found_is_no_error(call_ctxtop: Run) -> None:
    ended = call_ctxtop("search", "zebra")
    assert ended.code == 0
    assert ended.out.startswith("nothing matches 'zebra' in ")


def test_secrets_stay_where_they_are(call_ctxtop: Run, path: Path) -> None:
    append(path, [user(ALL_OF_THEM, at=9)])
    assert call_ctxtop("search", "s3cr3tpw", "--json").json == []
    shown = call_ctxtop("search", "remember").out
    assert "Remember these" in shown
    assert not told_in(shown)


@pytest.mark.usefixtures("path")
def test_doctor_tells_the_size_and_the_time(call_ctxtop: Run) -> None:
    call_ctxtop("search", "pool")
    checks = call_ctxtop("doctor", "--json").json["checks"]
    (check,) = [each for each in checks if each["name"] == "search index"]
    assert check["ok"]
    assert check["detail"].startswith("1 of 1 transcript, ")
    assert "built in " in check["detail"]
