"""Sessions that passed their trigger uncompacted, or were compacted far below the known one."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.demo import make_demo
from ctxtop.collectors.locations.places import Places
from ctxtop.collectors.plugin.installed_commands import hook_command
from ctxtop.core.model.context_window import ClaimSource
from ctxtop.core.readers.fleet_reader import read_agents, read_assessed_claims, read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.tui.doctor.all_checks import check_all
from ctxtop.tui.entities.context_breakdown import number_sources
from ctxtop.tui.text.session_text import passed_trigger_texts
from msgspec.structs import replace

from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    assistant,
    boundary,
    launch,
    launched,
    summary,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.context_window import Trigger
    from ctxtop.core.model.session import Session

    from ..transcripts import JsonLine

SMALL = "claude-sonnet-4-6"  # its trigger is at 167,000
BLOCKING = "keep-notes --block"


def answers(*contexts: int, model: str = SMALL) -> list[JsonLine]:
    """A prompt and its answer for each size."""
    return [
        line
        for number, context in enumerate(contexts)
        for line in (
            user("next", at=2 * number),
            assistant(f"msg_{number}", context=context, at=2 * number + 1, model=model),
        )
    ]


def install_hook(claude: ClaudeFolder, command: str, matcher: str | None = None) -> None:
    group: dict[str, object] = {"hooks": [{"type": "command", "command": command}]}
    if matcher is not None:
        group["matcher"] = matcher
    (claude.root / "settings.json").write_text(json.dumps({"hooks": {"PreCompact": [group]}}))


def scanned(claude: ClaudeFolder, collector: Collector, store: Path, lines: object) -> Session:
    write(claude.projects / PROJECT / f"{SESSION}.jsonl", lines)  # type: ignore[arg-type]
    collector.scan()
    with closing(open_reader(store)) as db:
        (session,) = read_sessions(db, START_MS)
    return session


def test_two_answers_above_the_trigger_contradict_it_and_the_hook_is_named(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    install_hook(claude, BLOCKING)
    session = scanned(claude, collector, store, answers(90_000, 172_000, 176_000))
    trigger = session.context.trigger
    assert trigger is not None
    assert (trigger.tokens, trigger.source) == (None, ClaimSource.SESSION_ANSWERS)
    assert "not compacted" in trigger.why
    assert f"settings.json can block it: {BLOCKING}" in trigger.why
    with closing(open_reader(store)) as db:
        claims = read_assessed_claims(db, SESSION)
    sources = number_sources(session.context, claims)
    shown = [(each.value, each.source) for each in sources if each.name == "compacts at"]
    assert [value for value, _ in shown] == ["never", "167,000"]
    assert BLOCKING in shown[0][1]
    assert BLOCKING in passed_trigger_texts(replace(session, live=True))[0]


def test_doctor_names_the_session_and_the_hook(
    claude: ClaudeFolder, collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_hook(claude, BLOCKING)
    scanned(claude, collector, store, answers(172_000, 176_000))
    monkeypatch.setattr("time.time_ns", lambda: (START_MS + 60_000) * 1_000_000)
    (check,) = (
        each for each in check_all(Places(claude.root, store)) if each.name == "auto-compact"
    )
    assert (check.state, SESSION[:8] in check.detail) == ("note", True)
    assert BLOCKING in check.detail
    assert "/compact" in (check.fix or "")


CONTRADICTS_NOTHING = [
    # The next request would be compacted first.
    answers(90_000, 176_000),
    # The second request was sent after the context had become smaller.
    answers(176_000, 90_000),
    [*answers(172_000), boundary(at=9), summary(), assistant("new", 176_000, model=SMALL)],
    # What another model was sent says nothing about this one's trigger.
    [*answers(300_000, model="claude-opus-5-5"), assistant("m", context=176_000, model=SMALL)],
]


@pytest.mark.parametrize("lines", CONTRADICTS_NOTHING)
def test_one_answer_above_it_contradicts_nothing(
    claude: ClaudeFolder, collector: Collector, store: Path, lines: list[JsonLine]
) -> None:
    trigger = scanned(claude, collector, store, lines).context.trigger
    assert trigger is not None
    assert trigger.tokens == 167_000
    assert not trigger.is_passed


@pytest.mark.parametrize(
    ("matcher", "named"), [(None, True), ("", True), ("auto", True), ("manual", False)]
)
def test_only_a_hook_of_automatic_compactions_is_named(
    claude: ClaudeFolder, collector: Collector, store: Path, matcher: str | None, named: bool
) -> None:
    install_hook(claude, BLOCKING, matcher)
    trigger = scanned(claude, collector, store, answers(172_000, 176_000)).context.trigger
    assert trigger is not None
    assert trigger.is_passed
    assert (BLOCKING in trigger.why) is named


def test_ctxtops_own_hook_is_not_blamed(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    install_hook(claude, hook_command(store, "PreCompact", ["steer"]))
    trigger = scanned(claude, collector, store, answers(172_000, 176_000)).context.trigger
    assert trigger is not None
    assert (trigger.is_passed, trigger.detail) == (True, "")


def test_a_session_that_was_compacted_far_below_its_window_shows_its_trigger(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    """The variable that sets it was in the environment of a client that has ended."""
    large, old = "claude-opus-5", "2.1.231"
    lines = [
        *answers(60_000, 138_000, model=large),
        boundary(at=9, preTokens=146_200),
        summary(at=9),
        *answers(50_000, 141_000, model=large),
        boundary(at=19, preTokens=148_900),
        summary(at=19),
        *answers(55_000, model=large),
    ]
    session = scanned(claude, collector, store, [line | {"version": old} for line in lines])
    trigger = session.context.trigger
    assert trigger is not None
    assert (trigger.tokens, trigger.source) == (146_200, ClaimSource.SESSION_COMPACTION)


def test_a_compaction_that_a_refused_prompt_may_have_caused_shows_none(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    lines = [*answers(150_000, 199_000, model="claude-opus-5"), boundary(at=9, preTokens=201_000)]
    session = scanned(claude, collector, store, [each | {"version": "2.1.231"} for each in lines])
    assert session.context.trigger is not None
    assert session.context.trigger.source is ClaimSource.TABLE


BESIDE_TURN: dict[str, Any] = {
    "preTokens": 82_640,
    "postTokens": 2_704,
    "cumulativeDroppedTokens": 79_936,
    "durationMs": 4,
    "precomputed": True,
    "preCompactOrganizationsCoverStart": False,
    "runningTurnPrompt": {},
}
"""What 2.1.332 wrote where a flag of its server lets a turn pass its trigger of 79,000 by."""


def test_a_trigger_that_a_turn_passed_by_is_learned_from_the_first_boundary_that_shows_it(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    model = "claude-opus-5-5"
    sent = answers(58_012, 75_553, 82_586, model=model)  # what its requests held
    session = scanned(claude, collector, store, sent)
    assert session.context.trigger is not None
    assert session.context.trigger.source is ClaimSource.TABLE, "its option is seen by nobody"
    after = assistant("after", context=15_000, at=10, model=model)
    lines = [*sent, boundary(at=9, **BESIDE_TURN), summary(at=9), after]
    session = scanned(claude, collector, store, lines)
    trigger = session.context.trigger
    assert trigger is not None
    assert (trigger.tokens, trigger.source) == (82_640, ClaimSource.SESSION_COMPACTION)


@pytest.mark.parametrize("refused", [True, False])
def test_a_request_without_an_answer_tells_a_late_check_from_none(
    claude: ClaudeFolder, collector: Collector, store: Path, tmp_path: Path, refused: bool
) -> None:
    """The demo's session at the end of its window, as it is, and as if no prompt were refused."""
    made = make_demo(tmp_path / "demo", datetime(2026, 11, 21, 12, tzinfo=UTC), pid=4242)
    (path,) = (each.transcript for each in made.sessions if each.title == "Explain the invoice run")
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"compact_boundary"' in line)
    sent = max(n for n in range(at) if lines[n].startswith(b'{"type":"api-request",'))
    if not refused:
        del lines[sent]
    place = claude.projects / PROJECT / path.name
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"".join(lines))
    collector.scan()
    with closing(open_reader(store)) as db:
        (session,) = read_sessions(db, START_MS)
    trigger = session.context.trigger
    assert trigger is not None
    assert trigger.source is ClaimSource.SESSION_COMPACTION
    assert trigger.tokens is None if refused else trigger.tokens is not None


