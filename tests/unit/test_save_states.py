"""The save flow's states: every one, every way into it, and what the plugin would say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.core.model.config_records import (
    SaveError,
    SaveFileContent,
    SaveFileKind,
    StagingLocation,
)
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import BUILT_IN_POLICY, RawValue, resolve_policy
from ctxtop.core.saves.memory_plugin import ORPHAN_MESSAGE, BlindSpot, next_plugin_message
from ctxtop.core.saves.save_noise import MEMORY_CATEGORIES, expand_categories
from ctxtop.core.saves.save_status import (
    ConfirmationSource,
    LoggedEnd,
    LostRequest,
    SaveConfirmation,
    SaveSigns,
    SaveState,
    SaveStatus,
    find_save_status,
    parse_save_note,
)
from ctxtop.core.saves.selected_files import (
    ProjectSaveFiles,
    SaveLimits,
    save_limits,
    select_save_files,
)
from msgspec.structs import replace

from ..save_rows import HERE, NOW, file, handled, pending, result, triage

if TYPE_CHECKING:
    from ctxtop.core.model.config_records import SaveFileRecord

S = SaveState
LIMITS = SaveLimits()
ERROR = SaveError("runbook", "WRITE_ERROR: disk full")


def flow_of(*files: SaveFileRecord, past: tuple[SaveFileRecord, ...] = ()) -> ProjectSaveFiles:
    return select_save_files(HERE, files, past, LIMITS)


def state_of(
    *files: SaveFileRecord,
    past: tuple[SaveFileRecord, ...] = (),
    alive_ms: int | None = None,
    told: SaveConfirmation | None = None,
) -> SaveStatus:
    return find_save_status(flow_of(*files, past=past), NOW, LIMITS, SaveSigns(alive_ms, told))


CASES: dict[str, tuple[SaveState, tuple[SaveFileRecord, ...]]] = {
    "nothing at all": (S.NONE, ()),
    "only an old sentinel": (S.NONE, (handled("pending", 1801),)),
    "triage data": (S.TRIAGED, (triage(),)),
    "triage data and a sentinel": (S.TRIAGED, (triage(20), handled("pending"))),
    "the sentinel alone": (S.TRIAGED, (handled("pending", 1800),)),
    "the sentinel of earlier versions": (S.TRIAGED, (handled(None),)),
    "a time in the future": (S.TRIAGED, (triage(-1000),)),
    "the sentinel says saving": (S.SAVING, (triage(20), handled("saving"))),
    "saving, and nothing beside it": (S.SAVING, (handled("saving", 1800),)),
    "a new save over what is pending": (S.SAVING, (pending(500), handled("saving", 5))),
    "a result": (S.SAVED, (result(),)),
    "a result after the triage": (S.SAVED, (triage(20), result())),
    "a result of the same moment": (S.SAVED, (triage(20), result(20))),
    "the sentinel says saved": (S.SAVED, (triage(20), handled("saved"))),
    "saved, and the result is gone": (S.SAVED, (handled("saved"),)),
    "an old result": (S.SAVED, (result(10**6),)),
    "a result after a torn one elsewhere": (
        S.SAVED,
        (result(5), result(9, generation=StagingLocation.PROJECT, problem="is not JSON")),
    ),
    "errors beside what was saved": (S.PARTIAL, (result(errors=(ERROR,)),)),
    "pending, and some succeeded": (S.PARTIAL, (pending(succeeded=("runbook",)),)),
    "pending after a partial failure": (S.PARTIAL, (pending(reason="partial_failure"),)),
    "pending beside the result": (S.PARTIAL, (pending(5), result(7, categories=("runbook",)))),
    "pending": (S.PENDING, (pending(),)),
    "pending, with what it was to save": (S.PENDING, (pending(), triage(500))),
    "pending, all six": (S.PENDING, (pending(categories=("all",)),)),
    "pending, and an old sentinel": (S.PENDING, (pending(5), handled("saving", 10))),
    "errors alone": (S.PENDING, (result(categories=(), errors=(ERROR,)),)),
    "triage data and no end": (S.ORPHANED, (triage(301),)),
    "no end, and another project's result": (
        S.ORPHANED,
        (triage(400), result(5, generation=StagingLocation.GLOBAL, project="/home/dev/other")),
    ),
    "no end, and a stale result": (S.ORPHANED, (triage(400), result(500))),
    "no end, and another session's result": (
        S.ORPHANED,
        (triage(400), handled("saving", 399, session_id="a"), result(5, session_id="b")),
    ),
    "saving for too long": (S.ORPHANED, (triage(400), handled("saving", 301))),
    "pending without categories": (S.FAILED_UNKNOWN, (pending(categories=()),)),
    "pending that has no such field": (S.FAILED_UNKNOWN, (pending(categories=None),)),
    "pending without categories, triage old": (
        S.FAILED_UNKNOWN,
        (pending(categories=()), triage(400)),
    ),
    "the sentinel says failed": (S.FAILED_UNKNOWN, (triage(20), handled("failed"))),
    "failed, and nothing beside it": (S.FAILED_UNKNOWN, (handled("failed"),)),
    "saving, expired, and nothing": (S.FAILED_UNKNOWN, (handled("saving", 1801),)),
    "errors without a category": (
        S.FAILED_UNKNOWN,
        (result(categories=(), errors=(SaveError("", "odd"),)),),
    ),
    "a torn result": (S.CORRUPT, (result(problem="is not JSON"),)),
    "an empty result": (S.CORRUPT, (result(categories=None, titles=None),)),
    "a torn result after the triage": (S.CORRUPT, (triage(20), result(problem="is not JSON"))),
    "torn triage data": (S.CORRUPT, (triage(problem="is not JSON"),)),
    "torn triage data after a result": (S.CORRUPT, (triage(5, problem="is no file"), result(9))),
    "what is pending is torn": (S.CORRUPT, (pending(problem="is not JSON"), triage(400))),
    "a torn sentinel": (S.CORRUPT, (handled(None, problem="is not JSON"),)),
}


@pytest.mark.parametrize(("state", "files"), CASES.values(), ids=CASES.keys())
def test_each_state(state: SaveState, files: tuple[SaveFileRecord, ...]) -> None:
    standing = state_of(*files)

    assert standing.state is state
    assert standing.reason
    # Whatever says so is a file that was there.
    assert (
        state is S.NONE
        or standing.source_file is None
        or standing.source_file.path in {each.path for each in files}
    )


def test_every_state_has_a_case() -> None:
    assert {state for state, _ in CASES.values()} == set(SaveState)


def test_the_order_of_the_files_says_nothing() -> None:
    for _, files in CASES.values():
        assert state_of(*files) == state_of(*reversed(files))


@pytest.mark.parametrize(
    ("age_s", "state"),
    [(299.999, S.TRIAGED), (300, S.TRIAGED), (300.001, S.ORPHANED), (-0.001, S.TRIAGED)],
)
def test_an_orphan_is_older_than_300_s(age_s: float, state: SaveState) -> None:
    standing = state_of(triage(age_s))

    assert standing.state is state
    if state is S.TRIAGED:
        # That is the moment at which time alone makes it one.
        assert standing.next_change_ms is not None
        later = standing.next_change_ms
        assert find_save_status(flow_of(triage(age_s)), later, LIMITS).state is S.ORPHANED
        assert find_save_status(flow_of(triage(age_s)), later - 1, LIMITS).state is S.TRIAGED


def test_a_save_that_its_session_still_tells_of_is_no_orphan() -> None:
    heard = state_of(triage(900), alive_ms=NOW - 300_000)
    assert heard.state is S.SAVING
    assert state_of(triage(900), alive_ms=NOW - 300_001).state is S.ORPHANED


def test_the_policy_decides_when_a_save_is_an_orphan() -> None:
    given = [
        RawValue(f"saveflow.{name}", value, PolicyOrigin.USER_FILE, "x")
        for name, value in (("orphan_after_s", 60), ("locations", "project"))
    ]
    limits = save_limits(resolve_policy(given))
    flow = select_save_files(HERE, [triage(61, generation=StagingLocation.PROJECT)], (), limits)

    assert find_save_status(flow, NOW, limits).state is S.ORPHANED
    assert select_save_files(HERE, [triage(61)], (), limits).is_empty
    assert save_limits(BUILT_IN_POLICY) == LIMITS


@pytest.mark.parametrize("generation", StagingLocation)
def test_each_generation_is_looked_at(generation: StagingLocation) -> None:
    found = result(5, generation=generation)
    if generation is StagingLocation.GLOBAL:
        found = global_result(HERE + "/")
    assert state_of(found).state is S.SAVED


def test_the_newest_of_all_generations_wins() -> None:
    old = result(20, generation=StagingLocation.PROJECT, titles=("old",))
    new = result(10, generation=StagingLocation.TMP, titles=("new",))

    standing = state_of(old, new)
    assert standing.titles == ("new",)
    assert standing.source_file == new


def global_result(project: str, age_s: float = 5) -> SaveFileRecord:
    """The result that the first versions wrote for all projects: it names its own."""
    said = {"categories": ("decision",), "project": project}
    fact = file(SaveFileKind.RESULT, age_s, generation=StagingLocation.GLOBAL, project=None)
    return replace(fact, content=SaveFileContent(**said))  # type: ignore[arg-type]


def test_the_global_result_is_the_projects_that_it_names() -> None:
    theirs = global_result("/home/dev/other")

    assert state_of(theirs).state is S.NONE
    assert (
        find_save_status(
            select_save_files("/home/dev/other", [theirs], (), LIMITS), NOW, LIMITS
        ).state
        is S.SAVED
    )


def test_what_was_saved_and_what_was_not_is_told() -> None:
    partial = state_of(result(errors=(ERROR,)))
    assert (partial.saved_categories, partial.categories) == (("decision",), ("runbook",))
    assert partial.errors == (ERROR,)
    waiting = state_of(pending(categories=("all",)))
    assert waiting.categories == MEMORY_CATEGORIES
    some = state_of(pending(categories=("decision", "runbook"), succeeded=("constraint",)))
    assert some.reason == "1 of 3 saved, 2 failed: subagent_error"
    assert partial.reason == f"1 of 2 saved, 1 failed: {ERROR.error}"


BOOM = SaveError("constraint", "boom")


@pytest.mark.parametrize("errors_are_in", ["result", "pending", "both"])
def test_a_partial_save_of_the_plugin_is_counted_with_its_error(errors_are_in: str) -> None:
    """The result has the error, what is pending only the category that failed (004-57)."""
    errors = {name: () if errors_are_in not in {name, "both"} else (BOOM,) for name in BOTH}
    ended = result(20, titles=("T",), errors=errors["result"])
    left = pending(
        19, categories=("constraint",), reason="partial_failure", errors=errors["pending"]
    )
    partial = state_of(ended, left)
    assert partial.state is S.PARTIAL
    assert partial.reason == "1 of 2 saved, 1 failed: boom"
    assert (partial.saved_categories, partial.categories) == (("decision",), ("constraint",))
    assert (partial.errors, partial.titles) == ((BOOM,), ("T",))
    # The plugin deletes the result once it has confirmed it; what it said is still true.
    assert state_of(left, past=(ended,)) == partial


BOTH = ("result", "pending")


def test_an_error_without_a_category_is_still_the_reason() -> None:
    left = pending(5, categories=("constraint",), errors=(SaveError("", "plain"),))
    assert state_of(left).reason == "1 category still to save (plain)"
    upper = pending(
        5,
        reason="partial_failure",
        categories=("Constraint",),
        errors=(SaveError("Constraint", "x"),),
    )
    assert state_of(upper).reason == "0 of 1 saved, 1 failed: x"
    # A result that was written long before is of another save.
    old = result(500, errors=(BOOM,))
    assert state_of(old, left).errors == (SaveError("", "plain"),)


THREE = ("decision", "runbook", "constraint")


def test_pending_that_shrinks_counts_what_was_saved_since() -> None:
    error = SaveError("constraint", "no access")
    left = pending(5, categories=("constraint",), errors=(error,))
    some = state_of(left, past=(pending(50, categories=THREE[1:]), pending(90, categories=THREE)))
    assert some.state is S.PARTIAL
    assert some.reason == "2 of 3 saved, 1 failed: no access"
    assert (set(some.saved_categories), some.categories) == (set(THREE[:2]), ("constraint",))
    # An older one that named something else was of another save.
    other = state_of(left, past=(pending(50, categories=("preference",)),))
    assert (other.state, other.saved_categories) == (S.PENDING, ())


def test_a_save_is_finished_once_nothing_is_pending_any_more() -> None:
    past = (pending(50, categories=("constraint",)), pending(90, categories=THREE))
    gone = state_of(past=past)
    assert (gone.state, set(gone.categories)) == (S.SAVED, set(THREE))
    assert gone.reason == "finished: 3 of 3 saved, nothing is pending any more"
    last = result(20, categories=("constraint",), titles=("Use JWT",))
    ended = state_of(last, past=past)
    assert (ended.reason, ended.titles) == (gone.reason, ("Use JWT",))
    assert ended.source_file == last
    # A later save is a save of its own, and so is one of something else.
    assert state_of(result(5), past=(*past, last)).reason == "the result says so"
    assert state_of(result(20), past=past).reason == "the result says so"
    assert state_of(triage(10), past=past).state is S.TRIAGED


def test_what_a_gone_result_said_still_holds() -> None:
    standing = state_of(past=(result(50), result(500)))

    assert (standing.state, standing.titles) == (S.SAVED, ("Use JWT",))
    assert state_of(triage(60), past=(result(50),)).state is S.SAVED
    assert state_of(triage(400), past=(result(500),)).state is S.ORPHANED


def logged_state(
    *files: SaveFileRecord, error: str | None = "boom", age_s: float = 5
) -> SaveStatus:
    end = LoggedEnd(NOW - round(age_s * 1000), error)
    return find_save_status(flow_of(*files), NOW, LIMITS, SaveSigns(logged=end))


def test_the_log_tells_of_a_save_that_left_no_file() -> None:
    """R004-10: a failed save.complete is a failed save."""
    failed = logged_state()
    assert failed.state is S.FAILED_UNKNOWN
    assert failed.reason == "the log says that the save failed: boom"
    assert [each.error for each in failed.errors] == ["boom"]
    assert failed.since_ms == NOW - 5_000
    assert logged_state(error=None).state is S.SAVED
    # With triage data it says which categories, and is no orphan.
    after = logged_state(triage(400))
    assert (after.state, after.categories) == (S.FAILED_UNKNOWN, ("decision", "runbook"))
    assert logged_state(triage(4)).state is S.TRIAGED
    assert logged_state(handled("failed", 5)).reason == failed.reason
    # What is pending takes the error from it; a file of the same save says more.
    assert logged_state(pending(7)).reason == "1 category still to save (boom)"
    assert logged_state(pending(500)).reason == "1 category still to save (subagent_error)"
    assert logged_state(result(7)).state is S.SAVED
    assert logged_state(result(500)).state is S.FAILED_UNKNOWN
    assert logged_state(result(500), handled("saving", 0), age_s=90).state is S.SAVING


def test_triage_data_that_was_never_there_is_a_lost_save() -> None:
    lost = LostRequest(NOW - 400_000, NOW - 390_000, "/gone/triage-data.json", ("decision",))
    signs = SaveSigns(lost=lost)
    found = find_save_status(flow_of(), NOW, LIMITS, signs)
    assert (found.state, found.categories) == (S.ORPHANED, ("decision",))
    assert found.reason.endswith("and the triage data that it was named is missing")
    soon = find_save_status(flow_of(), NOW - 100_000, LIMITS, signs)
    assert soon.state is S.TRIAGED
    assert soon.next_change_ms is not None
    later = find_save_status(flow_of(), soon.next_change_ms, LIMITS, signs)
    assert later.state is S.ORPHANED
    assert find_save_status(flow_of(result(5)), NOW, LIMITS, signs).state is S.SAVED
    assert find_save_status(flow_of(result(500)), NOW, LIMITS, signs).state is S.ORPHANED


def test_a_deferred_save_waits_for_a_person_and_is_no_orphan() -> None:
    """004-68."""
    config = file(SaveFileKind.CONFIG, 10**6, save_mode="deferred")
    waiting = state_of(config, triage(400))
    assert (waiting.state, waiting.categories) == (S.PENDING, ("decision", "runbook"))
    assert "deferred: nothing is saved before /memory:save" in waiting.reason
    assert state_of(file(SaveFileKind.CONFIG, save_mode="inline"), triage(400)).state is S.ORPHANED


def note(age_s: float) -> SaveConfirmation:
    return SaveConfirmation(
        ConfirmationSource.NOTE, NOW - round(age_s * 1000), ("decision",), ("Use PG",)
    )


def closing(age_s: float) -> SaveConfirmation:
    return SaveConfirmation(
        ConfirmationSource.CLOSING_LINE, NOW - round(age_s * 1000), ("decision",), ("a (create)",)
    )


@pytest.mark.parametrize(
    ("files", "told", "state"),
    [
        ((), note(5), S.SAVED),
        ((), closing(5), S.SAVED),
        ((handled("pending", 9),), closing(5), S.SAVED),
        ((handled("pending", 2),), closing(5), S.TRIAGED),
        ((triage(9),), note(5), S.SAVED),
        # Words of the model's are no proof while the triage's data waits.
        ((triage(9),), closing(5), S.TRIAGED),
        ((triage(2),), note(5), S.TRIAGED),
        ((pending(),), note(5), S.PENDING),
        ((result(9, problem="is not JSON"),), note(5), S.CORRUPT),
    ],
)
def test_what_a_transcript_tells(
    files: tuple[SaveFileRecord, ...], told: SaveConfirmation, state: SaveState
) -> None:
    assert state_of(*files, told=told).state is state


def test_a_session_at_work_without_a_file() -> None:
    assert state_of(alive_ms=NOW - 300_000).state is S.SAVING
    assert state_of(alive_ms=NOW - 300_001).state is S.NONE


def test_a_note_is_taken_apart() -> None:
    told = parse_save_note("Memories saved (decision, runbook): Use PG; Restart [errors: x: y]", 5)
    assert told == SaveConfirmation(
        ConfirmationSource.NOTE, 5, ("decision", "runbook"), ("Use PG; Restart",)
    )
    assert parse_save_note("Memories saved in project: shop", 5) is None
    assert parse_save_note("Pending memory save: 1 category", 5) is None
    assert parse_save_note("Memories saved", None) is None


# What the plugin says.


def told(*files: SaveFileRecord) -> tuple[str | None, tuple[BlindSpot, ...]]:
    flow = flow_of(*files)
    said = next_plugin_message(flow, find_save_status(flow, NOW, LIMITS))
    return said.text, said.blind_spots


def test_the_plugin_says_nothing_of_pending_without_categories() -> None:
    assert told(pending(categories=()), triage(400)) == (None, (BlindSpot.EMPTY_PENDING,))


def test_a_result_of_another_save_hides_an_orphan_from_the_plugin() -> None:
    assert told(triage(400)) == (ORPHAN_MESSAGE, ())
    for other in (
        result(500),
        result(500, problem="is not JSON"),
        global_result("/home/dev/other"),
    ):
        assert told(triage(400), other) == (None, (BlindSpot.ANY_RESULT,))


def test_the_plugin_counts_all_as_one() -> None:
    words, spots = told(pending(categories=("all",)))

    assert words is not None
    assert words.startswith("Pending memory save: 1 category from")
    assert spots == (BlindSpot.ALL_IS_ONE,)
    words, spots = told(pending(categories=("decision", "runbook")))
    assert words is not None
    assert words.startswith("Pending memory save: 2 categories from last session.")
    assert spots == ()


def test_categories_by_name() -> None:
    assert expand_categories(["Decision", " decision ", ""]) == ("decision",)
    assert expand_categories(["ALL", "mine"]) == (*MEMORY_CATEGORIES, "mine")


BEGUN = (triage(60), handled("saving", 50))
ENDS: dict[SaveState, tuple[SaveFileRecord, ...]] = {
    S.SAVED: (result(5),),
    S.PARTIAL: (result(5, errors=(ERROR,)),),
    S.PENDING: (pending(5),),
    S.FAILED_UNKNOWN: (pending(5, categories=()),),
    S.CORRUPT: (result(5, problem="is not JSON"),),
}


@pytest.mark.parametrize(("state", "more"), ENDS.items(), ids=[each.value for each in ENDS])
def test_every_way_out_of_saving(state: SaveState, more: tuple[SaveFileRecord, ...]) -> None:
    assert state_of(BEGUN[0]).state is S.TRIAGED
    assert state_of(*BEGUN).state is S.SAVING
    assert state_of(*BEGUN, *more).state is state
    # And from there a new save begins: only what is pending stays beside it.
    fresh = (triage(2), handled("saving", 1))
    kept = tuple(each for each in more if each.kind is SaveFileKind.PENDING)
    assert state_of(*fresh, *kept).state is S.SAVING
    later = find_save_status(flow_of(*BEGUN), NOW + 10**6, LIMITS).state
    assert later is S.ORPHANED
