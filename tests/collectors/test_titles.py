"""What sessions are called: by what was typed, and by summaries that name another file's end."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import session_queries
from ctxtop.core.summaries.mentions import find_names, strip_pasted_text

from ..transcripts import PROJECT, SESSION, START_MS, JsonLine, append, assistant, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder

OTHER = "22222222-2222-4333-8444-555555555555"
PASTED = (
    '<pasted_content id="a1b2_c3d4" lines="3">\nTraceback: parse_rows failed\n</pasted_content>'
)
MARKED = PASTED.replace("</pasted_content>", '</pasted_content id="a1b2_c3d4" lines="3">')


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def titles(collector: Collector, store: Path) -> dict[str, str]:
    collector.scan()
    with closing(open_reader(store)) as db:
        return {each.session_id: each.title for each in read_sessions(db, START_MS)}


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        (f"{PASTED}\nfix this, please", "fix this, please"),
        (f"Why is that?\n{PASTED}", "Why is that?"),
        (f"first\n{MARKED} then {MARKED}", "first then"),
        # Where nothing else was said, what was pasted is the best there is.
        (PASTED, "Traceback: parse_rows failed"),
        ("<pasted_content id=1>an end is missing", "an end is missing"),
        ("fix the parser", "fix the parser"),
    ],
)
def test_a_title_is_what_was_typed_not_what_was_pasted(
    path: Path, collector: Collector, store: Path, prompt: str, title: str
) -> None:
    write(path, [user(prompt), assistant()])
    assert titles(collector, store) == {SESSION: title}


def test_the_tag_around_what_was_pasted_is_no_name() -> None:
    assert find_names(f"look at src/app/rows.py {PASTED}") == {"src/app/rows.py", "parse_rows"}


def test_many_open_tags_take_no_long_time() -> None:
    hostile = "<pasted_content " * 50_000
    assert strip_pasted_text(hostile).strip()


def summary_line(title: str, leaf: str) -> JsonLine:
    return {"type": "summary", "summary": title, "leafUuid": leaf}


def of_other() -> JsonLine:
    return user("something else") | {"sessionId": OTHER}


def test_a_summary_titles_the_session_that_ends_in_its_line(
    path: Path, collector: Collector, store: Path
) -> None:
    """Clients of 1.0 to 2.0 write it at the beginning of whichever file they make next."""
    last = assistant()
    write(path, [user("fix the parser"), last])
    write(
        path.with_name(f"{OTHER}.jsonl"), [summary_line("Parser fixed", last["uuid"]), of_other()]
    )
    assert titles(collector, store) == {SESSION: "Parser fixed", OTHER: "something else"}


def test_a_session_that_went_on_is_no_longer_called_so(
    path: Path, collector: Collector, store: Path
) -> None:
    last = assistant()
    write(path, [user("fix the parser"), last])
    write(
        path.with_name(f"{OTHER}.jsonl"), [summary_line("Parser fixed", last["uuid"]), of_other()]
    )
    collector.scan()
    append(path, [user("and the lexer")])
    assert titles(collector, store)[SESSION] == "fix the parser"


def test_a_summary_that_names_no_line_is_its_own_file_s(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [{"type": "summary", "summary": "Parser fixed"}, user(), assistant()])
    assert titles(collector, store) == {SESSION: "Parser fixed"}


@pytest.mark.parametrize("lines", [[], [summary_line("Parser fixed", "u-1")]])
def test_a_file_without_a_conversation_is_no_session(
    path: Path, collector: Collector, store: Path, lines: list[JsonLine]
) -> None:
    write(path, lines)
    assert titles(collector, store) == {}
    with closing(open_reader(store)) as db:
        assert (
            session_queries.newest_sessions(db) == session_queries.find_sessions(db, SESSION) == []
        )


def inside(tag: str, content: str, attribute: str = "from") -> str:
    return f'<{tag} {attribute}="nightly-count" file="/x">{content}</{tag}>'


@pytest.mark.parametrize(
    ("message", "title"),
    [
        (inside("teammate-message", "\nTry the voucher\n", "teammate_id"), "Try the voucher"),
        (inside("agent-message", "\nCount the crates.\n"), "Count the crates"),
        (inside("cross-session-message", "Ship it to Oslo"), "Ship it to Oslo"),
        (inside("channel", "\nrestart the press\n", "source"), "restart the press"),
        (inside("slack-tag-message", "why is it late?"), "why is it late?"),
        ("<user-memory-input>always sort the rows</user-memory-input>", "always sort the rows"),
        ("<bash-input>make -j4 prove</bash-input>", "! make -j4 prove"),
        (inside("scheduled-task", "\nCount.\n", "name"), "nightly-count"),
        ("<system-reminder>\nHook: hi\n</system-reminder>\nSort the invoices", "Sort the invoices"),
        ("<total_tokens>9 tokens left</total_tokens>\nSort the bills", "Sort the bills"),
        # The client's own words, and a state that an agent sends, are about nothing.
        ("<tick>10:15</tick>", f"session {SESSION[:8]}"),
        ("Caveat: The messages below were generated.", f"session {SESSION[:8]}"),
        ("<bash-stdout>clean</bash-stdout>", f"session {SESSION[:8]}"),
        (inside("teammate-message", '{"type":"idle"}'), f"session {SESSION[:8]}"),
    ],
)
def test_a_session_that_begins_with_an_envelope_has_its_content_as_its_title(
    path: Path, collector: Collector, store: Path, message: str, title: str
) -> None:
    write(path, [user(message), assistant()])
    assert titles(collector, store) == {SESSION: title}


def test_what_a_person_types_later_is_a_better_title_and_no_envelope_is_their_prompt(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user("<bash-input>git status</bash-input>"), assistant()])
    assert titles(collector, store) == {SESSION: "! git status"}
    with closing(open_reader(store)) as db:
        (row,) = session_queries.sessions(db)
    assert (row.first_prompt, row.last_prompt) == (None, None)
    append(path, [user("<channel source='x'>restart it</channel>", at=3), user("go on", at=4)])
    append(path, [user("sort the shelves", at=5)])
    assert titles(collector, store) == {SESSION: "sort the shelves"}


def test_old_prompts_that_are_written_again_are_not_the_last_one(
    path: Path, collector: Collector, store: Path
) -> None:
    """/branch of a compacted session appends all messages of before behind the new ones."""
    old = [user(f"count shelf {n}", at=n, gitBranch="old") for n in range(3)]
    new = [user("paint the door", at=9, gitBranch="new"), assistant(at=10)]

    def last() -> tuple[str | None, str | None]:
        collector.scan()
        with closing(open_reader(store)) as db:
            (row,) = session_queries.sessions(db)
        return row.last_prompt, row.git_branch

    write(path, [*old, *new, *old])
    assert last() == ("paint the door", "new")
    append(path, old)
    assert last() == ("paint the door", "new")
    append(path, [user("paint the gate", at=20, gitBranch="newer")])
    assert last() == ("paint the gate", "newer")
    # What has no time may be from before, however the file was read.
    append(path, [user("and the fence", timestamp=None)])
    assert last()[0] == "paint the gate"
