"""What a preset does at each step, beside the default."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.collectors.plugin.installed_commands import FEATURE_EVENTS
from ctxtop.core.actions.preset_steps import preset_steps
from ctxtop.core.compaction.automation_rules import (
    AutomationInput,
    decide_compaction,
    decide_recompaction,
    decide_recovery,
)
from ctxtop.core.compaction.compression_level import COMPACTING_ACTIONS
from ctxtop.core.compaction.plan import PlanOptions, changed_lines
from ctxtop.core.compaction.policy_strategy import whole_options
from ctxtop.core.compaction.recovery.limit_errors import LimitErrorType
from ctxtop.core.compaction.recovery.recovery_run import (
    read_recovery_settings,
    recovery_steps_for,
)
from ctxtop.core.compliance.expectations import (
    ComplianceSettings,
    compliance_settings,
    find_expected_format,
)
from ctxtop.core.compliance.run_verdict import AgentRun, MarkerLine, judge_run
from ctxtop.core.injection.context_selection import (
    EarlierResult,
    InjectionStage,
    OpenTask,
    StartingAgent,
    injection_limits,
    select_context,
)
from ctxtop.core.injection.injected_text import prompt_thresholds, reached_actions
from ctxtop.core.measure.evidence import ContextEvidence, Evidence
from ctxtop.core.model.context import StoredTokenCounts
from ctxtop.core.model.counting_rule import estimate_by_characters
from ctxtop.core.model.evidence_rows import EvidenceRows
from ctxtop.core.model.findings import ComplianceVerdict, ExpectationSource, ExpectedFormat
from ctxtop.core.model.levels import FillPoint, Level, PlacedThreshold, find_warnings
from ctxtop.core.model.result_formats import CLNODE_FORMATS, ResultFormat
from ctxtop.core.model.session import SessionStatus
from ctxtop.core.model.stored_rows import UsageRow
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import Policies, RawValue, resolve_policy
from ctxtop.core.policy.schema import DEFAULT_PRESET, PRESETS
from ctxtop.core.summaries.summary_building import (
    CHEAP_MODEL,
    build_summary,
    default_budget,
    read_summary_settings,
)
from ctxtop.core.summaries.summary_facts import FactKind, find_template, make_fact
from ctxtop.tui.text.formats import NOTHING, tokens, tokens_of_window, used_percent
from msgspec.structs import replace

from ..planned import plan_transcript, source_of
from ..tui.makers import session
from ..tui.support import NOW_MS
from ..worked import WORDS, Session, numbered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctxtop.core.model.context import Context
    from ctxtop.core.policy.policy import Policy


def texts(preset: str) -> dict[str, str]:
    return {
        each.step: each.text.replace("\N{NO-BREAK SPACE}", " ") for each in preset_steps(preset)
    }


def test_the_default_differs_from_itself_in_nothing() -> None:
    assert all(each.text == each.default_text for each in preset_steps(DEFAULT_PRESET))


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != DEFAULT_PRESET])
def test_a_preset_differs_from_every_other_one(preset: str) -> None:
    others = [texts(name) for name in PRESETS if name != preset]
    assert texts(preset) not in others


def test_the_steps_of_a_preset_are_its_values() -> None:
    shown = texts("not-agent")
    assert shown["warns"] == "at 75 %: compacts; above 80 %: tells you; above 100 %: warns you"
    assert shown["window"] == "100,000 tokens"
    assert shown["keeps"] == "the newest 4 messages, fewer of a session that has hardly more"
    assert texts("omo-2.6")["keeps"] == "the newest 5 turns with tools, at least 10,000 tokens"
    assert texts("omo-doc")["recovers"] == (
        "by itself once you set mode = auto yourself, if a prompt is too long: truncate_largest,"
        " fix_empty, summarize; only if you confirm it: revert; off: aggressive"
        " (recovery.aggressive)"
    )
    assert texts("omo-latest")["warns"] == "at 78 %: compacts"
    assert "input + cache read + output only" in texts("omo-2.6")["counts"]
    assert texts("not-agent")["counts"] == "the text only, as characters / 4"
    assert texts("hybrid-buffer")["counts"].endswith("cl100k_base, 4 tokens around each message")
    assert texts("hybrid-buffer")["window"].startswith("80 % of the model's; of an unknown model")
    never = "never by itself; when you ask, a plan by levels, the least harmful changes first"
    assert {texts(name)["compacts"] for name in ("clnode", "native", "claude-memory")} == {never}
    assert texts("default")["compacts"].startswith("a plan by levels")


# Each row of a preset's table, compared with what is done.

MODELS: Final[dict[str, tuple[int, bool]]] = {  # windows, and whether they are known
    "claude-haiku-4-5": (200_000, True),
    "claude-opus-5-5": (1_000_000, True),
    "mystery-9": (1_000_000, False),
}


def policy_of(preset: str) -> Policy:
    """The policy of somebody who chose the preset, and lets it act."""
    said = {"preset": preset, "mode": "auto"}
    return resolve_policy(RawValue(*each, PolicyOrigin.USER_FILE, "x") for each in said.items())


def measured(policy: Policy, model: str, tokens: int) -> Context:
    """A context of this size, however the policy counts it."""
    evidence = Evidence(EvidenceRows(), Policies(policy))
    stored = StoredTokenCounts(
        answer=tokens, input=tokens, texts={policy.counting.text_rule: tokens}
    )
    return evidence.measure(ContextEvidence("s", model=model, client_version="2.1.329"), stored)


def numbers(text: str) -> list[int]:
    return [int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", text)]


def limit_said(text: str, window: int, *, known: bool) -> int | None:
    """The limit in tokens that a table's row names; None if nothing is measured."""
    if "where the window is that large" in text:
        return window if window >= numbers(text)[0] else numbers(text)[1]
    own, _, unknown = text.partition("; of an unknown model ")
    if not unknown:
        return numbers(text)[0]
    share = numbers(own)[0] / 100 if "%" in own else 1.0
    if known:
        return round(share * window)
    return None if unknown.startswith("nothing is measured") else numbers(unknown)[0]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("preset", PRESETS)
