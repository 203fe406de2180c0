"""Which requests write again what was in the prompt cache, why, and what it costs."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

from typing import Any, Final

import pytest
from ctxtop.core.measure.cache_ledger import (
    AGREEING_CAUSES,
    CacheCause,
    CacheLedger,
    CacheMiss,
    CauseSource,
    Change,
    ChangeKind,
    Rewrite,
    add_up,
    chains,
    choose_cause,
    find_rewrites,
    judge_miss,
    to_request,
    totals_by,
    totals_by_cause,
)
from ctxtop.core.measure.models import FIVE_MINUTES_MS, HOUR_MS
from ctxtop.core.store.queries.cache_queries import CacheAnswerRow

MODEL: Final = "claude-opus-5"  # 5 dollars a million; 6.25 and 10 to write, 0.5 to read
SECOND_MS: Final = 1_000


def row(
    number: int, read: int, written: int, *, at: int = 0, hour: bool = False, **fields: Any
) -> CacheAnswerRow:
    """An answer `at` seconds after the start."""
    given: dict[str, Any] = {
        "file_id": 1,
        "path": "p/s.jsonl",
        "session_id": "s",
        "agent_id": None,
        "agent_type": None,
        "offset": number * 100,
        "last_offset": number * 100,
        "message_id": f"msg_{number}",
        "at": at * SECOND_MS,
        "model": MODEL,
        "input_tokens": 0,
        "cache_creation_tokens": written,
        "cache_1h_tokens": written if hour else 0,
        "cache_read_tokens": read,
        "context_tokens": read + written,
        "is_lowered": 0,
        "request": None,
        "client_version": "2.1.329",
        "reason": None,
        "missed_tokens": None,
        "is_counted": 1,
        "is_shared": 0,
    }
    return CacheAnswerRow(**given | fields)


FIRST: Final = row(0, 20_000, 10_000)
WARM: Final = row(1, 30_000, 70_000, at=10)


def only_rewrite(*rows: CacheAnswerRow) -> Rewrite:
    (found,) = find_rewrites(rows)
    return found


def judged(*rows: CacheAnswerRow, found: tuple[Change, ...] = ()) -> CacheMiss:
    return judge_miss(only_rewrite(*rows), found, {})


def lost(number: int = 2, at: int = 20, **fields: Any) -> CacheAnswerRow:
    """A request that reads only what all sessions share."""
    return row(number, 20_000, 85_000, at=at, **fields)


def test_a_conversation_that_only_grows_rewrites_nothing() -> None:
    assert not [*find_rewrites([FIRST, WARM, row(2, 100_000, 500, at=20)])]


def test_the_first_request_is_no_miss() -> None:
    assert not [*find_rewrites([row(0, 0, 100_000)])]


def test_what_was_cached_and_is_written_again_is_rewritten() -> None:
    assert only_rewrite(FIRST, WARM, lost()).tokens == 80_000


def test_no_more_is_rewritten_than_was_written() -> None:
    """After a compaction the request is smaller than what the cache held."""
    assert only_rewrite(FIRST, WARM, row(2, 20_000, 9_000, at=20)).tokens == 9_000


@pytest.mark.parametrize(("missed", "is_miss"), [(1_999, False), (4_999, False), (5_001, True)])
def test_a_miss_is_what_the_client_calls_one(missed: int, is_miss: bool) -> None:
    """Less than 95 % of what was there is read, and 2,000 tokens or more are missing."""
    rows = [FIRST, WARM, row(2, 100_000 - missed, missed, at=20)]
    assert bool([*find_rewrites(rows)]) is is_miss


def test_a_small_conversation_misses_from_2_000_tokens_on() -> None:
    small = [row(0, 0, 10_000), row(1, 8_001, 1_999, at=5)]
    assert not [*find_rewrites(small)]
    assert [*find_rewrites([row(0, 0, 10_000), row(1, 8_000, 2_000, at=5)])]


def test_a_rewind_that_reads_the_shorter_conversation_rewrites_nothing() -> None:
    assert not [*find_rewrites([FIRST, WARM, row(2, 30_000, 200, at=20)])]


def test_an_answer_of_several_steps_leaves_what_its_last_step_saw() -> None:
    """Each step reads the same again: the sums are more than the cache holds."""
    steps = row(1, 90_000, 10_000, at=10, context_tokens=50_000)
    assert not [*find_rewrites([FIRST, steps, row(2, 50_000, 500, at=20)])]


def test_a_copy_in_a_fork_s_file_is_no_miss_of_the_fork() -> None:
    assert not [*find_rewrites([FIRST, WARM, lost(is_counted=0)])]


def test_agents_have_chains_of_their_own() -> None:
    rows = [FIRST, row(1, 0, 5_000, agent_id="a"), WARM]
    assert [len(chain) for chain in chains(rows)] == [2, 1]


def test_a_pause_longer_than_the_lifetime_is_the_cause() -> None:
    miss = judged(FIRST, WARM, lost(at=10 + 301))
    assert (miss.cause, miss.source) == (CacheCause.LIFETIME, CauseSource.INFERRED)
    assert (miss.rewrite.idle_ms, miss.rewrite.lifetime_ms) == (301_000, FIVE_MINUTES_MS)


def test_the_lifetime_is_that_of_what_was_last_written() -> None:
    hour = row(1, 30_000, 70_000, at=10, hour=True)
    reads_only = row(2, 100_000, 0, at=20)
    pause = lost(3, at=20 + 1_800, cache_1h_tokens=1)
    miss = judged(FIRST, hour, reads_only, pause)
    assert miss.rewrite.lifetime_ms == HOUR_MS
    assert miss.cause is not CacheCause.LIFETIME


CAUSES: Final = [
    (ChangeKind.EDITED, CacheCause.OWN_EDIT),
    (ChangeKind.COMPACTED, CacheCause.COMPACTION),
    (ChangeKind.TOOLS_ADDED, CacheCause.TOOLS),
    (ChangeKind.TOOLS_REMOVED, CacheCause.TOOLS),
    (ChangeKind.TOOLS_CHANGED, CacheCause.TOOLS),
    (ChangeKind.SYSTEM, CacheCause.SYSTEM),
    (ChangeKind.SETTINGS, CacheCause.SETTINGS),
    (ChangeKind.CLEARED, CacheCause.CLEARING),
    (ChangeKind.REWOUND, CacheCause.REWIND),
    (ChangeKind.INSTRUCTIONS, CacheCause.MESSAGES),
    (ChangeKind.MESSAGES, CacheCause.MESSAGES),
    (ChangeKind.RESUMED, CacheCause.RESUME),
    (ChangeKind.PROMPT_KEPT, CacheCause.UNCHANGED),
]


@pytest.mark.parametrize(("kind", "cause"), CAUSES)
def test_what_changed_names_the_cause(kind: ChangeKind, cause: CacheCause) -> None:
    assert judged(FIRST, WARM, lost(), found=(Change(kind),)).cause is cause


@pytest.mark.parametrize(
    "kind", [ChangeKind.TOOLS_ANNOUNCED, ChangeKind.AGENTS_LISTED, ChangeKind.INSTRUCTIONS_EDITED]
)
def test_what_is_added_at_the_end_is_no_cause(kind: ChangeKind) -> None:
    """It is named beside the cause, but nothing before it changes."""
    miss = judged(FIRST, WARM, lost(at=400), found=(Change(kind, "x"),))
    assert miss.cause is CacheCause.LIFETIME
    assert miss.changes == (Change(kind, "x"),)


def test_another_model_has_another_cache() -> None:
    miss = judged(FIRST, WARM, lost(model="claude-opus-5-5"))
    assert miss.cause is CacheCause.MODEL
    assert miss.changes == (Change(ChangeKind.MODEL, "claude-opus-5 → claude-opus-5-5"),)


def test_another_version_of_the_client_is_the_cause() -> None:
    miss = judged(FIRST, WARM, lost(client_version="2.1.330"))
    assert miss.cause is CacheCause.VERSION
    assert miss.changes == (Change(ChangeKind.VERSION, "2.1.329 → 2.1.330"),)


def test_a_cache_that_is_asked_for_another_lifetime_is_written_again() -> None:
    miss = judged(FIRST, WARM, lost(hour=True, cache_1h_tokens=85_000))
    assert miss.cause is CacheCause.SETTINGS
    assert miss.changes == (Change(ChangeKind.LIFETIME, "5 min → 1 h"),)


def test_a_fork_s_first_request_is_compared_with_the_history_that_it_copied() -> None:
    copied = row(1, 30_000, 70_000, at=10, is_counted=0, is_shared=1)
    assert judged(FIRST, copied, lost()).cause is CacheCause.FORK


def test_a_pause_explains_nothing_while_the_conversation_is_still_read() -> None:
    """Reading ended among the messages: the cache was there."""
    partial = row(2, 60_000, 45_000, at=400)
    assert judged(FIRST, WARM, partial).cause is CacheCause.MESSAGES
    cleared = judged(FIRST, WARM, partial, found=(Change(ChangeKind.CLEARED),))
    assert cleared.cause is CacheCause.CLEARING


def test_reading_to_the_end_of_an_earlier_request_keeps_its_conversation() -> None:
    """The API reads whole requests: another end near the start is a longer system prompt's."""
    assert judged(FIRST, WARM, row(2, 30_000, 75_000, at=400)).cause is CacheCause.MESSAGES
    assert judged(FIRST, WARM, row(2, 31_000, 74_000, at=400)).cause is CacheCause.LIFETIME


