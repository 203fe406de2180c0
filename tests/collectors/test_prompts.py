"""What the model is told at the thresholds: once each, again when re-armed, never by a guess."""

from __future__ import annotations

import os
import stat
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.current_context import (
    LatestAnswer,
    introduced_model,
    read_latest_answer,
)
from ctxtop.collectors.plugin.answers import prompts
from ctxtop.collectors.plugin.answers.prompts import answer
from ctxtop.collectors.plugin.hook_answer import HookCall
from ctxtop.collectors.plugin_files.plugin_log import log_folder
from ctxtop.collectors.plugin_files.state_files import RETENTION_S, ThresholdAnnouncement
from ctxtop.core.model.answer_facts import TokenUsage
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.core.policy.schema import DEFAULT_PROMPTS
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import log_queries

from ..logs import line as log_line
from ..logs import lines as log_lines
from ..logs import log_file
from ..transcripts import PROJECT, SESSION, assistant, attachment, boundary, encode, user, write

if TYPE_CHECKING:
    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.store.writer import Writer

LARGE = "claude-opus-5-5"
SMALL = "claude-haiku-4-5"
NOW_MS = time.time_ns() // 1_000_000


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    # A whole look each time.
    monkeypatch.setattr(prompts, "THROTTLE_S", 0.0)


@pytest.fixture
def transcript(claude: ClaudeFolder) -> Path:
    path = claude.projects / PROJECT / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    return path


def introduction(model: str) -> dict[str, Any]:
    return attachment("model", identity={"modelId": model})