def agent_trigger(
    claude: ClaudeFolder, collector: Collector, store: Path, *lines: JsonLine
) -> Trigger:
    path = claude.projects / PROJECT / SESSION / "subagents" / "agent-a1.jsonl"
    write(path.parents[1].with_suffix(".jsonl"), [user(), launch("t1"), launched("t1", "a1")])
    write(path, [line | {"isSidechain": True, "agentId": "a1"} for line in lines])
    collector.scan()
    with closing(open_reader(store)) as db:
        (agent,) = read_agents(db, read_sessions(db, START_MS), START_MS)
    assert agent.context.trigger is not None
    return agent.context.trigger


def test_an_agent_that_passed_its_trigger_contradicts_it(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    install_hook(claude, BLOCKING)
    trigger = agent_trigger(claude, collector, store, *answers(90_000, 172_000, 176_000))
    assert (trigger.tokens, trigger.is_passed) == (None, True)
    assert f"settings.json can block it: {BLOCKING}" in trigger.why


@pytest.mark.parametrize("lines", CONTRADICTS_NOTHING)
def test_one_answer_of_an_agent_above_it_contradicts_nothing(
    claude: ClaudeFolder, collector: Collector, store: Path, lines: list[JsonLine]
) -> None:
    trigger = agent_trigger(claude, collector, store, *lines)
    assert (trigger.tokens, trigger.is_passed) == (167_000, False)


def clearing(line: JsonLine, tokens: int) -> JsonLine:
    """An answer whose request the API had cleared results from."""
    edit = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3}
    managed = {"applied_edits": [edit | {"cleared_input_tokens": tokens}]}
    return line | {"message": line["message"] | {"context_management": managed}}


