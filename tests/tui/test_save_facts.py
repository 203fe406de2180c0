"""What the page says of one project's saves, fact by fact, from rows as the store has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.measure.retention import DAY_MS
from ctxtop.core.model.config_records import (
    MemoryPluginRecord,
    SaveError,
    SaveEventRecord,
    SaveFileKind,
    StagingLocation,
)
from ctxtop.core.saves.memory_plugin import BlindSpot, check_plugin
from ctxtop.core.saves.project_saves import make_saves_report
from ctxtop.core.saves.save_log import MAX_GUARDS
from ctxtop.core.saves.save_status import SaveState
from ctxtop.tui.app_state.notifications import find_save_notifications
from ctxtop.tui.text.save_facts import save_facts
from ctxtop.tui.text.saves_text import installation_text
from ctxtop.tui.text.severity import EventSeverity
from msgspec.structs import replace

from ..save_rows import (
    HERE,
    INLINE_REASON,
    NOW,
    Talk,
    block_row,
    file,
    handled,
    note_row,
    pending,
    result,
    triage,
)
from ..unit.test_save_noise import WRITES, task
from ..unit.test_saves_report import LOUD, QUIET, noise, only, rows

if TYPE_CHECKING:
    from ctxtop.core.model.config_records import SaveFileRecord


def facts(**given: Any) -> dict[str, str]:  # noqa: ANN401 -- any rows
    """Return the facts by label; of more than one with a label, the last."""
    return {each.label: each.text for each in save_facts(only(rows(**given)), NOW)}


def warnings(**given: Any) -> set[str]:  # noqa: ANN401
    return {each.label for each in save_facts(only(rows(**given)), NOW) if each.is_warning}


def test_what_was_saved_has_its_titles_and_categories() -> None:
    saved = facts(files=[result(categories=("decision", "runbook"), titles=("Use JWT",))])
    assert saved["saved"] == "Use JWT (decision, runbook)"
    assert facts(files=[result(titles=())])["saved"] == "decision"
    partial = facts(files=[result(errors=(SaveError("runbook", "boom"),))])
    assert (partial["saved"], partial["to save"]) == ("Use JWT (decision)", "runbook")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SaveError("runbook", "disk full"), "runbook: disk full"),
        (SaveError("", "plain"), "plain"),
        (
            SaveError("", "No module named yaml"),
            "No module named yaml (the plugin’s own environment)",
        ),
    ],
)
def test_an_error_is_named_with_its_category_if_it_has_one(error: SaveError, text: str) -> None:
    given = {"files": [pending(errors=(error,))]}
    assert facts(**given)["error"] == text
    assert "error" in warnings(**given)


def test_a_save_of_another_project_is_a_brief_note() -> None:
    """004-51: only the name of its project, and no longer than it is fresh."""

    def elsewhere(age_s: float) -> SaveFileRecord:
        other = result(age_s, generation=StagingLocation.GLOBAL, titles=("Their secret",))
        return replace(other, project="/home/dev/atlas")

    def told(age_s: float) -> dict[str, str]:
        report = make_saves_report(rows(files=[pending(), elsewhere(age_s)]), (), NOW)
        own = next(each for each in report.projects if each.project == HERE)
        return {each.label: each.text for each in save_facts(own, NOW)}

    assert told(180)["elsewhere"] == "Memories saved in project: atlas, 3 min ago"
    assert "Their secret" not in " ".join(told(180).values())
    assert "elsewhere" not in told(86_400)


def staged(age_s: float, size: int, kind: SaveFileKind = SaveFileKind.CONTEXT) -> SaveFileRecord:
    made = file(kind, age_s)
    return replace(made, mark=replace(made.mark, size=size))


def test_staged_files_have_their_age_and_size() -> None:
    """004-75."""
    files = [staged(7_200, 20_000), staged(60, 900, SaveFileKind.TRIAGE)]
    assert facts(files=files)["staged"] == "2 staged files, 21 kB, oldest 2 h"
    left = {"files": [*files, result(5)]}
    assert facts(**left)["left behind"] == "2 staged files, 21 kB, oldest 2 h"
    assert "left behind" in warnings(**left)
    assert facts(files=[staged(5, 10)])["staged"] == "1 staged file, 10 B, oldest 5 s"


def test_a_transition_of_the_sentinel_that_never_happens_is_flagged() -> None:
    """R004-03: pending, saving, then saved or failed; and again from pending."""

    def sentinel(*states: str, sessions: str = "") -> str | None:
        names = sessions or "a" * len(states)
        made = [
            handled(state, 100 - place, session_id=name)
            for place, (state, name) in enumerate(zip(states, names, strict=True))
        ]
        given = {"files": made[-1:], "earlier_files": made[:-1]}
        assert ("sentinel" in warnings(**given)) == ("sentinel" in facts(**given))
        return facts(**given).get("sentinel")

    assert sentinel("saved", "saving") == "went saved → saving, which the plugin never does"
    assert sentinel("failed", "saved", "pending") == (
        "went failed → saved, which the plugin never does"
    )
    assert sentinel("pending", "saving", "saved", "pending", "failed", "pending") is None
    assert sentinel("saving", "saving") is None
    # Another session may have been pending in between, too shortly to be seen.
    assert sentinel("saved", "saving", sessions="ab") is None


def event(name: str, at: int = NOW, **fields: Any) -> SaveEventRecord:  # noqa: ANN401
    return SaveEventRecord(at, name, at, **fields)


def test_the_guards_that_skipped_the_hook_are_counted() -> None:
    """R004-10."""
    guards = ["stop_flag", "sentinel", "stop_flag"]
    skips = [
        event("triage.idempotency_skip", NOW + n, data=json.dumps({"guard": guard}))
        for n, guard in enumerate(guards)
    ]
    odd = [event("triage.idempotency_skip", NOW + 9, data=data) for data in (None, '{"guard": 5}')]
    told = facts(events={HERE: skips})["hook skipped"]
    assert told == "2 times by stop_flag, 1 time by sentinel"
    assert ", 2 times by unknown, " in facts(events={HERE: [*skips, *odd]})["hook skipped"]
    many = [event("triage.idempotency_skip", n, data=f'{{"guard":"{n}"}}') for n in range(50)]
    assert len(facts(events={HERE: many})["hook skipped"].split(", ")) == MAX_GUARDS


@pytest.mark.parametrize(
    "error", ['"boom"', '{"message":"boom"}', '{"type":"OSError","error":"boom"}']
)
def test_a_failed_end_in_the_log_is_a_failed_save_with_its_durations(error: str) -> None:
    given = {
        "events": {
            HERE: [
                event("save.complete", NOW - 60_000, duration_ms=1_500.0),
                event("save.complete", NOW - 5_000, duration_ms=64_000.0, error=error),
            ]
        }
    }
    told = facts(**given)
    assert only(rows(**given)).status.state is SaveState.FAILED_UNKNOWN
    assert (told["why"], told["error"]) == ("the log says that the save failed: boom", "boom")
    assert told["took"] == "median 1 s, p95 1 min, longest 1 min in 2 saves"
    assert told["succeeded"] == "1 of 2 saves"


def test_an_end_that_was_too_long_to_keep_is_no_success() -> None:
    long = event("save.complete", problem="contains more data than ctxtop keeps")
    found = only(rows(events={HERE: [long]}))
    assert found.status.state is SaveState.FAILED_UNKNOWN
    assert "contains more data" in found.status.reason
    assert found.success_rate.hits == 0


def test_saves_that_waited_for_a_person_are_counted_for_a_week() -> None:
    """004-65."""
    past = [pending(days * DAY_MS / 1000 - 1) for days in (2, 7, 8)]
    given = {"files": [pending(5)], "earlier_files": past[:1]}
    assert facts(**given)["pending"] == "2 saves in 7 days waited for you"
    assert "pending" not in warnings(**given)
    given = {"files": [pending(5)], "earlier_files": past}
    assert facts(**given)["pending"] == "3 saves in 7 days waited for you"
    assert "pending" in warnings(**given)


def test_a_project_that_defers_its_saves_is_told_so() -> None:
    """004-68: few such saves are ever made."""
    config = file(SaveFileKind.CONFIG, save_mode="deferred")
    assert "save mode" in warnings(files=[config, result()])
    assert "save mode" not in facts(files=[file(SaveFileKind.CONFIG, save_mode="inline"), result()])


def test_a_triage_file_that_was_never_there_is_named() -> None:
    """004-26: a session was asked to save by a file that is missing."""
    asked = Talk().block().say("I cannot find it.").prompt()
    early = block_row(noise(asked), at=NOW - 400_000)
    lost = {"blocks": [block_row(noise(asked))], "files": [triage(10**6)]}
    assert facts(blocks=[early])["degraded"] == (
        "the triage data is missing: /staging/triage-data.json"
    )
    (found,) = make_saves_report(rows(blocks=[early]), (), NOW + 400_000).projects
    assert found.status.state is SaveState.ORPHANED
    assert found.plugin_message.blind_spots == (BlindSpot.MISSING_DATA,)
    found = only(rows(**lost))
    assert (found.missing_file, found.status.state) == (
        "/staging/triage-data.json",
        SaveState.ORPHANED,
    )
    # It was there, or something was done with it.
    for seen in (
        {"earlier_files": [triage(1)]},
        {"files": [result(0)]},
        {"notes": [note_row("Memories saved (decision): x", NOW + 1)]},
        {"events": {HERE: [event("save.complete", NOW + 1)]}},
    ):
        assert only(rows(blocks=lost["blocks"], **seen)).missing_file is None
    worked = Talk().block().call("a", "Agent", task(WRITES)).prompt()
    assert only(rows(blocks=[block_row(noise(worked))])).missing_file is None


def test_a_second_save_agent_is_an_anomaly() -> None:
    two = Talk().block().call("a", "Agent", task(WRITES)).call("b", "Agent", task(WRITES))
    given = {"blocks": [block_row(noise(two))]}
    assert facts(**given)["save agents"] == "2; one is expected"
    assert "save agents" in warnings(**given)
    one = Talk().block().call("a", "Agent", task(WRITES)).call("b", "Agent", task("Draft."))
    assert "save agents" not in facts(blocks=[block_row(noise(one))])


def test_a_leak_says_what_it_takes() -> None:
    """004-19, 004-38."""
    leaking = Talk().block().call("a", "Agent", task(WRITES))
    for name in "xyz":
        leaking = leaking.call(name, "Bash", "memory_write.py").back(name, "1\n2\n3")
    leak = facts(blocks=[block_row(noise(leaking))])["leak"]
    assert leak == (
        "3 calls, 12 lines of the save agent in the main transcript; 10 to 15 lines and"
        " 1 k to 2 k tokens more are expected; 60 % less at most, not 50 % to 75 %"
    )


def test_the_change_is_told_in_lines_and_tokens() -> None:
    loud = block_row(LOUD, text=INLINE_REASON)
    change = facts(blocks=[loud, block_row(QUIET, uuid="v", offset=1, at=NOW + 1)])["change"]
    before, _, after = change.partition(" → ")
    assert before == "14 lines, 1 item, 8 k tokens"
    assert after == (
        "8 lines, 1 item, 1 k tokens (42.9 % fewer lines, 87.4 % fewer tokens;"
        " 50 % to 75 % expected for 3 categories)"
    )


def test_a_save_above_its_band_says_by_how_much() -> None:
    words = "\n".join(["word"] * 20)
    noisy = Talk().block().call("a", "Agent", "{}").say(words, 1000 + 3200).prompt()
    told = facts(blocks=[block_row(noise(noisy))])["noise"]
    assert told.endswith("✗ 3 lines and 205 tokens more than expected for 3 categories")


def test_an_installation_that_cannot_save_is_called_broken() -> None:
    def told(**halves: bool) -> str:
        plugin = MemoryPluginRecord(
            "/p", "claude-memory@x", "5.1.0", "m", has_orchestrator=False, **halves
        )
        return installation_text(check_plugin(plugin))

    broken = told(skill_takes_file=False, triage_writes_file=True)
    assert broken.startswith("claude-memory@x 5.1.0: BROKEN: old skill, new triage: ")
    assert told(skill_takes_file=True, triage_writes_file=True) == (
        "claude-memory@x 5.1.0: new skill, new triage"
    )


def test_each_save_that_needs_a_person_notifies_once_while_it_is_fresh() -> None:
    """004-77: the key is of the save and its state."""

    def told(**given: Any) -> list[tuple[str, EventSeverity, str]]:  # noqa: ANN401
        found = find_save_notifications(make_saves_report(rows(**given), (), NOW))
        return [(each.title, each.severity, each.key) for each in found]

    ((title, severity, key),) = told(files=[triage(400)])
    assert (title, severity) == ("memory save lost", EventSeverity.PROBLEM)
    assert told(files=[triage(400), staged(1, 1)]) == [(title, severity, key)]
    assert told(files=[triage(500)])[0][2] != key
    (partial,) = told(files=[result(errors=(SaveError("runbook", "boom"),))])
    assert partial[:2] == ("memory save partial", EventSeverity.WARNING)
    (waiting,) = told(files=[pending()])
    assert waiting[0] == "memory save pending"
    config = file(SaveFileKind.CONFIG, save_mode="deferred")
    for silent in ([triage(86_401)], [result()], [triage(5)], [config, triage(400)]):
        assert told(files=silent) == []
    assert list(find_save_notifications(None)) == []
