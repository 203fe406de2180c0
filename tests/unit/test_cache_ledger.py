"""Which requests write again what was in the prompt cache, why, and what it costs."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

from typing import Any, Final

import pytest
from ctxtop.core.measure.prompt_cache.cache_ledger import (
    AGREEING_CAUSES,
    CacheCause,
    CacheLedger,
    CacheMiss,
    CauseSource,
    Change,
    ChangeKind,
    add_up,
    choose_cause,
    judge_miss,
    rewrite_factor,
    to_request,
    totals_by,
    totals_by_cause,
)
from ctxtop.core.measure.prompt_cache.rewrites import (
    ReadEnd,
    ReadPart,
    Rewrite,
    SharedStarts,
    chains,
    find_rewrites,
)
from ctxtop.core.model.answer_rows import CacheAnswerRow, FirstReadRow
from ctxtop.core.model.claude_models import FIVE_MINUTES_MS, HOUR_MS

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


AT_START: Final = lost()
AT_SYSTEM: Final = row(2, 24_000, 81_000, at=20)
AT_MESSAGES: Final = row(2, 30_000, 75_000, at=20)
AT_OTHER_START: Final = row(2, 20_093, 85_000, at=20)
AT_NOTHING: Final = row(2, 0, 105_000, at=20)

CAUSES: Final = [
    (ChangeKind.EDITED, AT_START, CacheCause.OWN_EDIT),
    (ChangeKind.COMPACTED, AT_START, CacheCause.COMPACTION),
    (ChangeKind.TOOLS_ADDED, AT_NOTHING, CacheCause.TOOLS),
    (ChangeKind.TOOLS_REMOVED, AT_START, CacheCause.TOOLS),
    (ChangeKind.TOOLS_CHANGED, AT_NOTHING, CacheCause.TOOLS),
    (ChangeKind.TOOLS_LOADED, AT_OTHER_START, CacheCause.TOOLS),
    (ChangeKind.TOOLS_LOADED, AT_NOTHING, CacheCause.TOOLS),
    (ChangeKind.SYSTEM, AT_START, CacheCause.SYSTEM),
    (ChangeKind.PROMPTED, AT_START, CacheCause.SYSTEM),
    (ChangeKind.SETTINGS, AT_SYSTEM, CacheCause.SETTINGS),
    (ChangeKind.CLEARED, AT_SYSTEM, CacheCause.CLEARING),
    (ChangeKind.REWOUND, AT_MESSAGES, CacheCause.REWIND),
    (ChangeKind.INSTRUCTIONS, AT_SYSTEM, CacheCause.MESSAGES),
    (ChangeKind.MESSAGES, AT_MESSAGES, CacheCause.MESSAGES),
    (ChangeKind.PROMPTED, AT_SYSTEM, CacheCause.MESSAGES),
    (ChangeKind.PROMPTED, AT_MESSAGES, CacheCause.MESSAGES),
    (ChangeKind.PROMPT_KEPT, AT_START, CacheCause.UNCHANGED),
    # What does not explain where reading ended is no evidence.
    (ChangeKind.TOOLS_LOADED, AT_START, CacheCause.UNKNOWN),
    (ChangeKind.TOOLS_LOADED, AT_MESSAGES, CacheCause.UNKNOWN),
    (ChangeKind.CLEARED, AT_START, CacheCause.UNKNOWN),
    (ChangeKind.REWOUND, AT_START, CacheCause.UNKNOWN),
    (ChangeKind.RESUMED, AT_NOTHING, CacheCause.UNKNOWN),
    (ChangeKind.FORKED, AT_NOTHING, CacheCause.UNKNOWN),
    (ChangeKind.LIFETIME, AT_START, CacheCause.UNKNOWN),
    (ChangeKind.PROMPTED, AT_NOTHING, CacheCause.UNKNOWN),
    (ChangeKind.PROMPTED, AT_OTHER_START, CacheCause.UNKNOWN),
]


@pytest.mark.parametrize(("kind", "last", "cause"), CAUSES)
def test_what_changed_names_the_cause_if_it_explains_where_reading_ended(
    kind: ChangeKind, last: CacheAnswerRow, cause: CacheCause
) -> None:
    miss = judged(FIRST, WARM, last, found=(Change(kind),))
    assert (miss.cause, miss.source) == (cause, CauseSource.INFERRED)


@pytest.mark.parametrize("last", [AT_START, AT_SYSTEM, AT_MESSAGES, AT_OTHER_START, AT_NOTHING])
def test_within_a_turn_where_reading_ended_is_no_evidence_alone(last: CacheAnswerRow) -> None:
    """The service may have lost it as well."""
    assert judged(FIRST, WARM, last).cause is CacheCause.UNKNOWN


@pytest.mark.parametrize(
    ("last", "end"),
    [
        (AT_NOTHING, ReadEnd(ReadPart.NOTHING)),
        (AT_OTHER_START, ReadEnd(ReadPart.OTHER_START)),
        (row(2, 19_000, 85_000), ReadEnd(ReadPart.OTHER_START)),
        (AT_START, ReadEnd(ReadPart.SHARED_START)),
        (AT_SYSTEM, ReadEnd(ReadPart.SYSTEM)),
        (AT_MESSAGES, ReadEnd(ReadPart.MESSAGES, 1)),
        (row(2, 60_000, 45_000), ReadEnd(ReadPart.MESSAGES)),
    ],
)
def test_the_tokens_that_were_read_tell_where_reading_ended(
    last: CacheAnswerRow, end: ReadEnd
) -> None:
    rewrite = only_rewrite(FIRST, WARM, last)
    assert (rewrite.read_end, rewrite.number) == (end, 3)


def test_another_start_is_the_start_from_then_on() -> None:
    again = row(3, 20_093, 90_000, at=30)
    rewrites = [*find_rewrites([FIRST, WARM, AT_OTHER_START, again])]
    assert rewrites[-1].read_end.part is ReadPart.SHARED_START


def test_another_model_has_a_start_of_its_own() -> None:
    switched, again = (
        row(number, 22_000, 80_000 + number, model="claude-opus-5-5") for number in (2, 3)
    )
    ends = [each.read_end.part for each in find_rewrites([FIRST, WARM, switched, again])]
    assert ends == [ReadPart.UNKNOWN, ReadPart.SHARED_START]


def test_a_first_request_that_read_nothing_tells_no_start() -> None:
    rewrite = only_rewrite(row(0, 0, 30_000), WARM, lost())
    assert rewrite.read_end.part is ReadPart.UNKNOWN


def first_read(read: int, project: str) -> FirstReadRow:
    return FirstReadRow(f"{project}/s.jsonl", MODEL, "2.1.329", 0, read)


@pytest.mark.parametrize(
    ("others", "part"),
    [
        ([], ReadPart.SHARED_START),
        # Another session began 4,000 tokens earlier: this one may have read its system prompt, too.
        ([first_read(16_000, "q")], ReadPart.UNKNOWN),
        ([first_read(19_500, "q")], ReadPart.SHARED_START),
        # What two projects read is in none of their own system prompts.
        ([first_read(16_000, "q"), first_read(20_000, "q")], ReadPart.SHARED_START),
        ([first_read(16_000, "p"), first_read(20_000, "p")], ReadPart.UNKNOWN),
    ],
)
def test_a_start_that_may_be_a_whole_system_prompt_is_not_trusted(
    others: list[FirstReadRow], part: ReadPart
) -> None:
    starts = SharedStarts([first_read(20_000, "p"), *others])
    (rewrite,) = find_rewrites([FIRST, WARM, AT_START], starts)
    assert rewrite.read_end.part is part


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


def test_another_lifetime_of_the_cache_is_named_but_no_cause() -> None:
    miss = judged(FIRST, WARM, lost(hour=True, cache_1h_tokens=85_000))
    assert miss.cause is CacheCause.UNKNOWN
    assert miss.changes == (Change(ChangeKind.LIFETIME, "5 min → 1 h"),)


def test_a_fork_s_first_request_is_compared_with_the_history_that_it_copied() -> None:
    copied = row(1, 30_000, 70_000, at=10, is_counted=0, is_shared=1)
    miss = judged(FIRST, copied, lost(), found=(Change(ChangeKind.PROMPTED),))
    assert miss.cause is CacheCause.SYSTEM
    assert miss.changes == (Change(ChangeKind.FORKED),)


def test_a_pause_explains_nothing_while_the_conversation_is_still_read() -> None:
    """Reading ended among the messages: the cache was there."""
    partial = row(2, 60_000, 45_000, at=400)
    asked = judged(FIRST, WARM, partial, found=(Change(ChangeKind.PROMPTED),))
    assert asked.cause is CacheCause.MESSAGES
    cleared = judged(FIRST, WARM, partial, found=(Change(ChangeKind.CLEARED),))
    assert cleared.cause is CacheCause.CLEARING


def test_reading_to_the_end_of_an_earlier_request_keeps_its_conversation() -> None:
    """The API reads whole requests: another end near the start is a longer system prompt's."""
    asked = (Change(ChangeKind.PROMPTED),)
    kept, longer = row(2, 30_000, 75_000, at=400), row(2, 31_000, 74_000, at=400)
    assert judged(FIRST, WARM, kept, found=asked).cause is CacheCause.MESSAGES
    assert judged(FIRST, WARM, longer, found=asked).cause is CacheCause.LIFETIME