def said(
    store: Path, transcript: Path, event: str = "UserPromptSubmit", **given: object
) -> str | None:
    """Ask the feature as the hook does; give the threshold's action."""
    fields = {"transcript_path": str(transcript), "cwd": "/home/dev/x"} | given
    reply = answer(HookCall(event, fields, store, time.time_ns() // 1_000_000))
    if reply is None:
        return None
    assert not reply.block_reason
    (action,) = (name for name, text in DEFAULT_PROMPTS.items() if text == reply.context)
    return action


def fill(transcript: Path, *tokens: int, model: str = LARGE) -> None:
    """Write a session whose answers saw so much."""
    answers = [
        assistant(f"m{number}", each, at=number + 1, model=model, version="2.1.329")
        for number, each in enumerate(tokens)
    ]
    write(transcript, [user(), introduction(model), *answers])


def test_each_threshold_once(store: Path, transcript: Path) -> None:
    found = []
    for tokens in (699_999, 700_000, 750_000, 799_999, 800_000, 850_000, 990_000):
        fill(transcript, tokens)
        found.append(said(store, transcript))
        found.append(said(store, transcript, "PostToolUse"))

    assert [each for each in found if each] == ["reassure", "suggest"]
    assert found.index("reassure") == 2
    assert found.index("suggest") == 8


def test_what_a_policy_counts_is_what_reaches_a_threshold(
    store: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTXTOP_POLICY_USAGE__COMPONENTS", "input,cache_read")
    fill(transcript, 700_006)  # 7 of them were written to the cache
    assert said(store, transcript) is None
    fill(transcript, 700_007)
    assert said(store, transcript) == "reassure"


def text_of(transcript: Path, tokens: int) -> None:
    """Write a session with so much text, of which the API saw less."""
    asked = user("x" * 4 * (tokens - 1))
    done = assistant("m1", 50_000, parentUuid=asked["uuid"], model=LARGE, version="2.1.329")
    write(transcript, [introduction(LARGE), asked, done])


def test_a_text_that_a_policy_counts_reaches_a_threshold(
    store: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTXTOP_POLICY_USAGE__SOURCE", "chars4")
    monkeypatch.setenv("CTXTOP_POLICY_USAGE__PER_MESSAGE_OVERHEAD", "0")
    text_of(transcript, 699_999)
    assert said(store, transcript) is None
    text_of(transcript, 700_000)
    assert said(store, transcript) == "reassure"


def test_a_text_that_a_scan_counted_is_not_counted_again(
    store: Path,
    transcript: Path,
    writer: Writer,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CTXTOP_POLICY_USAGE__SOURCE", "chars4")
    text_of(transcript, 1_000)
    collector.scan()
    writer.connection.execute(
        "INSERT INTO context_text SELECT file_id, 'chars4 4', offset, 700000 FROM response"
    )
    assert said(store, transcript) == "reassure"
    fill(transcript, 60_000)
    assert said(store, transcript) is None, "the answer is another one"


def test_no_threshold_is_missed_where_the_output_counts(
    store: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTXTOP_POLICY_USAGE__COMPONENTS", "input,cache_read,cache_creation,output")
    monkeypatch.setattr(prompts, "THROTTLE_S", 60.0)
    fill(transcript, 600_000)
    assert said(store, transcript) is None
    answers = [assistant("m9", 600_001, 100_000, at=9, model=LARGE, version="2.1.329")]
    write(transcript, [user(), introduction(LARGE), *answers])
    assert said(store, transcript) == "reassure"


def test_of_several_at_once_the_most_urgent(store: Path, transcript: Path) -> None:
    fill(transcript, 900_000)
    assert [said(store, transcript) for _ in range(3)] == ["suggest", None, None]


def test_a_policy_says_it_in_other_words(
    store: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTXTOP_POLICY_PROMPTS__SUGGEST", "요약을 고려해 보세요")
    fill(transcript, 850_000)
    given = {"transcript_path": str(transcript)}
    reply = answer(HookCall("UserPromptSubmit", given, store, NOW_MS))
    assert reply is not None
    head, said = reply.context.splitlines()
    assert said == "| 요약을 고려해 보세요"
    assert "written in CTXTOP_POLICY_PROMPTS__SUGGEST" in head
    assert "not an instruction" in head


def test_a_compaction_re_arms(store: Path, transcript: Path) -> None:
    fill(transcript, 850_000)
    assert said(store, transcript) == "suggest"
    compacted = boundary(at=2) | {"timestamp": "2999-01-01T00:00:00Z"}
    write(transcript, [user(), assistant("m1", 850_000, model=LARGE), compacted])
    assert said(store, transcript) is None
    write(transcript, [user(), assistant("m2", 710_000, model=LARGE)])
    assert said(store, transcript) == "reassure"
    assert said(store, transcript) is None


def test_a_fall_re_arms_by_the_policy(
    store: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tokens, expected in ((700_000, "reassure"), (660_000, None), (700_000, None)):
        fill(transcript, tokens)
        assert said(store, transcript) == expected
    fill(transcript, 650_000)
    assert said(store, transcript) is None
    fill(transcript, 700_000)
    assert said(store, transcript) == "reassure"

    monkeypatch.setenv("CTXTOP_POLICY_REARM__HYSTERESIS", "off")
    for tokens in (600_000, 700_000):
        fill(transcript, tokens)
        assert said(store, transcript) is None


@pytest.mark.parametrize(
    ("event", "given"),
    [
        ("Stop", {}),
        ("PostToolUse", {"agent_id": "a1"}),
        ("UserPromptSubmit", {"transcript_path": "/nowhere/at/all.jsonl"}),
        ("UserPromptSubmit", {"transcript_path": 7}),
        ("UserPromptSubmit", {"transcript_path": "/etc/passwd"}),
    ],
)
def test_where_nothing_is_said(
    store: Path, transcript: Path, event: str, given: dict[str, object]
) -> None:
    fill(transcript, 900_000)
    assert said(store, transcript, event, **given) is None


def test_an_unknown_window_says_nothing(store: Path, transcript: Path) -> None:
    fill(transcript, 190_000, model="some-other-model")
    assert said(store, transcript) is None
    # The API's name alone does not tell which window it was asked for.
    answers = [assistant("m1", 190_000, model="claude-opus-4-6", version="2.1.329")]
    write(transcript, [user(), *answers])
    assert said(store, transcript) is None
    write(transcript, [user(), introduction("claude-opus-4-6[1m]"), *answers])
    assert said(store, transcript) is None
    write(transcript, [user(), introduction("claude-opus-4-6"), *answers])
    assert said(store, transcript) == "suggest"


def test_the_store_knows_better(store: Path, transcript: Path, collector: Collector) -> None:
    write(transcript, [user(), assistant("m1", 170_000, model="claude-opus-4-6")])
    given = {
        "session_id": SESSION,
        "model": {"id": "claude-opus-4-6"},
        "context_window": {"context_window_size": 200_000},
    }
    log_file(store, LogKind.STATUS_LINE).write_bytes(log_lines([log_line(NOW_MS, **given)]))
    assert said(store, transcript) is None
    collector.scan()
    assert said(store, transcript) == "suggest"


def test_what_was_said_is_kept(store: Path, transcript: Path, collector: Collector) -> None:
    fill(transcript, 850_000)
    said(store, transcript)
    collector.scan()
    with closing(open_reader(store)) as db:
        assert log_queries.bad_log_lines(db) == []
        rows = db.execute("SELECT feature, session_id, kind FROM answer_item").fetchall()
    assert [tuple(row) for row in rows] == [("prompts", SESSION, "reassure suggest")]


@pytest.mark.parametrize(
    ("module", "told"), [("context-window-monitor", None), ("preemptive", "reassure")]
)
def test_a_policy_that_is_silent(
    store: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch, module: str, told: str | None
) -> None:
    monkeypatch.setenv("CTXTOP_POLICY_DISABLED_MODULES", module)
    fill(transcript, 900_000)
    assert said(store, transcript) == told


@pytest.mark.parametrize(
    ("mode", "told"), [("observe", None), ("suggest", "suggest"), ("auto", "suggest")]
)
def test_who_only_observes_tells_the_model_nothing(
    store: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch, mode: str, told: str | None
) -> None:
    """T-10 and requirements 2.2."""
    monkeypatch.setenv("CTXTOP_POLICY_MODE", mode)
    fill(transcript, 900_000)
    assert said(store, transcript) == told


def test_of_many_at_once_one_says_it(store: Path, transcript: Path) -> None:
    fill(transcript, 850_000)
    found: list[str | None] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        found.append(said(store, transcript))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    # One may have claimed the first threshold, and another the second.
    assert found.count("suggest") == 1
    assert len([each for each in found if each]) <= 2


def test_between_whole_looks_only_what_may_be_due_is_looked_at(
    store: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "THROTTLE_S", 3600.0)
    fill(transcript, 400_000)
    assert said(store, transcript) is None
    assert prompts.is_throttled(store, SESSION, 699_999)
    assert not prompts.is_throttled(store, SESSION, 700_000)
    assert not prompts.is_throttled(store, SESSION, 399_999), "compacted"
    assert not prompts.is_throttled(store, SESSION, None)
    fill(transcript, 700_000)
    assert said(store, transcript) == "reassure"


def test_the_rough_fill_is_that_of_the_last_answer(transcript: Path) -> None:
    fill(transcript, 1000, 2000, 3000)
    assert prompts.estimate_context_tokens(transcript) == 3000
    write(transcript, [user('"usage":{'), {"type": "x", "usage": {"a": {"b": "}"}}}])
    assert prompts.estimate_context_tokens(transcript) == 0
    assert prompts.estimate_context_tokens(transcript.with_name("none.jsonl")) is None


def test_the_newest_answer_that_counts() -> None:
    counted = assistant("m1", 5000, model=LARGE, version="2.1.329")
    after = [
        assistant("m2", 9000, isSidechain=True),
        assistant("m3", 9000, isApiErrorMessage=True),
        assistant("m4", 9000, model="<synthetic>"),
        user('he said "assistant" and "usage" and "compact_boundary"'),
    ]
    lines = encode([counted, *after, b'{"type":"assistant","usage":']).split(b"\n")

    usage = TokenUsage(3, 7, 4990, 50)
    assert read_latest_answer(lines) == LatestAnswer(5000, LARGE, "2.1.329", None, usage)
    assert read_latest_answer([]) == LatestAnswer()
    edit = {"type": "clear_tool_uses_20250919", "cleared_input_tokens": 700}
    cleared = assistant("m9", 5_000)
    cleared["message"]["context_management"] = {"applied_edits": [edit]}
    counts = read_latest_answer([encode([cleared])]).stored_counts
    assert (counts.answer, counts.also_counted) == (5_000, 700)
    later = encode([counted, boundary(at=7)]).split(b"\n")
    found = read_latest_answer(later)
    assert found.tokens is None
    assert found.compacted_at


def test_the_model_that_was_introduced_last(transcript: Path) -> None:
    write(transcript, [introduction("claude-a"), user(), introduction("claude-b[1m]"), user()])
    assert introduced_model(transcript) == "claude-b[1m]"
    write(transcript, [user()])
    assert introduced_model(transcript) is None
    transcript.write_bytes(b"")
    assert introduced_model(transcript) is None
    transcript.write_bytes(b'{"modelId": "modelId"')
    assert introduced_model(transcript) is None


def test_what_was_said_long_ago_is_forgotten(store: Path, transcript: Path) -> None:
    old = ThresholdAnnouncement(store, "other", "0.7")
    assert old.claim()
    folder = Path(log_folder(str(store)), "said")
    (made,) = folder.iterdir()
    long_ago = time.time() - RETENTION_S - 60
    os.utime(made, (long_ago, long_ago))
    fill(transcript, 850_000)
    assert said(store, transcript) == "suggest"

    assert made not in set(folder.iterdir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}


def test_far_from_every_threshold_a_full_check_waits_for_a_change(
    store: Path, transcript: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """THROTTLE_S is 0 here: only what holds for long keeps a full check away."""
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))
    fill(transcript, 60_000)
    assert said(store, transcript) is None
    assert prompts.is_throttled(store, SESSION, 70_000, LARGE)
    assert not prompts.is_throttled(store, SESSION, 70_000, SMALL), "another model"
    assert not prompts.is_throttled(store, SESSION, 59_999, LARGE), "compacted"
    assert not prompts.is_throttled(store, SESSION, 140_000, LARGE), "reached in a small window"
    monkeypatch.setenv("CTXTOP_POLICY_PROMPTS__SUGGEST", "off")
    assert not prompts.is_throttled(store, SESSION, 70_000, LARGE), "another setting"
    monkeypatch.delenv("CTXTOP_POLICY_PROMPTS__SUGGEST")
    assert prompts.is_throttled(store, SESSION, 70_000, LARGE)
    settings = tmp_path / "settings" / "ctxtop" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('threshold = "50%"\n', encoding="utf-8")
    assert not prompts.is_throttled(store, SESSION, 70_000, LARGE), "another file"


def test_a_session_without_an_answer_is_checked_once_a_minute(
    store: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "THROTTLE_S", 60.0)
    write(transcript, [user()])
    assert said(store, transcript) is None
    assert prompts.is_throttled(store, SESSION, None)
    assert not prompts.is_throttled(store, SESSION, 1)