def test_a_compaction_is_the_cause_after_any_pause() -> None:
    miss = judged(FIRST, WARM, lost(at=4_000), found=(Change(ChangeKind.COMPACTED, "auto"),))
    assert miss.cause is CacheCause.COMPACTION


def test_without_any_trace_the_end_of_reading_tells_the_system_prompt() -> None:
    assert judged(FIRST, WARM, lost()).cause is CacheCause.SYSTEM
    assert judged(FIRST, WARM, row(2, 0, 105_000, at=20)).cause is CacheCause.UNKNOWN


@pytest.mark.parametrize(
    ("reason", "inferred", "cause", "source"),
    [
        ("model_changed", CacheCause.UNKNOWN, CacheCause.MODEL, CauseSource.CLIENT),
        ("system_changed", CacheCause.LIFETIME, CacheCause.SYSTEM, CauseSource.CLIENT),
        # Client 2.1.329 writes its system prompt anew at a compaction.
        ("system_changed", CacheCause.COMPACTION, CacheCause.COMPACTION, CauseSource.INFERRED),
        ("tools_changed", CacheCause.TOOLS, CacheCause.TOOLS, CauseSource.CLIENT),
        ("messages_changed", CacheCause.COMPACTION, CacheCause.COMPACTION, CauseSource.INFERRED),
        ("messages_changed", CacheCause.MESSAGES, CacheCause.MESSAGES, CauseSource.CLIENT),
        ("messages_changed", CacheCause.LIFETIME, CacheCause.MESSAGES, CauseSource.CLIENT),
        (
            "previous_message_not_found",
            CacheCause.LIFETIME,
            CacheCause.LIFETIME,
            CauseSource.INFERRED,
        ),
        (
            "previous_message_not_found",
            CacheCause.SYSTEM,
            CacheCause.NOT_FOUND,
            CauseSource.CLIENT,
        ),
        ("unavailable", CacheCause.LIFETIME, CacheCause.LIFETIME, CauseSource.INFERRED),
        ("a word of tomorrow", CacheCause.FORK, CacheCause.FORK, CauseSource.INFERRED),
        (None, CacheCause.FORK, CacheCause.FORK, CauseSource.INFERRED),
    ],
)
def test_the_api_s_word_comes_first_and_what_agrees_and_says_more_beside_it(
    reason: str | None, inferred: CacheCause, cause: CacheCause, source: CauseSource
) -> None:
    assert choose_cause(reason, inferred) == (cause, source)