def test_the_window_is_the_one_that_screens_measure_by(preset: str, model: str) -> None:
    window, known = MODELS[model]
    said = limit_said(texts(preset)["window"], window, known=known)
    context = measured(policy_of(preset), model, 90_000)
    if said is None:
        assert (context.limit_ratio, context.level) == (None, None)
        assert used_percent(context) == NOTHING
    else:
        assert context.limit_tokens == said
        assert context.limit_ratio == 90_000 / said
        assert tokens_of_window(context).removesuffix(" limit").endswith(f" of {tokens(said)}")
    if not known:
        assert "never compacted by itself" in texts(preset)["window"] or limit_is_fixed(preset)


def limit_is_fixed(preset: str) -> bool:
    return "of an unknown model" not in texts(preset)["window"]


STATE = AutomationInput(
    context=measured(policy_of(DEFAULT_PRESET), "claude-haiku-4-5", 0),
    status=SessionStatus.ENDED,
    is_open=False,
    now_ms=NOW_MS,
    last_written_at=NOW_MS - 3_600_000,
    messages=100,
)


def is_compacted(policy: Policy, context: Context, messages: int = 100) -> bool:
    return decide_compaction(policy, replace(STATE, context=context, messages=messages)).allowed


def thresholds_said(text: str, context: Context) -> Iterator[tuple[int, str]]:
    """The first whole size in tokens that each part of the row is about, and what is done then."""
    for part in [] if text == "never" else text.split("; "):
        where, _, what = part.partition(": ")
        if where.startswith("at the auto-compact limit"):
            below = context.limit_tokens - numbers(where)[0]
            yield context.trigger_tokens or below, what
        elif "tokens in a window of" in where:
            size, least = numbers(where)
            if context.window.tokens >= least:
                yield size, what
        else:
            share = numbers(where)[0]
            first = context.limit_tokens * share // 100
            yield first + where.startswith("above"), what


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-opus-5-5"])
@pytest.mark.parametrize("preset", PRESETS)
def test_it_warns_where_the_table_says_and_does_what_it_says(preset: str, model: str) -> None:
    policy = policy_of(preset)
    said = [*thresholds_said(texts(preset)["warns"], measured(policy, model, 1))]
    for size in {first + step for first, _ in said for step in (-1, 0)} | {1_000}:
        context = measured(policy, model, size)
        reached = [what for first, what in said if size >= first]
        points = [FillPoint(1, context.ratio, tokens=size)]
        assert len(find_warnings(points, context.thresholds, policy.rearm)) == len(reached)
        is_due = any("compacts" in what and "Claude Code" not in what for what in reached)
        assert is_compacted(policy, context) is is_due, size
        prompts = set(reached_actions(context, prompt_thresholds(policy)).values())
        assert ("suggest" in prompts) is any("advises it" in what for what in reached)
        assert ("reassure" in prompts) is any("reassures" in what for what in reached)


