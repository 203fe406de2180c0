"""A project's saves put together: files, transcripts, notes, logs and the sessions at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxtop.core.model.config_records import HookHandler, SaveEventRecord, StagingLocation
from ctxtop.core.model.context_window import ClaimSource, Trigger
from ctxtop.core.model.stored_rows import HookRun
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import DEFAULT_POLICIES, Policies, RawValue, resolve_policy
from ctxtop.core.saves.project_saves import (
    ProjectSaves,
    SavesByProject,
    group_by_project,
    make_saves_report,
)
from ctxtop.core.saves.save_metrics import DEFAULT_SAVE_TOKENS, Rate
from ctxtop.core.saves.save_noise import encode_noise, measure_noise
from ctxtop.core.saves.save_status import SaveState
from ctxtop.tui.text.saves_text import change_text, hook_text
from msgspec.structs import replace

from ..save_rows import (
    HERE,
    INLINE_REASON,
    NOW,
    Talk,
    block_row,
    handled,
    note_row,
    pending,
    result,
    triage,
)
from ..tui.makers import session

if TYPE_CHECKING:
    from ctxtop.core.model.conversation import MessagePart
    from ctxtop.core.model.session import Session


def rows(**fields: Any) -> SavesByProject:  # noqa: ANN401 -- any field may be named
    empty: dict[str, Any] = {
        "files": [],
        "earlier_files": [],
        "blocks": [],
        "notes": [],
        "events": {},
        "plugins": (),
    }
    return group_by_project(**(empty | fields))


def only(
    found: SavesByProject, sessions: tuple[Session, ...] = (), policies: Policies = DEFAULT_POLICIES
) -> ProjectSaves:
    (one,) = make_saves_report(found, sessions, NOW, policies).projects
    return one


def noise(talk: Talk, before: int | None = 1000) -> str:
    found = measure_noise(talk.entries, count, before)
    assert found
    return encode_noise(found)


def count(piece: MessagePart) -> int:
    return len(piece.text)


QUIET = noise(Talk().block().call("a", "Agent", "{}").say("Saved: x", 2000).prompt())
LOUD = noise(
    Talk().block(INLINE_REASON).call("a", "Bash", "memory_write.py").say("ok", 9000).prompt()
)


def test_nothing_is_nothing() -> None:
    assert make_saves_report(rows(), (), NOW).projects == ()
    assert make_saves_report(rows(), (), NOW).next_change_ms is None


def test_projects_come_newest_first_and_each_has_its_own() -> None:
    other = replace(pending(5), project="/home/dev/other")
    found = make_saves_report(rows(files=[result(50), other]), (), NOW).projects

    assert [(each.name, each.status.state) for each in found] == [
        ("other", SaveState.PENDING),
        ("shop", SaveState.SAVED),
    ]


def test_a_global_result_that_names_nobody_has_a_row_of_its_own() -> None:
    nobodys = result(5, generation=StagingLocation.GLOBAL, project=None, problem="is not JSON")
    found = only(rows(files=[replace(nobodys, project=None)]))
    assert (found.project, found.status.state) == ("", SaveState.CORRUPT)


def test_age_and_freshness() -> None:
    for age_s, fresh in ((86_399, True), (86_400, False)):
        found = only(rows(files=[result(age_s)]))
        assert (found.age_s(NOW), found.is_fresh) == (age_s, fresh)


def test_a_time_that_a_file_names_is_believed_unless_it_comes_after_the_file() -> None:
    assert only(rows(files=[result(10, at=NOW - 60_000)])).age_s(NOW) == 60
    assert only(rows(files=[result(10, at=NOW + 10**9)])).age_s(NOW) == 10


def test_confirmed_by_a_note_or_because_the_result_is_gone() -> None:
    words = "Memories saved (decision): Use JWT"
    assert only(rows(files=[result(10)])).was_confirmed is False
    assert only(rows(files=[result(10)], notes=[note_row(words)])).was_confirmed
    # A note from before it is of another save.
    early = [note_row(words, NOW - 20_000)]
    assert only(rows(files=[result(10)], notes=early)).was_confirmed is False
    assert only(rows(files=[result(10)], notes=[note_row(words, cwd="/x")])).was_confirmed is False
    assert only(rows(earlier_files=[result(10)])).was_confirmed
    assert only(rows(files=[pending()])).was_confirmed is None
    # Of a partial save both are told (004-57).
    partly = only(rows(files=[result(7, categories=("runbook",)), pending(5)]))
    assert (partly.status.state, partly.was_confirmed) == (SaveState.PARTIAL, False)
    gone = only(rows(files=[pending(5)], earlier_files=[result(7, categories=("runbook",))]))
    assert (gone.status.state, gone.was_confirmed) == (SaveState.PARTIAL, True)


def test_staged_files_that_a_save_left_behind() -> None:
    assert only(rows(files=[triage(20), result(10)])).has_leftovers
    assert not only(rows(files=[result(10)])).has_leftovers
    assert not only(rows(files=[triage(20)])).has_leftovers


def test_before_and_after_degraded_and_cost() -> None:
    blocks = [
        block_row(QUIET, uuid="1", offset=1),
        block_row(LOUD, uuid="2", offset=2, at=NOW + 1, text=INLINE_REASON),
    ]
    found = only(rows(blocks=blocks))

    assert found.is_degraded
    assert found.expected_cost.tokens == round((1005 + 8005) / 2)
    assert found.expected_cost.sample_count == 2
    assert found.before_after.before
    assert found.before_after.after
    assert not only(rows(blocks=blocks[:1])).is_degraded
    assert not only(rows(blocks=[blocks[1]])).is_degraded


def test_a_project_whose_policy_leaves_saves_out() -> None:
    given = [RawValue("disabled_modules", ["save-flow"], PolicyOrigin.PROJECT_FILE, "x")]
    policies = Policies(projects={HERE: resolve_policy(given)})
    assert make_saves_report(rows(files=[result()]), (), NOW, policies).projects == ()


def test_refires_by_the_policys_sentinel_and_by_the_plugins_count() -> None:
    blocks = [
        block_row(QUIET, uuid=str(n), offset=n, at=NOW + minutes * 60_000)
        for n, minutes in enumerate((0, 20, 60))
    ]
    found = only(rows(blocks=blocks))
    assert (found.refires, found.fire_counts) == (1, {"1": 0, "2": 0, "3+": 1})

    given = [RawValue("saveflow.sentinel_ttl_s", 3600, PolicyOrigin.PROJECT_FILE, "x")]
    policies = Policies(projects={HERE: resolve_policy(given)})
    assert only(rows(blocks=blocks), policies=policies).refires == 2


def test_what_a_save_lost_is_shown_beside_what_is_expected_of_its_size() -> None:
    blocks = [block_row(LOUD), block_row(QUIET, uuid="v", offset=1, at=NOW + 1)]
    found = only(rows(blocks=blocks))
    assert change_text(found).endswith("; 50 % to 75 % expected for 3 categories)")
    assert change_text(only(rows(blocks=blocks[:1]))) == ""


def test_the_plugins_stop_hook_and_its_reason() -> None:
    command = "python3 /p/memory_triage.py"
    runs = [
        HookRun("s", HERE, NOW + n, "Stop", command, ms, None) for n, ms in enumerate((40_000, 900))
    ]
    runs.append(HookRun("s", HERE, NOW, "Stop", "check", 1, None))
    handlers = [HookHandler("Stop", "command", command, 30.0)]
    found = only(rows(blocks=[block_row(QUIET)], hook_runs=runs, hook_handlers=handlers))
    assert found.hook is not None
    assert (found.hook.runs, found.hook.longest_ms, found.hook.timeout_ms) == (2, 40_000, 30_000)
    assert found.block_reason == "The following items should be saved as memories before stopping:"
    told = "the Stop hook took 0.9 s, at most 40 s in 2 runs, of 30 s allowed"
    assert hook_text(found.hook) == f"{told}, and was stopped at its timeout"
    assert only(rows(blocks=[block_row(QUIET)])).hook is None
    # One with a status message is recorded by that.
    named = [HookHandler("Stop", "command", command, 30.0, "Saving memories")]
    runs = [replace(each, command="Saving memories") for each in runs[:2]]
    found = only(rows(blocks=[block_row(QUIET)], hook_runs=runs, hook_handlers=named))
    assert found.hook is not None
    assert (found.hook.runs, found.hook.timeout_ms) == (2, 30_000)


def test_durations_come_from_the_log_or_from_the_results() -> None:
    logged = [
        SaveEventRecord(0, "save.complete", duration_ms=1500),
        SaveEventRecord(9, "save.start"),
    ]
    timed = result(5, phase_ms={"total_ms": 900.0})

    by_log = only(rows(files=[timed], events={HERE: logged})).durations
    assert by_log
    assert (by_log.count, by_log.max_ms) == (1, 1500)
    by_result = only(rows(files=[timed])).durations
    assert by_result
    assert by_result.max_ms == 900


def test_what_the_log_tells_of_many_saves() -> None:
    scored = ['{"triggered":[{"category":"DECISION","score":0.7}]}', '{"triggered":5}', None]
    events = [SaveEventRecord(n, "triage.score", data=data) for n, data in enumerate(scored)]
    events += [
        SaveEventRecord(9, "save.complete"),
        SaveEventRecord(10, "save.complete", error="{}"),
    ]
    found = only(rows(events={HERE: events}))

    assert found.trigger_rates == {"decision": Rate(1, 2)}
    assert found.success_rate == Rate(1, 2)
    assert found.success_rate.share is None
    by_results = only(
        rows(files=[result(5, phase_ms={"draft_ms": 4.0})], earlier_files=[result(9)])
    )
    assert by_results.success_rate == Rate(2, 2)
    assert by_results.phases_ms == {"draft_ms": 4.0}


def test_whether_the_next_save_makes_a_live_session_compact() -> None:
    def live(counter: int) -> Session:
        made = session(live=True, cwd=HERE)
        numbers = replace(made.context.token_counts, counter=counter)
        trigger = Trigger(167_000, ClaimSource.TABLE)
        return replace(made, context=replace(made.context, token_counts=numbers, trigger=trigger))

    (near,) = only(rows(files=[result()]), (live(160_000),)).crossings
    assert near.would_cross
    assert near.cost.tokens == DEFAULT_SAVE_TOKENS
    (far,) = only(rows(blocks=[block_row(QUIET)]), (live(160_000),)).crossings
    assert not far.would_cross
    ended = replace(live(160_000), live=False)
    assert only(rows(files=[result()]), (ended,)).crossings == ()


def test_the_next_moment_at_which_time_alone_changes_a_state() -> None:
    found = make_saves_report(rows(files=[triage(100), handled("saving", 90)]), (), NOW)
    assert found.next_change_ms == NOW + 210_000 + 1
    later = make_saves_report(
        rows(files=[triage(100), handled("saving", 90)]), (), found.next_change_ms
    )
    assert later.projects[0].status.state is SaveState.ORPHANED
    assert later.next_change_ms is None


def test_a_save_that_still_goes_on_is_heard_of() -> None:
    open_save = noise(Talk().block().call("a", "Agent", "{}"))
    found = only(rows(files=[triage(400)], blocks=[block_row(open_save)]))
    assert found.status.state is SaveState.SAVING
    assert only(rows(files=[triage(400)], blocks=[block_row(QUIET)])).status.state is (
        SaveState.ORPHANED
    )
