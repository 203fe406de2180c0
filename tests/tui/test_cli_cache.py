"""`ctxtop cache`: what was written to the prompt cache again, for people and for programs."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from ..transcripts import PROJECT, SESSION, assistant, user, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..transcripts import JsonLine
    from .ended import Ended

MISS_KEYS: Final = (
    "at session_id agent_id model client_version cause cause_source client_reason"
    " client_missed_tokens inferred_cause cause_text read_end read_end_request changed"
    " rewritten_tokens read_tokens written_tokens"
    " cost_usd extra_usd idle_ms lifetime_ms"
)


def answer(name: str, read: int, written: int, at: int, reason: str | None = None) -> JsonLine:
    counts = {
        "input_tokens": 2,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": 5,
    }
    line = assistant(name, counts=counts, at=at, model="claude-opus-5")
    line["message"]["diagnostics"] = {"cache_miss_reason": {"type": reason}} if reason else None
    return line


@pytest.fixture
def run(tmp_path: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    """A session that was left for half an hour and whose tools changed, and the command."""
    root = tmp_path / "claude"
    write(
        root / "projects" / PROJECT / f"{SESSION}.jsonl",
        [
            *(user(), answer("m1", 20_000, 10_000, 1), user(at=2)),
            *(answer("m2", 30_000, 70_000, 3), user(at=1_800)),
            *(answer("m3", 20_000, 80_000, 1_801), user(at=1_805)),
            answer("m4", 0, 100_000, 1_806, "tools_changed"),
        ],
    )
    return lambda *words: call_ctxtop(
        *words, "--config-dir", str(root), "--db", str(tmp_path / "store.db")
    )


def record(ended: Ended) -> dict[str, Any]:
    assert (ended.code, ended.err) == (0, "")
    return dict(json.loads(ended.out))


def test_each_miss_of_a_session_has_the_keys_of_the_contract(run: Callable[..., Ended]) -> None:
    found = record(run("cache", SESSION[:8], "--json"))
    newest, older = found["misses"]
    assert list(newest) == MISS_KEYS.split()
    told = "cause", "cause_source", "client_reason", "inferred_cause"
    assert [newest[key] for key in told] == ["tools_changed", "client", "tools_changed", "unknown"]
    assert [older[key] for key in told] == ["lifetime_passed", "inferred", None, "lifetime_passed"]
    assert [each["rewritten_tokens"] for each in found["misses"]] == [100_000, 80_000]
    assert [each["cause_text"] for each in found["misses"]] == ["tools changed", "≈ cache expired"]
    assert [each["read_end"] for each in found["misses"]] == ["nothing", "shared_start"]
    assert older["idle_ms"] == 1_798_000
    assert older["cost_usd"] == pytest.approx(0.08 * 6.25)
    assert older["extra_usd"] == pytest.approx(0.08 * 5.75)


def test_a_session_s_record_has_its_sums_and_every_request(run: Callable[..., Ended]) -> None:
    found = record(run("cache", SESSION, "--json"))
    assert (found["warm"], found["cached_tokens"], found["lifetime_ms"]) == (
        False,
        100_000,
        300_000,
    )
    assert found["totals"]["written_tokens"] == 260_000
    assert found["totals"]["rewritten_tokens"] == 180_000
    assert found["rewrite_factor"] == pytest.approx(260_000 / 100_002)
    assert [each["read_tokens"] for each in found["requests"]] == [20_000, 30_000, 20_000, 0]
    assert {each["cause"]: each["rewritten_tokens"] for each in found["causes"]} == {
        "tools_changed": 100_000,
        "lifetime_passed": 80_000,
    }
    assert [each["cause_text"] for each in found["causes"]] == ["tools changed", "≈ cache expired"]


def test_without_a_session_all_are_added_up_by_project_model_and_version(
    run: Callable[..., Ended],
) -> None:
    found = record(run("cache", "--json"))
    groups = ("projects", "project", "proj"), ("models", "model", "claude-opus-5")
    for name, key, value in (*groups, ("client_versions", "client_version", "2.1.329")):
        (only,) = found[name]
        assert (only[key], only["rewritten_tokens"]) == (value, 180_000)
    assert found["causes"][0]["share_of_writes"] == pytest.approx(100_000 / 260_000)


def test_since_leaves_out_older_requests(run: Callable[..., Ended]) -> None:
    assert record(run("cache", "--since", "2026-11-21", "--json"))["totals"]["requests"] == 0
    assert record(run("cache", "--since", "2026-11-19", "--json"))["totals"]["requests"] == 4


def test_a_since_that_is_no_time_says_what_to_use(run: Callable[..., Ended]) -> None:
    ended = run("cache", "--since", "1y")
    assert ended.code == 2
    assert "--since 1y is not valid: use today, 24h, 7d, 2w or a date" in ended.err


def test_a_person_sees_inferred_causes_marked(run: Callable[..., Ended]) -> None:
    out = run("cache", SESSION[:8]).out
    assert "cold since" in out
    assert "2.6 times the largest context written" in out
    (miss,) = (each for each in out.splitlines() if "80 k" in each and "≈ $0.50" in each)
    assert "≈ cache expired" in miss
    assert "29 min" in miss
    (named,) = (each for each in out.splitlines() if "≈ $0.62" in each and "100 k" in each)
    assert "≈ tools" not in named
    assert "tools changed" in named


def test_a_person_sees_the_sums_and_the_dearest_misses(run: Callable[..., Ended]) -> None:
    out = run("cache").out
    assert "180 k written again in 2 misses, 69 % of all cache writes: ≈ $1.12" in out
    heads = [line.split()[0] for line in out.splitlines() if line[:1].isupper()]
    assert heads[:4] == ["CAUSE", "PROJECT", "MODEL", "CLIENT"]
    causes = out[out.index("CAUSE") : out.index("PROJECT")].splitlines()[1:]
    assert [each.split("  ")[0] for each in causes if each] == ["tools changed", "≈ cache expired"]
    assert "dearest misses" in out


def test_misses_are_marked_on_the_timeline(run: Callable[..., Ended]) -> None:
    marks = record(run("timeline", SESSION, "--json"))["marks"]
    assert [(each["turn"], each["kind"]) for each in marks] == [
        (2, "cache_miss"),
        (3, "cache_miss"),
    ]
    assert marks[0]["what"] == "≈ cache expired, 80 k rewritten, ≈ $0.50"


def test_exports_have_the_ledger(run: Callable[..., Ended]) -> None:
    exported = record(run("export", "--format", "json"))
    assert len(exported["cache"]) == 2
    assert exported["cache_totals"]["rewritten_tokens"] == 180_000
    rows = list(
        csv.DictReader(io.StringIO(run("export", "--format", "csv", "--what", "cache").out))
    )
    assert list(rows[0]) == MISS_KEYS.split()
    report = run("export", "--format", "markdown").out
    assert "180,000 tokens written again in 2 misses" in report
    assert "| ≈ cache expired | 80,000 | 31 % | ≈ \\$0.50 | 1 |" in report
    assert "| tools\\_changed | 100,000 |" in report


def test_a_folder_without_a_request_says_so(
    tmp_path: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    root = tmp_path / "claude"
    write(root / "projects" / PROJECT / f"{SESSION}.jsonl", [user()])
    ended = call_ctxtop("cache", "--config-dir", str(root), "--db", str(tmp_path / "store.db"))
    assert (ended.code, ended.out) == (0, "no requests with a cache yet\n")