def test_a_compaction_is_the_cause_after_any_pause() -> None:
    miss = judged(FIRST, WARM, lost(at=4_000), found=(Change(ChangeKind.COMPACTED, "auto"),))
    assert miss.cause is CacheCause.COMPACTION


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
        ("a word of tomorrow", CacheCause.TOOLS, CacheCause.TOOLS, CauseSource.INFERRED),
        (None, CacheCause.REWIND, CacheCause.REWIND, CauseSource.INFERRED),
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
    assert [*totals_by_cause(ledger)] == [(CacheCause.LIFETIME, CauseSource.INFERRED)]
    assert sum(each.written_tokens for each in by_model.values()) == add_up(ledger).written_tokens


def test_an_empty_ledger_has_no_ratios() -> None:
    totals = add_up(CacheLedger())
    assert (totals.read_ratio, totals.rewritten_ratio) == (None, None)


def test_a_cause_that_the_api_named_is_added_up_apart_from_the_same_one_inferred() -> None:
    named = judged(FIRST, WARM, lost(reason="system_changed"))
    inferred = judged(FIRST, WARM, lost(), found=(Change(ChangeKind.SYSTEM),))
    assert {*totals_by_cause(CacheLedger((), (named, inferred)))} == {
        (CacheCause.SYSTEM, CauseSource.CLIENT),
        (CacheCause.SYSTEM, CauseSource.INFERRED),
    }


def test_the_rewrite_factor_is_of_the_session_s_own_conversation() -> None:
    """It wrote 166,000 tokens, and its largest context had 106,000; an agent has its own."""
    agent = to_request(row(9, 0, 500_000, agent_id="a"))
    own = made_ledger().requests
    assert rewrite_factor(CacheLedger((*own, agent))) == pytest.approx(166 / 106)
    assert rewrite_factor(CacheLedger()) is None