@pytest.mark.parametrize("reason", [*AGREEING_CAUSES, "a word of tomorrow"])
def test_the_api_s_word_changes_nothing_of_what_is_inferred(reason: str) -> None:
    """So that the benchmark may compare one with the other."""
    assert judged(FIRST, WARM, lost(at=900, reason=reason)).inferred is CacheCause.LIFETIME


def test_a_rewrite_costs_the_price_of_writing_for_its_lifetime() -> None:
    five = judged(FIRST, WARM, lost())
    assert (five.cost_usd, five.extra_usd) == pytest.approx((0.08 * 6.25, 0.08 * 5.75))
    hour = judged(FIRST, WARM, lost(hour=True, cache_1h_tokens=85_000))
    assert (hour.cost_usd, hour.extra_usd) == pytest.approx((0.08 * 10, 0.08 * 9.5))


def test_a_model_without_a_price_costs_an_unknown_amount() -> None:
    miss = judged(FIRST, WARM, lost(model="llama"))
    assert (miss.cost_usd, miss.extra_usd) == (None, None)
    assert add_up(CacheLedger((), (miss,))).unpriced == 1


def made_ledger() -> CacheLedger:
    rows = [FIRST, WARM, lost(at=400), row(3, 105_000, 1_000, at=410, model="claude-opus-5-5")]
    misses = [judge_miss(each, (), {}) for each in find_rewrites(rows)]
    return CacheLedger(tuple(map(to_request, rows)), tuple(misses))


def test_the_sums_hold_every_request_once() -> None:
    totals = add_up(made_ledger())
    assert (totals.requests, totals.misses) == (4, 1)
    assert totals.written_tokens == 10_000 + 70_000 + 85_000 + 1_000
    assert totals.read_ratio == pytest.approx(175_000 / (175_000 + 166_000))
    assert totals.rewritten_ratio == pytest.approx(80_000 / 166_000)


def test_the_sums_by_group_add_up_to_all() -> None:
    ledger = made_ledger()
    by_model = totals_by(ledger, lambda each: each.model)
    assert list(by_model) == ["claude-opus-5", "claude-opus-5-5"]
    assert [each.rewritten_tokens for each in by_model.values()] == [80_000, 0]
    assert [*totals_by_cause(ledger)] == [CacheCause.LIFETIME]
    assert sum(each.written_tokens for each in by_model.values()) == add_up(ledger).written_tokens


def test_an_empty_ledger_has_no_ratios() -> None:
    totals = add_up(CacheLedger())
    assert (totals.read_ratio, totals.rewritten_ratio) == (None, None)
