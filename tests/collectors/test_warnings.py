"""The log of warnings: each once, over restarts and beside another ctxtop, none lost."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations import policy_files
from ctxtop.collectors.locations.places import PolicySources
from ctxtop.collectors.locations.policy_files import PolicyFiles
from ctxtop.collectors.post_scan_jobs import WarningEvaluator
from ctxtop.core.model.levels import Level
from ctxtop.core.readers import warning_evaluation
from ctxtop.core.readers.fleet_reader import FleetReader
from ctxtop.core.store import warning_log
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.warning_log import read_warnings
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    append,
    assistant,
    boundary,
    encode,
    launch,
    launched,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.store.warning_log import WarningRow

LARGE = "claude-opus-5-5"


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


@pytest.fixture
def agent_path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / SESSION / "subagents" / "agent-a1.jsonl"


def rows(store: Path) -> list[WarningRow]:
    with closing(open_reader(store)) as db:
        return warning_log.logged_warnings(db)


def said(store: Path) -> list[tuple[str, int, bool]]:
    """Level, tokens, and whether it still stands."""
    return [(row.level, row.tokens, row.cleared_mark is None) for row in rows(store)]


def run(claude: ClaudeFolder, store: Path, **environ: str) -> Recorder:
    """Start ctxtop, look once, and end it."""
    recorder = Recorder()
    with closing(Writer(store)) as writer:
        files = PolicyFiles(PolicySources(environ=environ))
        Collector(claude, writer, recorder, files).scan()
    return recorder


def test_a_row_names_the_fact_that_it_came_from(
    path: Path, claude: ClaudeFolder, store: Path
) -> None:
    lines = [user(), assistant("m1", 100_000, at=5), assistant("m2", 145_000, at=9)]
    write(path, lines)
    run(claude, store)

    (row,) = rows(store)
    assert (row.session_id, row.agent_id, row.threshold) == (SESSION, None, "0.7")
    assert (row.ratio, row.line_ratio, row.window_tokens) == (0.725, 0.7, 200_000)
    assert row.at == START_MS + 9000
    assert (row.path, row.offset) == (f"{PROJECT}/{SESSION}.jsonl", len(encode(lines[:2])))
    assert row.mark == "m2"


def test_a_level_is_reached_by_what_the_policy_counts(
    path: Path, claude: ClaudeFolder, store: Path
) -> None:
    # Of these, 7 were written to the cache, and the last answer wrote 30,000.
    write(path, [user(), assistant("m1", 140_006, at=5), assistant("m2", 111_000, 30_000, at=9)])
    run(claude, store, CTXTOP_POLICY_USAGE__COMPONENTS="input,cache_read")
    assert rows(store) == []

    append(path, [assistant("m3", 110_000, 30_000, at=12)])
    run(claude, store, CTXTOP_POLICY_USAGE__COMPONENTS="input,cache_read,cache_creation,output")
    assert said(store) == [("notice", 140_000, True)]


def test_nothing_is_said_twice_over_restarts(path: Path, claude: ClaudeFolder, store: Path) -> None:
    write(path, [user(), assistant("m1", 165_000)])
    run(claude, store)
    first = rows(store)
    recorder = run(claude, store)
    append(path, [assistant("m2", 166_000, at=2)])
    run(claude, store)

    assert rows(store) == first
    assert recorder.changes == []
    assert said(store) == [("notice", 165_000, True), ("warning", 165_000, True)]


def test_what_came_while_ctxtop_was_off_is_logged(
    path: Path, claude: ClaudeFolder, store: Path
) -> None:
    write(path, [user(), assistant("m1", 145_000)])
    run(claude, store)
    append(
        path,
        [
            assistant("m2", 171_000, at=2),
            boundary(at=3, postTokens=9_000),
            assistant("m3", 142_000, at=4),
        ],
    )
    run(claude, store)

    assert said(store) == [
        ("notice", 145_000, False),
        ("warning", 171_000, False),
        ("high", 171_000, False),
        ("notice", 142_000, True),
    ]
    assert [row.cleared_at for row in rows(store)] == [START_MS + 3000] * 3 + [None]


def test_a_fall_ends_a_level_and_rearms_it(path: Path, claude: ClaudeFolder, store: Path) -> None:
    write(path, [user(), assistant("m1", 145_000)])
    for number, tokens in enumerate((131_000, 141_000, 130_000, 20_000, 142_000), start=2):
        run(claude, store)
        append(path, [assistant(f"m{number}", tokens, at=number)])
    run(claude, store)

    assert said(store) == [("notice", 145_000, False), ("notice", 142_000, True)]
    assert rows(store)[0].cleared_mark == "m4"


def test_facts_that_were_stored_but_not_judged_are_judged_at_the_next_start(
    path: Path, claude: ClaudeFolder, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, [user(), assistant("m1", 145_000)])
    with monkeypatch.context() as killed:
        killed.setattr(WarningEvaluator, "evaluate", lambda *_: frozenset())
        run(claude, store)
    assert rows(store) == []
    run(claude, store)

    assert said(store) == [("notice", 145_000, True)]


def test_a_look_at_what_did_not_change_judges_nothing(
    path: Path, claude: ClaudeFolder, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, [user(), assistant("m1", 145_000)])
    run(claude, store)

    def fail(*_: object) -> None:
        raise AssertionError("judged again")

    monkeypatch.setattr(warning_evaluation, "read_sessions_without_forecast", fail)
    run(claude, store)
    other = claude.projects / PROJECT / "22222222-2222-4333-8444-555555555555.jsonl"
    write(other, [user(), assistant("n1", 69_000)])
    run(claude, store)


def test_two_ctxtops_at_once(path: Path, claude: ClaudeFolder, store: Path) -> None:
    write(path, [user(), assistant("m1", 100_000)])
    with closing(Writer(store)) as first, closing(Writer(store)) as second:
        both = [Collector(claude, each, Recorder()) for each in (first, second)]
        for collector in both:
            collector.scan()
        for number, tokens in enumerate((145_000, 165_000, 191_000), start=2):
            append(path, [assistant(f"m{number}", tokens, at=number)])
            # The second finds the facts stored; what it judges has been judged.
            for collector in both if number % 2 else reversed(both):
                collector.index_paths([path])
        for collector in both:
            collector.scan()

    assert said(store) == [
        ("notice", 145_000, True),
        ("warning", 165_000, True),
        ("high", 191_000, True),
        ("emergency", 191_000, True),
    ]


def test_an_agent_has_warnings_of_its_own(
    path: Path, agent_path: Path, claude: ClaudeFolder, store: Path
) -> None:
    write(path, [user(), launch("t1", context=20_000), launched("t1", "a1", at=2)])
    write(agent_path, [user("?", isSidechain=True)])
    run(claude, store)
    append(agent_path, [assistant("n1", 150_000, at=3, isSidechain=True)])
    run(claude, store)
    append(agent_path, [assistant("n2", 165_000, at=4, isSidechain=True)])
    run(claude, store)

    assert [(row.agent_id, row.level, row.tokens) for row in rows(store)] == [
        ("a1", "notice", 150_000),
        ("a1", "warning", 165_000),
    ]
    assert rows(store)[0].path.endswith("agent-a1.jsonl")


def test_an_agent_within_its_sessions_file(path: Path, claude: ClaudeFolder, store: Path) -> None:
    root = user("?", isSidechain=True)
    answer = assistant("n1", 150_000, at=2, isSidechain=True, parentUuid=root["uuid"])
    write(path, [user(), assistant("m1", 9_000), root, answer])
    run(claude, store)
    run(claude, store)

    (row,) = rows(store)
    assert (row.level, row.tokens) == ("notice", 150_000)
    assert row.agent_id is not None
    assert row.agent_id.startswith(warning_log.SIDECHAIN_AGENTS)


def test_a_file_that_is_written_anew_says_nothing_again(
    path: Path, claude: ClaudeFolder, store: Path
) -> None:
    lines = [user(), assistant("m1", 145_000), assistant("m2", 165_000, at=2)]
    write(path, lines)
    run(claude, store)
    before = rows(store)
    # A line before them was made shorter: every offset is another.
    write(path, [user("x" * 999), *lines[1:]])
    run(claude, store)
    assert rows(store) == before
    append(path, [assistant("m3", 171_000, at=3)])
    run(claude, store)

    assert said(store)[2:] == [("high", 171_000, True)]


def test_a_transcript_that_was_cut_back_goes_on_after_what_was_judged(
    path: Path, claude: ClaudeFolder, store: Path
) -> None:
    lines = [user(), assistant("m1", 145_000), assistant("m2", 165_000, at=2)]
    write(path, lines)
    run(claude, store)
    write(path, [*lines[:2], assistant("m9", 120_000, at=7), assistant("m10", 141_000, at=8)])
    run(claude, store)

    assert said(store) == [
        ("notice", 145_000, False),
        ("warning", 165_000, False),
        ("notice", 141_000, True),
    ]


def test_a_window_that_is_known_better_later_does_not_rewrite_the_log(
    path: Path, claude: ClaudeFolder, store: Path
) -> None:
    model = "claude-opus-4-6"
    write(path, [user(), assistant("m1", 165_000, model=model)])
    run(claude, store)
    append(path, [assistant("m2", 460_000, at=2, model=model)])
    run(claude, store)
    first = rows(store)[:2]
    append(path, [assistant("m3", 810_000, at=3, model=model)])
    run(claude, store)

    assert [(row.level, row.window_tokens, row.ratio) for row in first] == [
        ("notice", 200_000, 0.825),
        ("warning", 200_000, 0.825),
    ]
    assert rows(store)[:2] == first
    assert [(row.level, row.threshold, row.tokens) for row in rows(store)[2:]] == [
        ("notice", "400000@tokens", 460_000),
        ("notice", "0.7", 810_000),
        ("warning", "0.8", 810_000),
    ]


def test_a_very_large_window_has_a_notice_in_tokens(
    path: Path, claude: ClaudeFolder, store: Path
) -> None:
    write(path, [user(), assistant("m1", 399_999, model=LARGE)])
    run(claude, store)
    assert rows(store) == []
    append(path, [assistant("m2", 400_000, at=2, model=LARGE)])
    run(claude, store)

    (row,) = rows(store)
    assert (row.level, row.threshold, row.line_ratio) == ("notice", "400000@tokens", 0.4)


def test_a_projects_own_policy_decides(
    path: Path, claude: ClaudeFolder, store: Path, tmp_path: Path
) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    (project / ".ctxtop.toml").write_text("threshold = ['0.5:warning']\n")
    other = claude.projects / PROJECT / "22222222-2222-4333-8444-555555555555.jsonl"
    write(path, [user(cwd=str(project)), assistant("m1", 120_000, cwd=str(project))])
    write(other, [user(), assistant("n1", 120_000)])
    run(claude, store)
    run(claude, store)

    assert [(row.session_id, row.threshold) for row in rows(store)] == [(SESSION, "0.5")]


def test_a_policy_without_thresholds_says_nothing(
    path: Path, claude: ClaudeFolder, store: Path
) -> None:
    write(path, [user(), assistant("m1", 199_000)])
    run(claude, store, CTXTOP_POLICY_PRESET="clnode")

    assert rows(store) == []


def test_a_monitor_that_is_switched_off_ends_what_stands_and_says_nothing(
    path: Path, claude: ClaudeFolder, store: Path
) -> None:
    off = {"CTXTOP_POLICY_DISABLED_MODULES": "context-window-monitor"}
    write(path, [user(), assistant("m1", 145_000)])
    run(claude, store)
    append(path, [assistant("m2", 191_000, at=2), assistant("m3", 20_000, at=3)])
    run(claude, store, **off)

    assert said(store) == [("notice", 145_000, False)]


def test_what_is_wrong_with_a_policy_is_told_once_and_its_end(
    claude: ClaudeFolder, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_files, "REFRESH_INTERVAL_S", 0.0)
    config = tmp_path / "config.toml"
    config.write_text("mode = 'loud'\n")
    recorder = Recorder()
    with closing(Writer(store)) as writer:
        files = PolicyFiles(PolicySources(user_file=config))
        collector = Collector(claude, writer, recorder, files)
        collector.scan()
        collector.scan()
        (trouble,) = recorder.troubles
        assert trouble.where == f"{config}: mode"
        assert trouble.what == "'loud' is not valid"
        config.write_text("mode = 'auto'\n")
        collector.scan()

    assert recorder.ended == [trouble.where]
    assert len(recorder.troubles) == 1


def test_a_screen_tells_what_was_logged_since_it_watches(
    path: Path, claude: ClaudeFolder, store: Path
) -> None:
    def told(reader: FleetReader) -> list[Any]:
        reader.read(None, START_MS)
        return [
            (found.agent_id, found.warning.level, session.session_id)
            for session, found in reader.new_warnings()
        ]

    write(path, [user(), assistant("m1", 145_000, at=10)])
    run(claude, store)
    with closing(open_reader(store)) as one, closing(open_reader(store)) as two:
        first, second = FleetReader(one, START_MS + 15_000), FleetReader(two, START_MS + 15_000)
        assert told(first) == []
        # An answer of before the watching that is found only now, and one of after it.
        append(path, [assistant("m2", 161_000, at=12), assistant("m3", 191_000, at=20)])
        run(claude, store)

        highest = [(None, Level.EMERGENCY, SESSION)]
        assert (told(first), told(second)) == (highest, highest)
        assert (told(first), told(second)) == ([], [])
        third = FleetReader(one, START_MS + 15_000)
        assert told(third) == []


def test_what_has_ended_by_the_time_it_is_logged_is_not_told(
    path: Path, claude: ClaudeFolder, store: Path
) -> None:
    write(path, [user(), assistant("m1", 10_000)])
    run(claude, store)
    with closing(open_reader(store)) as db:
        reader = FleetReader(db, START_MS)
        append(path, [assistant("m2", 145_000, at=5), boundary(at=6, postTokens=9_000)])
        run(claude, store)
        reader.read(None, START_MS)

        assert reader.new_warnings() == []
        assert [found.warning.level for found in read_warnings(db)] == [Level.NOTICE]