@pytest.mark.parametrize("preset", PRESETS)
def test_it_acts_as_the_table_says(preset: str) -> None:
    policy, acts = policy_of(preset), texts(preset)["acts"]
    contexts = [measured(policy, "claude-haiku-4-5", 2_000 * share) for share in range(150)]
    is_due = any(is_compacted(policy, each) for each in contexts)
    assert is_due is not texts(preset)["compacts"].startswith("never by itself")
    of_preset = resolve_policy([RawValue("preset", preset, PolicyOrigin.USER_FILE, "x")])
    assert not any(is_compacted(of_preset, each) for each in contexts), "mode is the person's"
    own_mode = str(of_preset.value("mode"))
    assert ("compacts by itself once you set mode = auto" in acts) is (
        is_due and own_mode == "auto"
    )
    listed = prompt_thresholds(of_preset)
    assert ("--with prompts` advises the model" in acts) is any(
        reached_actions(each, listed) for each in contexts
    )
    assert (acts == "shows only") is (own_mode == "observe")


@pytest.mark.parametrize("preset", PRESETS)
def test_it_warns_again_when_the_table_says(preset: str) -> None:
    policy, again = policy_of(preset), texts(preset)["again"]
    thresholds = [PlacedThreshold(0.7, Level.HIGH, "0.7")]

    def warns_again(*between: FillPoint, after_ms: int = 1) -> bool:
        first = FillPoint(1, 0.7)
        points = [first, *between, FillPoint(1 + after_ms, 0.7)]
        return len(find_warnings(points, thresholds, policy.rearm)) > 1

    at_each = "at each answer" in again
    assert warns_again() is at_each
    assert warns_again(FillPoint(2, 0.3, compacted=True)) is (at_each or "compaction" in again)
    fall = next((numbers(each)[0] for each in again.split(", ") if "fell by" in each), None)
    assert warns_again(FillPoint(2, 0.7 - (fall or 60) / 100)) is (at_each or fall is not None)
    assert warns_again(FillPoint(2, 0.7 - ((fall or 60) - 1) / 100)) is at_each
    seconds = next((numbers(each)[0] for each in again.split(", ") if each.endswith(" s")), None)
    if seconds:
        assert warns_again(after_ms=1_000 * seconds)
        assert not warns_again(after_ms=1_000 * seconds - 1)
    assert (again == "never") is not warns_again(FillPoint(2, 0.1, compacted=True), after_ms=10**9)


@pytest.mark.parametrize("preset", PRESETS)
def test_it_counts_what_the_table_says(preset: str) -> None:
    policy, counts = policy_of(preset), texts(preset)["counts"]
    parts = {"input": 10_000, "cache write": 20_000, "cache read": 70_000, "output": 5_000}
    evidence = Evidence(EvidenceRows(), Policies(policy))
    stored = StoredTokenCounts(
        answer=100_000,
        output=5_000,
        input=10_000,
        cache_creation=20_000,
        cache_read=70_000,
        texts={policy.counting.text_rule: 3_000},
    )
    context = evidence.measure(
        ContextEvidence("s", model="claude-haiku-4-5", client_version="2.1.329"), stored
    )
    if counts.startswith("the text only"):
        said = 3_000
    elif "the whole input" in counts:
        said = 100_000
    else:
        named = counts.partition("last answer: ")[2].partition(" only")[0].split(" + ")
        said = sum(parts[each] for each in named)
    assert context.tokens == said
    shown = replace(session(context=context), usage=UsageRow("s", 1, 2, 3, 4, 1))
    assert (shown.spent_tokens is not None) is ("the sum of all answers" in counts)
    estimator = policy.counting.text_estimator
    if "characters / 4" in counts:
        assert estimator is not None
        assert estimate_by_characters("x" * 41, estimator) == 11
    if "around each message" in counts:
        assert policy.counting.message_overhead == numbers(counts)[-1]


@pytest.mark.parametrize("preset", PRESETS)
def test_it_leaves_small_sessions_alone_as_the_table_says(preset: str) -> None:
    policy, compacts = policy_of(preset), texts(preset)["compacts"]
    names = {each.name for each in policy.thresholds if each.action in COMPACTING_ACTIONS}
    if compacts.startswith("never by itself"):
        return
    messages, least = numbers(compacts)[-2:]
    full = measured(policy, "claude-haiku-4-5", 199_999)
    assert is_compacted(policy, full, messages + 1)
    assert not is_compacted(policy, full, messages)
    low = tuple(PlacedThreshold(0.01, Level.HIGH, name) for name in names)
    for size, is_due in ((least - 1, False), (least, True)):
        assert is_compacted(policy, replace(full, tokens=size, thresholds=low)) is is_due


