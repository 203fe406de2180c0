"""From a transcript to a plan: what is chosen, what is refused, and what the plan promises."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.plan import (
    PlanOptions,
    RemoveLine,
    Severity,
    requests_to_break_even,
)
from ctxtop.core.compaction.protection import NEWEST_TURNS, SHORTENED
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.transcript_planning import (
    LET_SESSION_GROW,
    STRATEGIES,
    min_saved_tokens,
)
from ctxtop.core.compaction.undo import undo
from ctxtop.core.model.claude_models import (
    CACHE_WRITE_1H_FACTOR,
    CACHE_WRITE_5M_FACTOR,
    SMALL_WINDOW,
    cache_read_factor,
)
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.transcript.entry_decoder import iter_entries, read_entries
from ctxtop.core.transcript.visible_messages import is_call, is_result, visible_entries
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import transcripts as made
from tests.planned import (
    SHORT,
    carried_out,
    freed_by,
    plan_of,
    short,
    source_of,
    tokens_of,
    view_of,
)
from tests.sessions_on_disk import rest, subject_of
from tests.worked import NEWER, OLDER, WORDS, Session, numbered

from ..planned import plan_transcript

if TYPE_CHECKING:
    from collections.abc import Iterator


def long_session(model: str = OLDER, thinking: bool = False) -> Session:
    session = Session(model)
    session.ask("mend the decoder")
    for number in range(12):
        words = f"{WORDS} part {number}"
        session.use("Read", numbered(90, words=words), thinking=thinking, file_path=f"/{number}.py")
        session.use("Bash", numbered(90, words=f"{words} made"), command=f"make {number}")
    for number in range(6):
        words = f"{WORDS} new {number}"
        session.use("Read", numbered(90, words=words), file_path=f"/{number}.py")
    session.rest()
    return session


def checks(plan: Any) -> list[str]:  # noqa: ANN401 -- a plan
    return [each.check for each in plan.refused]


def test_a_plan_takes_the_least_harmful_first_and_stops_at_its_target(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")
    everything = plan_of(path, short(Severity.INPUTS))
    superseded = plan_of(path, short(Severity.SUPERSEDED))
    *rest, lowered = superseded.operations
    assert {each.level for each in rest} == {Severity.SUPERSEDED}
    assert lowered.strategy == "usage"
    target = superseded.after_tokens - 2_000
    some = plan_of(path, short(Severity.INPUTS, target))
    assert everything.after_tokens < some.after_tokens <= target
    assert {each.line for each in rest} < {each.line for each in some.operations}
    assert plan_of(path, short(Severity.INPUTS, target)) == some


def test_what_the_model_is_working_on_is_changed_last(tmp_path: Path) -> None:
    session = Session()
    session.ask()
    lines = [
        session.use("Read", numbered(300, words=f"line of {name}"), file_path=f"/app/{name}.py")[1]
        for name in map(str, range(20))
    ]
    session.rest(3)
    path = session.write(tmp_path / "s.jsonl")
    everything = plan_of(path, short(Severity.MASKED))
    target = everything.before_tokens - everything.tokens_saved // 3
    options = replace(short(Severity.MASKED), target=target / SMALL_WINDOW)
    some = {each.line for each in plan_of(path, options).operations}
    assert {each.line for each in everything.operations} >= set(lines)
    changed = [line in some for line in lines]
    assert changed[-7:] == [False] * 7
    # Of the older ones, the latest keep most of the prompt cache.
    assert changed[:-7] == sorted(changed[:-7])
    assert any(changed)


def test_a_plan_says_what_the_recount_finds(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")
    plan = plan_of(path, short(Severity.PROSE))
    assert not plan.refused
    before = path.read_bytes()
    after = carried_out(plan.operations, before)
    assert len(after) == plan.bytes_after
    freed = tokens_of(before, tmp_path) - tokens_of(after, tmp_path)
    assert freed == freed_by(plan.operations)
    assert path.read_bytes() == before


def test_the_two_ledgers_are_never_mixed(tmp_path: Path) -> None:
    session = long_session()
    session.lines[2]["toolUseResult"] = {"stdout": numbered(200)}
    path = session.write(tmp_path / "s.jsonl")
    changed = plan_of(path, short(Severity.PROSE)).operations
    assert {each.strategy for each in changed if each.level is Severity.FILE_ONLY} == {"usage"}
    plan = plan_of(path, short(Severity.FILE_ONLY))
    assert [each.strategy for each in plan.operations] == ["tool-details"]
    assert plan.before_tokens == plan.after_tokens
    assert plan.bytes_after < plan.bytes_before
    assert not plan.refused


def test_bound_thoughts_behind_a_change_go_and_the_harm_rises(tmp_path: Path) -> None:
    path = long_session(NEWER, thinking=True).write(tmp_path / "s.jsonl")
    plan = plan_of(path, short(Severity.SUPERSEDED))
    assert not plan.refused
    assert plan.harm is Severity.REASONING
    first = min(each.line or 0 for each in plan.operations if each.level < Severity.REASONING)
    (thoughts,) = [each for each in plan.operations if each.strategy == "thinking-after"]
    removed = [each.line for each in thoughts.edits if isinstance(each, RemoveLine)]
    assert min(removed) > first
    after = carried_out(plan.operations, path.read_bytes()).split(b"\n")
    assert not any(b'"thinking"' in line for line in after[first:])
    older = long_session(OLDER, thinking=True).write(tmp_path / "older.jsonl")
    assert plan_of(older, short(Severity.SUPERSEDED)).harm is Severity.SUPERSEDED


def open_session(model: str, thinking: bool) -> tuple[Session, int]:
    """A turn of long work that is over, and one that is not; gives the line of its first thought.

    `thinking` says whether it thought before each of its calls, or before the first one alone.
    """
    session = long_session(model, thinking=True)
    session.ask("and now the other part")
    first = len(session.lines) + 1
    for number in range(20):
        words = numbered(90, words=f"{WORDS} open {number}")
        session.use("Bash", words, thinking=thinking or not number, command=f"make {number}")
    return session, first


def thoughts_of(path: Path) -> list[int]:
    lines = path.read_bytes().splitlines()
    return [number for number, line in enumerate(lines, 1) if b'"thinking"' in line]


def test_an_open_turn_keeps_its_thoughts_and_all_before_them(tmp_path: Path) -> None:
    session, first = open_session(NEWER, thinking=False)
    path = session.write(tmp_path / "s.jsonl")
    plan = plan_of(path, short(Severity.MASKED))
    assert not plan.refused
    assert plan.tokens_saved > 0
    changed = {each.line or 0 for each in plan.operations if each.tokens_saved}
    assert min(changed) > first
    after = carried_out(plan.operations, path.read_bytes()).splitlines()
    assert after[:first] == path.read_bytes().splitlines()[:first]


def test_level_4_gives_up_thoughts_of_earlier_turns_where_nothing_else_may_change(
    tmp_path: Path,
) -> None:
    session, first = open_session(NEWER, thinking=True)
    path = session.write(tmp_path / "s.jsonl")
    plan = plan_of(path, short(Severity.INPUTS))
    (dropped,) = [each for each in plan.operations if each.tokens_saved]
    assert (dropped.strategy, dropped.level) == ("all-thinking", Severity.REASONING)
    left = tmp_path / "left.jsonl"
    left.write_bytes(carried_out(plan.operations, path.read_bytes()))
    assert len(thoughts_of(left)) == 20
    assert len([line for line in thoughts_of(path) if line < first]) == 12
    assert not plan_of(path, short(Severity.MASKED)).operations


def test_thoughts_whose_text_is_not_recorded_can_be_all_that_goes(tmp_path: Path) -> None:
    session = Session(NEWER)
    session.ask("mend all of it")
    for number in range(40):
        session.use("Bash", "ok", thinking=True, command=f"make {number}")
    session.say()
    path = session.write(tmp_path / f"{made.SESSION}.jsonl")
    before = path.read_bytes()
    plan = plan_of(path, short(Severity.REASONING))
    assert {each.strategy for each in plan.operations if each.tokens_saved} == {"all-thinking"}
    rest(path)
    subject = subject_of(path, tmp_path)
    receipt = apply_plan(replace(plan, session_id=made.SESSION), ApplyMode.IN_PLACE, subject)
    assert len(thoughts_of(path)) == 0
    undo(receipt.receipt_id, None, subject)
    assert path.read_bytes() == before


def test_a_plan_says_the_one_thing_to_do_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    session = Session(NEWER)
    session.ask("mend all of it")
    for number in range(30):
        words = numbered(90, words=f"{WORDS} part {number}")
        session.use("Bash", words, thinking=True, command=f"make {number}")
    (refused,) = plan_of(session.write(tmp_path / "s.jsonl"), short(Severity.PROSE)).refused
    assert refused.check == "thinking"
    assert refused.what_to_do.startswith("use condense (--strategy condense)")


def test_an_open_turn_of_a_model_that_does_not_bind_thoughts_keeps_them_alone(
    tmp_path: Path,
) -> None:
    session, first = open_session("claude-opus-4-6", thinking=True)
    path = session.write(tmp_path / "s.jsonl")
    plan = plan_of(path, short(Severity.REASONING))
    assert not plan.refused
    assert min(each.line or 0 for each in plan.operations if each.tokens_saved) < first
    left = tmp_path / "left.jsonl"
    left.write_bytes(carried_out(plan.operations, path.read_bytes()))
    assert len(thoughts_of(left)) == 20


def test_an_open_turn_without_thoughts_binds_nothing(tmp_path: Path) -> None:
    session = long_session(NEWER, thinking=True)
    session.ask("and now the other part")
    session.use("Bash", "ok", command="make")
    plan = plan_of(session.write(tmp_path / "s.jsonl"), short(Severity.SUPERSEDED))
    assert not plan.refused
    assert plan.harm is Severity.REASONING


def test_too_little_is_refused_as_futile(tmp_path: Path) -> None:
    session = Session()
    session.ask()
    session.read("/a.py")
    session.read("/a.py")
    session.rest()
    plan = plan_of(session.write(tmp_path / "s.jsonl"))
    assert checks(plan) == ["futile"]
    assert (
        0
        < plan.before_tokens - plan.after_tokens
        < min_saved_tokens(plan.before_tokens, SMALL_WINDOW)
    )
    (said,) = [each.what_to_do for each in plan.refused]
    assert said.startswith("allow level 3 (--level 3): frees ≈ ")


@pytest.mark.parametrize(
    ("tokens", "window", "least"),
    [
        (160_000, 200_000, 10_000),
        (300_000, 1_000_000, 30_000),
        (900_000, 1_000_000, 50_000),
        (150_000, 1_000_000, 15_000),
        (20_000, 1_000_000, 10_000),
        (20_000, 32_000, 1_600),
    ],
)
def test_what_is_too_little_depends_on_the_window(tokens: int, window: int, least: int) -> None:
    assert min_saved_tokens(tokens, window) == least


def advised(path: Path, options: PlanOptions) -> str:
    (refusal,) = plan_of(path, options).refused
    return refusal.what_to_do


def test_what_would_free_enough_is_said_and_nothing_else(tmp_path: Path) -> None:
    session = Session()
    session.ask("mend the decoder")
    for number in range(12):
        words = numbered(90, words=f"{WORDS} part {number}")
        session.use("Bash", words, command=f"make {number}")
    session.rest()
    path = session.write(tmp_path / "s.jsonl")
    plan = plan_of(path, short(Severity.MASKED))
    assert not plan.refused
    freed = plan.before_tokens - plan.after_tokens
    said = advised(path, short(Severity.SUPERSEDED))
    assert said == f"allow level 3 (--level 3): frees ≈ {freed:,} tokens"
    every = replace(
        short(Severity.SUPERSEDED), keep=3, min_tail_tokens=10**6, max_task_tokens=10**6
    )
    assert advised(path, every) == LET_SESSION_GROW


def test_old_numbers_of_levels_are_understood(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")
    plans = [plan_of(path, replace(SHORT, level=level)) for level in (1, 2)]
    assert plans[0].operations == plans[1].operations
    assert plans[0].tokens_saved > 0
    assert Severity(1) is Severity.SUPERSEDED
    assert msgspec.json.decode(b"1", type=Severity) is Severity.SUPERSEDED


def test_fewer_turns_to_keep_are_named_where_they_free_enough(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")
    options = replace(short(Severity.INPUTS), max_task_tokens=1_000)
    few = plan_of(path, replace(options, keep=3))
    assert not few.refused
    freed = few.before_tokens - few.after_tokens
    said = advised(path, replace(options, keep=10_000))
    assert said == f"keep 3 turns (--keep 3): frees ≈ {freed:,} tokens"


def test_a_target_that_is_nearly_reached_says_to_go_on(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")
    whole = plan_of(path, short(Severity.INPUTS))
    said = advised(path, short(Severity.INPUTS, whole.before_tokens - 10))
    freed = whole.before_tokens - whole.after_tokens
    assert said == f"stop later (a smaller --target): frees ≈ {freed:,} tokens"


def test_refusals_name_the_check_and_what_to_do(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")
    assert checks(plan_of(path, live="process 1 has it open")) == ["live"]
    assert checks(plan_of(path, short(Severity.SUPERSEDED, 10**7))) == ["target"]
    assert checks(plan_of(path, replace(SHORT, level=None, strategies=("old-todos",)))) == [
        "nothing"
    ]
    empty = made.write(tmp_path / "empty.jsonl", [])
    (refusal,) = plan_of(empty).refused
    assert refusal.check == "shape"
    assert refusal.why
    assert refusal.what_to_do


def test_nothing_is_planned_around_a_field_that_cannot_be_read(tmp_path: Path) -> None:
    session = long_session()
    session.lines[5]["timestamp"] = 5
    (refusal,) = plan_of(session.write(tmp_path / "s.jsonl")).refused
    assert refusal.why == "line 6 has a field that ctxtop cannot read: timestamp"


def test_an_unreadable_field_before_the_last_compaction_hinders_no_plan(tmp_path: Path) -> None:
    earlier = made.user("hi") | {"timestamp": 5}
    session = long_session()
    session.lines[:0] = [earlier, made.boundary()]
    session.lines[2]["parentUuid"] = session.lines[1]["uuid"]
    plan = plan_of(session.write(tmp_path / "s.jsonl"))
    assert not plan.refused
    assert plan.operations


def test_a_transcript_that_grows_meanwhile_is_refused(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")

    def growing(read: Path, start: int = 0) -> Iterator[Any]:
        made.append(read, [made.user()])
        return iter_entries(read, start)

    plan = plan_transcript(replace(source_of(path), read_entries=growing))
    assert "changed" in checks(plan)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    with pytest.raises(OSError, match=r"link\.jsonl"):
        plan_of(link)


def test_the_newest_turns_tokens_and_the_last_prompt_stay(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")
    with view_of(path, PlanOptions(max_task_tokens=1_000_000)) as view:
        turns = [each for each in view.blocks if each.protected_reason == NEWEST_TURNS]
        assert turns[-1].index == len(view.blocks) - 1
        prompt = max(each.index for each in view.blocks if each.part.kind is PartKind.PROMPT)
        assert {each.index for each in view.blocks if each.index > prompt} <= {
            each.index for each in view.blocks if each.protected_reason
        }
    with view_of(path, PlanOptions(keep=0, min_tail_tokens=30_000, max_task_tokens=0)) as view:
        kept = [each for each in view.blocks if each.protected_reason == NEWEST_TURNS]
        assert sum(each.tokens for each in kept) >= 30_000 > sum(each.tokens for each in kept[1:])
    with view_of(path, PlanOptions(keep=10_000)) as view:
        assert not list(view.changeable_blocks())


def test_copies_of_a_line_are_stubbed_alike(tmp_path: Path) -> None:
    session = long_session()
    session.lines.append(session.lines[2])
    plan = plan_of(session.write(tmp_path / "s.jsonl"))
    number = len(session.lines)
    (operation,) = [each for each in plan.operations if each.line in {3, number}]
    assert sorted(each.line for each in operation.edits) == [3, number]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("context", "position", "saved", "five", "hour"),
    [
        (167_000, 10_000, 50_000, 23.6, 39.7),
        (167_000, 80_000, 50_000, 7.5, 13.1),
        (167_000, 10_000, 100_000, 5.6, 9.8),
        (167_000, 120_000, 20_000, 14.5, 24.6),
        (100_000, 5_000, 20_000, 42.1, 70.2),
        (800_000, 50_000, 300_000, 16.2, 27.5),
    ],
)
def test_break_even_is_that_of_the_reference(
    context: int, position: int, saved: int, five: float, hour: float
) -> None:
    found = [
        requests_to_break_even(context, position, saved, factor)
        for factor in (CACHE_WRITE_5M_FACTOR, CACHE_WRITE_1H_FACTOR)
    ]
    assert found == [pytest.approx(five, abs=0.06), pytest.approx(hour, abs=0.06)]


@pytest.mark.parametrize(
    ("model", "read"),
    [
        ("claude-opus-5-5", 0.05),
        ("claude-opus-5-5[1m]", 0.05),
        ("claude-fable-5-1", 0.025),
        ("claude-haiku-4-5", 0.1),
        ("nobody-knows", 0.1),
        (None, 0.1),
    ],
)
def test_a_cached_token_costs_what_it_costs_of_this_model(model: str | None, read: float) -> None:
    assert cache_read_factor(model) == pytest.approx(read)
    # What is read cheaply is paid back late: (167,000 - 10,000 - 50,000) written anew.
    found = requests_to_break_even(167_000, 10_000, 50_000, CACHE_WRITE_5M_FACTOR, model)
    assert found == pytest.approx((107_000 * 1.25 - 157_000 * read) / (read * 50_000))


def test_a_plan_pays_by_its_model_s_price(tmp_path: Path) -> None:
    def paid(model: str) -> float:
        plan = plan_of(long_session(model).write(tmp_path / f"{model}.jsonl"))
        return plan.break_even_requests or 0.0

    assert paid("claude-opus-5-5") > 1.5 * paid("claude-opus-5") > 0


def test_nothing_saved_is_never_paid_back() -> None:
    assert requests_to_break_even(1_000, 0, 0, CACHE_WRITE_5M_FACTOR) is None


def test_strategies_have_names_of_their_own() -> None:
    names = [each.name for each in STRATEGIES]
    assert len(set(names)) == len(names) == 37


_TOOLS = st.sampled_from(
    ["Read", "Write", "Edit", "Bash", "Grep", "WebFetch", "TodoWrite", "Agent", "mcp__a__b"]
)
_TEXTS = st.builds(
    lambda n, words: numbered(n, words=words),
    st.integers(1, 60),
    st.sampled_from(
        [WORDS, "\x1b[1mbold\x1b[0m  ", '{"a": 1}', "emoji 🎉 \u2028 end", "\ud83d half"]
    ),
)
_CALLS = st.tuples(_TOOLS, _TEXTS, _TEXTS, st.booleans(), st.booleans(), st.integers(0, 3))

_READ = ("Read", numbered(1), "", False, False, 0)
_HALF = ("Edit", numbered(1), numbered(30, words="\ud83d half"), False, False, 0)


@given(
    st.lists(st.one_of(_CALLS, st.text(max_size=900)), max_size=25),
    st.sampled_from([OLDER, NEWER]),
    st.sampled_from(list(Severity)),
)
@example([_READ, _HALF, _READ, "", _READ], OLDER, Severity.SUPERSEDED)
@settings(max_examples=40, deadline=None)
def test_whatever_was_said_and_done_a_plan_keeps_what_it_must(
    story: list[Any], model: str, level: Severity
) -> None:
    session = Session(model)
    session.ask("begin")
    for step in story:
        if isinstance(step, str):
            session.ask(step or "?")
            continue
        tool, words, given_, failed, thinking, number = step
        asked = {"file_path": f"/f{number}.py", "content": given_, "old_string": given_}
        if tool == "TodoWrite":
            asked = {"todos": [{"content": given_, "status": "pending", "activeForm": "x"}]}
        session.use(tool, words, failed=failed, thinking=thinking, **asked)
    session.say("Done.")
    with tempfile.TemporaryDirectory() as folder:
        path = session.write(Path(folder) / "s.jsonl")
        plan = plan_of(path, short(level))
        data = path.read_bytes()
        after = carried_out(plan.operations, data)
        assert len(after) == plan.bytes_after
        freed = tokens_of(data, Path(folder)) - tokens_of(after, Path(folder))
        assert freed == freed_by(plan.operations)
        written = Path(folder) / "after.jsonl"
        written.write_bytes(after)
        before, sent = visible_entries(read_entries(path)), visible_entries(read_entries(written))
        with view_of(path) as view:
            stays = {
                (each.entry.uuid, each.call_id)
                for each in view.blocks
                if each.protected_reason and each.protected_reason not in SHORTENED
            }
    _keeps(before, sent, stays)
    edited = {edit.line for each in plan.operations for edit in each.edits}  # type: ignore[union-attr]
    for number, (old, new) in enumerate(
        zip(data.split(b"\n"), after.split(b"\n"), strict=False), 1
    ):
        if number in edited:
            break
        assert old == new
    assert all(json.loads(line) for line in after.splitlines() if line)


def _keeps(before: list[Any], sent: list[Any], stays: set[tuple[str | None, str | None]]) -> None:
    def pieces(entries: list[Any], wanted: Any) -> list[Any]:  # noqa: ANN401 -- a rule
        return [piece for each in entries for piece in each.parts if wanted(each, piece)]

    def is_prompt(_: Any, piece: Any) -> bool:  # noqa: ANN401 -- a piece
        return bool(piece.kind is PartKind.PROMPT)

    def is_protected(entry: Any, piece: Any) -> bool:  # noqa: ANN401 -- a piece
        return (entry.uuid, piece.tool_use_id) in stays and piece.kind is not PartKind.THINKING

    assert pieces(before, is_prompt) == pieces(sent, is_prompt)
    assert pieces(before, is_protected) == pieces(sent, is_protected)
    for rule in (is_call, is_result):
        ids = [[p.tool_use_id for e in some for p in e.parts if rule(p)] for some in (before, sent)]
        assert ids[0] == ids[1]
    assert all(entry.parts for entry in sent)