def test_what_was_cleared_from_a_request_counts_toward_the_trigger(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    *before, last = answers(90_000, 140_000)
    session = scanned(claude, collector, store, [*before, last])
    left = session.context.trigger_left
    assert left is not None
    cleared = scanned(claude, collector, store, [*before, clearing(last, 20_000)])
    assert cleared.context.tokens == session.context.tokens == 140_000
    assert cleared.context.trigger_left == left - 20_000
    (counter,) = (each for each in number_sources(cleared.context, ()) if each.name == "counter")
    assert counter.source.endswith("and 20,000 that was cleared from its request")

    after = assistant("after", context=141_000, at=9, model=SMALL)
    again = scanned(claude, collector, store, [*before, clearing(last, 20_000), after])
    assert again.context.token_counts.also_counted == 0, "the next request held it again"


def test_an_agent_counts_what_was_cleared_too(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    folder = claude.projects / PROJECT / SESSION / "subagents"
    *before, last = answers(90_000, 140_000)
    for name, lines in (("a1", [*before, last]), ("a2", [*before, clearing(last, 20_000)])):
        own = [line | {"isSidechain": True, "agentId": name} for line in lines]
        own = [json.loads(json.dumps(line).replace("msg_", f"msg_{name}_")) for line in own]
        write(folder / f"agent-{name}.jsonl", own)
    session = scanned(claude, collector, store, answers(20_000))
    with closing(open_reader(store)) as db:
        found = {each.agent_id: each.context for each in read_agents(db, [session], START_MS)}
    left = [found[name].trigger_left or 0 for name in ("a1", "a2")]
    assert left[0] - left[1] == 20_000


def test_a_trigger_is_learned_with_what_was_cleared(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    """The boundary's size leaves it out, but the client compared all of it."""
    *before, last = answers(90_000, 150_000)
    after = assistant("after", context=15_000, at=10, model=SMALL)
    lines = [*before, clearing(last, 30_000), boundary(at=9, preTokens=150_050), summary(at=9)]
    session = scanned(claude, collector, store, [*lines, after])
    assert session.context.trigger_tokens == 167_000