@pytest.mark.parametrize("preset", PRESETS)
def test_it_keeps_what_the_table_says(preset: str, tmp_path: Path) -> None:
    policy, keeps = policy_of(preset), texts(preset)["keeps"]
    if "messages" in keeps:
        newest, *shares = numbers(keeps)
        options = whole_options(policy)
        assert options is not None
        assert options.keep == newest
        for share, level in zip(shares, (Level.MEDIUM, Level.AGGRESSIVE), strict=False):
            fewer = whole_options(policy, level)
            assert fewer is not None
            assert fewer.keep == max(1, newest * share // 100)
        return
    assert whole_options(policy) is None
    turns, least = numbers(keeps)
    story, results = Session(), list[int]()
    story.ask("read them")
    for place in range(3 * turns):
        words = f"{WORDS} part {place}"
        _, result = story.use("Read", numbered(90, words=words), file_path=f"/src/{place}.py")
        results.append(result)
    plan = plan_transcript(source_of(story.write(tmp_path / "s.jsonl")), PlanOptions(level=3))
    (kept,) = (each.tokens for each in plan.protected if each.why == "newest turns")
    assert kept >= least
    assert set(results) & changed_lines(plan.operations) == set(results[:-turns])


@pytest.mark.parametrize("preset", PRESETS)
def test_its_summary_is_as_long_as_the_table_says(preset: str) -> None:
    settings, summary = read_summary_settings(policy_of(preset)), texts(preset)["summary"]
    length = numbers(summary.partition(" tokens, and besides")[0].rpartition("; ")[2])
    *_, prompts = numbers(summary.partition("your own messages, ")[2].partition(", and")[0])
    if settings.budget is None:
        share, most = length
        assert default_budget(100_000).max_tokens == share * 1_000
        assert default_budget(10**6).max_tokens == most
        return
    (most,) = length
    facts = [
        *(make_fact(FactKind.DECISION, f'"We use number {n}."', n, 0.5) for n in range(200)),
        *(make_fact(FactKind.PROMPT, f"{WORDS} {n} " * 20, n, 1.0, str(n)) for n in range(300)),
    ]
    own = [each for each in facts if each.kind is not FactKind.PROMPT]
    made = build_summary(own, settings.template, settings.budget)
    assert 0.8 * most < made.tokens <= most
    whole = build_summary(facts, settings.template, settings.budget)
    assert 0.8 * prompts < whole.tokens - made.tokens
    assert whole.tokens <= most + prompts


@pytest.mark.parametrize("preset", PRESETS)
def test_its_summary_is_by_the_model_that_the_table_says(preset: str) -> None:
    settings, summary = read_summary_settings(policy_of(preset)), texts(preset)["summary"]
    asked = summary.partition("if you name a provider, by ")[2].partition(";")[0]
    model = "claude-sonnet-5" if asked == "the session's model" else asked.partition(",")[0]
    is_foreign = settings.names_foreign_model
    assert model == (CHEAP_MODEL if is_foreign else settings.resolve_model("claude-sonnet-5"))
    assert (f", or by {settings.model} at" in asked) is is_foreign
    template = summary.rpartition("template: ")[2].replace(" ", "_")
    assert settings.template == find_template(template)


@pytest.mark.parametrize("preset", PRESETS)
def test_it_recovers_as_the_table_says(preset: str) -> None:
    policy, recovers = policy_of(preset), texts(preset)["recovers"]
    settings = read_recovery_settings(policy)
    steps = recovery_steps_for(LimitErrorType.TOKEN_LIMIT, settings)
    alone = recovers.partition("too long: ")[2].partition(";")[0].split(", ")
    confirmed = recovers.partition("if you confirm it: ")[2].partition(";")[0].split(", ")
    assert alone == [each for each in steps if not settings.needs_confirmation(each)]
    assert [each for each in confirmed if each] == [
        each for each in steps if settings.needs_confirmation(each)
    ]
    off = re.findall(r"(\w+) \(recovery\.(\w+)\)", recovers)
    assert {name for name, _ in off} == set(policy.texts("recovery.order")) - set(steps)
    for name, key in off:
        on = RawValue(f"recovery.{key}", True, PolicyOrigin.USER_FILE, "x")
        chosen = RawValue("preset", preset, PolicyOrigin.USER_FILE, "x")
        switched = read_recovery_settings(resolve_policy([chosen, on]))
        assert name in recovery_steps_for(LimitErrorType.TOKEN_LIMIT, switched)
    refused = replace(STATE, status=SessionStatus.TOO_LONG)
    is_automatic = decide_recovery(policy, refused, None).allowed
    assert is_automatic is recovers.startswith("by itself once you set mode = auto")
    again = re.search(r"at most (\d+) times", recovers)
    most = int(again[1]) if again else 0
    silent = replace(STATE, context=measured(policy, "claude-haiku-4-5", 30_000))
    tries = [decide_recompaction(policy, silent, done).allowed for done in range(most + 1)]
    assert tries == [*[True] * most, False]


@pytest.mark.parametrize("preset", PRESETS)
def test_it_checks_agents_as_the_table_says(preset: str) -> None:
    settings, agents = compliance_settings(policy_of(preset)), texts(preset)["agents"]
    assert (settings.mode == "off") is (agents == "their results are not checked")
    if settings.mode == "off":
        return
    good = "[COMPRESSED] agent_type: worker\nChanged files: a.ts\nResult: ok\nDecisions: d"
    for expected, most in zip(
        (ResultFormat.OUTPUT, ResultFormat.REVIEW), numbers(agents), strict=False
    ):
        assert settings.limits.max_lines(expected) == most
    lines, _ = numbers(agents)
    asked = ExpectedFormat(ResultFormat.OUTPUT, ExpectationSource.DECLARED)
    for more, verdict in ((lines, "compliant"), (lines + 1, "non_compliant")):
        text = good + "\nd" * (more - 4)
        made = AgentRun("worker", has_ended=True, final_text=text, final_message_id="m1")
        made = dataclasses.replace(made, final_offset=9, marker_lines=())
        last_only = ComplianceSettings(limits=settings.limits)
        assert judge_run(made, asked, last_only).verdict == verdict
    earlier = (MarkerLine(4, "assistant", "m0", good), MarkerLine(1, "skill_text"))
    run = AgentRun("worker", has_ended=True, final_text="Done.", marker_lines=earlier)
    passes = judge_run(run, asked, settings).verdict is ComplianceVerdict.COMPLIANT
    assert passes is ("in any of its answers" in agents)
    given = dataclasses.replace(run, marker_lines=earlier[1:])
    assert judge_run(given, asked, settings).verdict is ComplianceVerdict.NON_COMPLIANT
    named = re.search(r"without a definition (.*) are checked", agents)
    types = named[1].split(", ") if named else []
    for name in (*CLNODE_FORMATS, "other"):
        found = find_expected_format(name, [], None, settings)
        assert (found.format is not ResultFormat.NONE) is (name in types)
    assert FEATURE_EVENTS["enforce"] == ("SubagentStop",)
    assert "`ctxtop hooks install --with enforce` it is blocked once" in agents


@pytest.mark.parametrize("preset", PRESETS)
def test_it_injects_what_the_table_says(preset: str) -> None:
    limits, injects = injection_limits(policy_of(preset)), texts(preset)["injects"]
    assert limits is not None
    start = StartingAgent("now", "shop", "reviewer", tags=frozenset({"db"}))

    def past(name: str, count: int, **fields: Any) -> list[EarlierResult]:  # noqa: ANN401
        made: dict[str, Any] = {"session_id": f"{name}", "project": "shop", "agent_type": "other"}
        return [
            EarlierResult(f"{name}{n}", text=f"{name} {n}", at=n, **(made | fields))
            for n in range(count)
        ]

    lasting = "[COMPRESSED] agent_type: x\nResult: ok\nDecisions: We keep it."
    results = [
        *past("sibling", 30, session_id="now"),
        *past("same", 30, agent_type="reviewer"),
        *past("tagged", 30, tags=frozenset({"db"})),
        *(replace(each, text=lasting) for each in past("lasting", 30)),
    ]
    found = select_context(start, results, replace(limits, budget=100_000))
    given = Counter(each.stage for each in found.entries)
    siblings, same, sessions, tagged, newest, budget = numbers(injects)
    assert given[InjectionStage.SIBLING] == siblings
    assert given[InjectionStage.SAME_TYPE] == same
    assert given[InjectionStage.CROSS_SESSION] == sessions
    assert given[InjectionStage.TAGGED] == tagged
    alone = select_context(start, past("unlike", 30), replace(limits, budget=100_000))
    assert Counter(each.stage for each in alone.entries) == {InjectionStage.FALLBACK: newest}
    others = past("same", 3, agent_type="reviewer", project="elsewhere")
    is_given = bool(select_context(start, others, limits).entries)
    assert is_given is ("in all projects" in injects)
    assert select_context(start, results, limits).token_bound <= budget == limits.budget
    task = OpenTask("Mend it", "in_progress", owner="reviewer")
    with_task = select_context(replace(start, tasks=(task,)), [], limits)
    assert [each.stage for each in with_task.entries] == [InjectionStage.TASK]
    assert "its open tasks" in injects
