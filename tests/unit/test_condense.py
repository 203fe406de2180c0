"""A plan that condenses: as little as the target needs, verified, and taken back byte for byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.condensing import plan_condensed
from ctxtop.core.compaction.plan import (
    CONDENSE,
    AppendLine,
    CompactionPlan,
    CompactionRefusedError,
    PlanOptions,
    Refusal,
    ReplaceValue,
    Severity,
    check_options,
    plan_to_dict,
)
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.strategies.condense import NamesOfEntries, split_into_turns
from ctxtop.core.compaction.strategies.summary_and_cut import plan_cut
from ctxtop.core.compaction.transcript_reading import PlanSource
from ctxtop.core.compaction.turn_restoring import RestoredTurn, plan_restore, read_turn
from ctxtop.core.compaction.undo import undo
from ctxtop.core.model.claude_models import SMALL_WINDOW
from ctxtop.core.model.conversation import PartKind, Role, has_prompt, last_boundary
from ctxtop.core.summaries.turn_digest import parse_digest
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries
from msgspec.structs import replace

from ..entries import answered, asked, attached, called, returned, summed_up
from ..planned import COUNTERS, view_of
from ..sessions_on_disk import operation, place, rest, subject_of
from ..worked import NEWER, WORDS, Session, numbered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ctxtop.core.compaction.compaction_target import CompactionTarget
    from ctxtop.core.model.conversation import Entry

PROSE = "The decoder reads a frame and hands it on to whoever asked for it first. "
RULE = "Never push to main, whatever happens."


def story(session: Session, turns: int = 20, first: int = 1) -> Session:
    """Turns that levels 2 to 4 hardly make smaller: the model's own words are most of them."""
    for number in range(first, first + turns):
        session.ask(f"Mend part {number}, please. {RULE if number == 1 else ''}")
        session.use("Bash", numbered(30, words=WORDS), command=f"make part_{number}")
        session.use(
            "Edit", "done", file_path=f"/p/part_{number}.py", old_string="a", new_string="b"
        )
        session.say(f"{PROSE * 40} Part {number} calls `mend_part_{number}` now.")
    return session


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "projects" / "p"
    folder.mkdir(parents=True)
    return story(Session()).write(folder / "11111111-2222-4333-8444-555555555555.jsonl")


def options(tokens: int, keep: int | None = None) -> PlanOptions:
    share = tokens / SMALL_WINDOW
    return PlanOptions(
        strategies=(CONDENSE,),
        target=share,
        keep=keep,
        min_tail_tokens=3_000,
        max_task_tokens=3_000,
    )


def condensed(path: Path, tokens: int = 21_000, keep: int | None = 2) -> CompactionPlan:
    asked_for = options(tokens, keep)
    return plan_conversation(
        PlanSource(path.stem, path, COUNTERS.for_model),
        lambda whole, view: plan_condensed(whole, view, asked_for),
        asked_for,
    )


def restored(path: Path, turn: int) -> CompactionPlan:
    return plan_conversation(
        PlanSource(path.stem, path, COUNTERS.for_model), lambda whole, _: plan_restore(whole, turn)
    )


def target_of(path: Path) -> CompactionTarget:
    return subject_of(path, path.parents[2])


def apply(path: Path, plan: CompactionPlan) -> str:
    """Carry a plan out in the session itself; gives the receipt's id."""
    rest(path)
    mode = ApplyMode.APPEND if plan.only_appends else ApplyMode.IN_PLACE
    return apply_plan(plan, mode, target_of(path)).receipt_id


def take_back(path: Path, receipt: str) -> None:
    rest(path)
    undo(receipt, None, target_of(path))


def sent(path: Path) -> list[Entry]:
    return visible_entries(read_entries(path))


def digest_in(plan: CompactionPlan) -> str:
    summary = plan.operations[-1].edits[1]
    assert isinstance(summary, AppendLine)
    return str(json.loads(summary.text)["message"]["content"])


def refusal(entries: Sequence[Entry], turn: int) -> Refusal:
    refused = read_turn(entries, turn)
    assert isinstance(refused, Refusal)
    return refused


def digest_of(entries: list[Entry]) -> str:
    return next(
        part.text for each in entries for part in each.parts if part.kind is PartKind.SUMMARY
    )


def test_the_target_is_reached_with_no_turn_more_than_needed(path: Path) -> None:
    before = sent(path)
    plans = [condensed(path, tokens) for tokens in (24_000, 22_000, 20_000)]
    assert [each.refused for each in plans] == [(), (), ()]
    for plan, target in zip(plans, (24_000, 22_000, 20_000), strict=True):
        assert target - 1_200 < plan.after_tokens <= target < plan.before_tokens
        assert plan.harm is Severity.SUMMARY
        assert plan.operations[-1].strategy == CONDENSE
    counts = [int(each.operations[-1].what.split()[2]) for each in plans]
    assert counts[0] < counts[1] < counts[2]
    apply(path, plans[1])
    after = sent(path)
    digest = digest_of(after)
    kept = [each.uuid for each in after[1:]]
    assert kept == [each.uuid for each in before][-len(kept) :]
    assert f"  > Mend part 1, please. {RULE}\n" in digest
    assert "- /p/part_2.py (edited 1×)" in digest
    assert "Part 3 calls `mend_part_3` now." in digest


def test_what_stays_is_edited_by_levels_too(tmp_path: Path) -> None:
    session = story(Session(), 6)
    for number in range(12):
        session.ask(f"Look at {number}.")
        session.read("/p/same.py", 200)
    path = story(session, 4, first=7).write(tmp_path / "s.jsonl")
    plan = condensed(path, 22_000)
    assert plan.refused == ()
    assert len({each.level for each in plan.operations}) > 1
    assert plan.after_tokens <= 22_000
    assert [each.level for each in plan.steps] == sorted({op.level for op in plan.operations})
    assert sum(each.tokens_saved for each in plan.steps) == plan.tokens_saved
    lost = [each.names_lost for each in plan.steps]
    assert lost == sorted(lost)
    assert lost[-1] <= 1
    assert plan_to_dict(plan)["steps"][-1]["level"] == Severity.SUMMARY


def test_levels_are_enough_if_they_reach_the_target(tmp_path: Path) -> None:
    session = Session()
    session.ask("Read it.")
    for _ in range(30):
        session.read("/p/same.py", 120)
    path = story(session, 3).write(tmp_path / "s.jsonl")
    plan = condensed(path, 21_000)
    assert plan.refused == ()
    assert plan.steps
    assert plan.after_tokens <= 21_000
    assert CONDENSE not in {each.strategy for each in plan.operations}
    assert plan.harm <= Severity.INPUTS


def test_a_context_below_its_target_is_left_alone(path: Path) -> None:
    plan = condensed(path, 90_000)
    assert [each.check for each in plan.refused] == ["target"]
    assert plan.operations == ()


def test_what_is_too_large_for_the_target_is_named(tmp_path: Path) -> None:
    session = story(Session(), 10)
    session.ask("Read this log:\n" + numbered(600))
    path = session.write(tmp_path / "s.jsonl")
    plan = condensed(path, 14_000)
    why = plan.operations[-1].why
    assert plan.refused == ()
    assert "tokens above the target of 7 % of the window (14,000): your own words take" in why
    assert "\n" not in why


def test_one_long_turn_becomes_several_sections(tmp_path: Path) -> None:
    session = Session()
    session.ask("Mend all parts.")
    for number in range(120):
        session.use("Bash", numbered(5, words=WORDS), command=f"make part_{number}")
        session.say(f"{PROSE * 30} Part {number}.")
    plan = condensed(session.write(tmp_path / "s.jsonl"), 30_000)
    text = digest_in(plan)
    assert plan.after_tokens <= 30_000
    assert [each.label for each in parse_digest(text)][:3] == [
        "", "continues turn 1", "continues turn 2",
    ]  # fmt: skip


def test_a_paste_is_kept_whole(tmp_path: Path) -> None:
    paste = "\n".join(f"error {number * 7919} in module_{number}" for number in range(900))
    session = Session()
    session.ask(f"Look at this.\n<pasted_content>\n{paste}\n</pasted_content>")
    path = story(session, 20).write(tmp_path / "s.jsonl")
    plan = condensed(path, 30_000)
    assert plan.after_tokens <= 30_000
    text = digest_in(plan)
    assert "\n".join(f"  > {line}" for line in paste.split("\n")) in text


def test_words_that_leave_nothing_to_condense_are_refused(tmp_path: Path) -> None:
    session = Session()
    for number in range(12):
        session.ask(f"{number}: " + numbered(60, number * 1_000))
        session.say("Yes.")
    plan = condensed(session.write(tmp_path / "s.jsonl"), 14_000, keep=None)
    assert [each.check for each in plan.refused] == ["digest_longer"]
    assert "your own words alone take" in plan.refused[0].why


def test_the_newest_turns_stay_unless_the_target_needs_them(path: Path) -> None:
    kept = condensed(path, 13_500, keep=6)
    assert "above the target" in kept.operations[-1].why
    shorter = condensed(path, 13_500, keep=None)
    assert shorter.after_tokens < kept.after_tokens
    assert "less of the newest turns is kept whole than usual" in shorter.operations[-1].why


def test_in_place_and_back_byte_for_byte(path: Path) -> None:
    before = path.read_bytes()
    receipt = apply(path, condensed(path))
    assert path.read_bytes() != before
    take_back(path, receipt)
    assert path.read_bytes() == before


def test_a_prompt_that_stays_must_not_be_edited(path: Path) -> None:
    plan = condensed(path)
    prompt = [each.line for each in sent(path) if has_prompt(each)][-1]
    edit = ReplaceValue(*place(path.read_bytes(), prompt), "/message/content", '"Push!"')
    edited = replace(plan, operations=(operation(edit, line=prompt), *plan.operations))
    before = path.read_bytes()
    with pytest.raises(CompactionRefusedError) as refused:
        apply(path, edited)
    assert "V14" in {each.check for each in refused.value.refusals}
    assert path.read_bytes() == before


def test_a_fork_names_its_own_session(path: Path) -> None:
    plan = condensed(path)
    receipt = apply_plan(plan, ApplyMode.FORK, target_of(path))
    fork = path.with_name(f"{receipt.new_session_id}.jsonl")
    entries = read_entries(fork)
    digest = digest_of(visible_entries(entries))
    assert isinstance(read_turn(entries, 1), RestoredTurn)
    assert digest.count("--restore-turn") == 1
    assert f"ctxtop compact {receipt.new_session_id} --restore-turn N" in digest


def test_a_second_digest_carries_the_sections_of_the_first(path: Path) -> None:
    first_receipt = apply(path, condensed(path))
    first = parse_digest(digest_of(sent(path)))
    lines = path.read_bytes()
    session = Session()
    session.lines = [{"uuid": sent(path)[-1].uuid}]
    session.calls = 500
    story(session, 12, first=21)
    with path.open("ab") as file:
        written = session.write(path.with_suffix(".more")).read_bytes()
        file.write(written.split(b"\n", 1)[1])
    plan = condensed(path, 23_000)
    assert plan.refused == ()
    second_receipt = apply(path, plan)
    second = parse_digest(digest_of(sent(path)))
    assert [each.text for each in second[: len(first)]] == [each.text for each in first]
    assert [each.number for each in second] == list(range(1, len(second) + 1))
    assert len(second) > len(first)
    take_back(path, second_receipt)
    assert path.read_bytes().startswith(lines)
    take_back(path, first_receipt)
    assert visible_entries(read_entries(path))[0].parts[0].kind is PartKind.PROMPT


def test_a_turn_is_read_back_in_full(path: Path) -> None:
    before = read_entries(path)
    assert refusal(before, 1).what_to_do.startswith("`ctxtop compact --strategy")
    apply(path, condensed(path))
    turn = read_turn(read_entries(path), 2)
    assert isinstance(turn, RestoredTurn)
    lines = range(turn.first_line, turn.last_line + 1)
    whole = [part.text for each in before if each.line in lines for part in each.parts]
    texts = [part.text for part in turn.parts]
    assert texts[0] == "Mend part 2, please. "
    assert len(texts) == len(whole)
    assert numbered(30, words=WORDS) in texts
    assert refusal(read_entries(path), 99).why == "the digest has no turn 99"


def test_a_turn_is_put_back_into_the_context(path: Path) -> None:
    before = sent(path)
    apply(path, condensed(path))
    digest = parse_digest(digest_of(sent(path)))
    condensed_bytes = path.read_bytes()
    plan = restored(path, 2)
    assert plan.refused == ()
    assert plan.after_tokens > plan.before_tokens
    receipt = apply(path, plan)
    after = sent(path)
    left = parse_digest(digest_of(after))
    assert [each.text for each in left] == [each.text for each in digest if each.number != 2]
    lines = range(digest[1].first_line, digest[1].last_line + 1)
    assert [each.uuid for each in after[1:]][:4] == [e.uuid for e in before if e.line in lines][:4]
    assert refusal(read_entries(path), 2).why == "the digest has no turn 2"
    assert last_boundary(read_entries(path)) is not None
    take_back(path, receipt)
    assert path.read_bytes() == condensed_bytes


def test_no_answer_follows_an_answer_when_a_turn_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "p"
    folder.mkdir(parents=True)
    session = story(Session(), 8)
    session.ask("Now all the others.")
    for number in range(40):
        session.use("Bash", numbered(5, words=WORDS), command=f"make other_{number}")
        session.say(f"{PROSE * 20} Other {number}.")
    path = session.write(folder / "11111111-2222-4333-8444-555555555555.jsonl")
    apply(path, condensed(path, 19_000))
    assert sent(path)[1].role is Role.ASSISTANT
    apply(path, restored(path, 2))
    prompts = [p.text for each in sent(path) for p in each.parts if p.kind is PartKind.PROMPT]
    assert prompts == ["Mend part 2, please. ", "Now all the others."]


def test_the_heaviest_names_are_listed(tmp_path: Path) -> None:
    session = Session()
    session.ask("Look at decode_frame and encode_frame.")
    session.say("I look at decode_frame. It is in /p/decoder.py.")
    session.say("decode_frame calls a_very_long_name_that_is_said_once.")
    path = session.write(tmp_path / "s.jsonl")
    with view_of(path) as view:
        names = NamesOfEntries(sent(path), view)
    every = names.words_of(range(3))
    assert names.to_list(every, 0.0)[0] == "decode_frame"
    assert set(names.to_list(every, 0.0)) == every
    assert names.to_list(every, 0.2) == [
        each for each in names.to_list(every, 0.0) if each != "a_very_long_name_that_is_said_once"
    ]


def test_a_name_that_the_model_used_is_listed_by_itself(tmp_path: Path) -> None:
    session = Session()
    session.ask("Why is it slow?")
    session.use("Bash", "engine_fish.go lexer_fish.go", command="dir /b")
    session.say("It is engine_fish.go that waits.")
    path = session.write(tmp_path / "t.jsonl")
    with view_of(path) as view:
        names = NamesOfEntries(sent(path), view)
    every = names.words_of(range(4))
    text = "- D:\\src\\engine_fish.go (read 1×)\n- D:\\src\\lexer_fish.go (read 1×)"
    assert names.not_in("", every) >= {"engine_fish.go", "lexer_fish.go"}
    assert names.not_in(text, every) == {"engine_fish.go"}
    assert names.not_in(f"{text}\nengine_fish.go", every) == set()


def test_turns_are_divided_between_calls_and_results_only() -> None:
    said = [
        summed_up("earlier"), attached("date", "today"), asked("One."),
        called("Bash", "1", command="ls"), returned("Bash", "1"), answered("Done."),
        called("Bash", "2", command="ls"), returned("Bash", "2"), asked("Stop."), answered("Ok."),
        asked("Two."), asked("And three."), called("Bash", "3"), returned("Bash", "3"),
    ]  # fmt: skip
    turns = split_into_turns(said, [12], [10] * len(said))
    assert [(each.start, each.end) for each in turns] == [(0, 1), (1, 8), (8, 10), (10, 12)]
    assert [each.is_summary for each in turns] == [True, False, False, False]
    long = split_into_turns(said, [12], [9_000] * len(said))
    assert [(each.start, each.end) for each in long] == [
        (0, 1), (1, 5), (5, 8), (8, 10), (10, 12),
    ]  # fmt: skip
    assert [each.is_continued for each in long] == [False, False, True, False, False]


def test_options_that_do_not_fit_condensing() -> None:
    assert check_options(PlanOptions(strategies=(CONDENSE,), target=0.3, keep=5)) is None
    for wrong in (
        PlanOptions(strategies=(CONDENSE,), level=3),
        PlanOptions(strategies=(CONDENSE,), budget=3),
        PlanOptions(strategies=(CONDENSE, "old-results")),
        PlanOptions(strategies=(CONDENSE,), restore_turn=1),
        PlanOptions(target=0.3, restore_turn=1),
        PlanOptions(keep=3, restore_turn=1),
    ):
        assert check_options(wrong)
    aimed = PlanOptions(strategies=(CONDENSE,)).target_in(200_000)
    assert aimed is not None
    assert aimed.tokens == 100_000


def unfinished(tmp_path: Path, model: str, calls: int = 12) -> Path:
    """A session whose last turn is not over: it thought before each of its calls but the last 3."""
    session = story(Session(model), 10)
    session.ask("Mend all that is left.")
    for number in range(calls):
        is_early = number < calls - 3
        words = numbered(30, words=f"{WORDS} open {number}")
        session.use("Bash", words, thinking=is_early, command=f"make open_{number}")
    folder = tmp_path / "projects" / "p"
    folder.mkdir(parents=True)
    return session.write(folder / "11111111-2222-4333-8444-555555555555.jsonl")


def thinks(entry: Entry) -> bool:
    return any(part.kind is PartKind.THINKING for part in entry.parts)


def test_an_unfinished_turn_is_condensed_with_its_thinking_or_not_at_all(tmp_path: Path) -> None:
    path = unfinished(tmp_path, NEWER)
    before = sent(path)
    thought = {each.message_id for each in before if thinks(each)}
    plan = condensed(path, 24_000, keep=None)
    assert plan.refused == ()
    assert "the unfinished turn is condensed too" in plan.operations[-1].why
    apply(path, plan)
    after = sent(path)
    assert not thought & {each.message_id for each in after}
    assert sum(each.message_id is not None for each in after) == 3
    assert "open_8" in digest_of(after)


def test_what_must_be_kept_of_an_unfinished_turn_is_refused_in_one_line(tmp_path: Path) -> None:
    path = unfinished(tmp_path, NEWER)
    (refused,) = condensed(path, 24_000, keep=6).refused
    assert (refused.check, refused.what_to_do[:11]) == ("thinking", "omit --keep")
    source = PlanSource(path.stem, path, COUNTERS.for_model)
    (cut,) = plan_conversation(source, lambda whole, _: plan_cut(whole, 1)).refused
    assert cut.check == "thinking"
    assert cut.what_to_do.startswith("use condense (--strategy condense)")


def test_an_unfinished_turn_keeps_its_thinking_where_the_model_does_not_bind_it(
    tmp_path: Path,
) -> None:
    path = unfinished(tmp_path, "claude-opus-4-6")
    plan = condensed(path, 24_000, keep=None)
    assert plan.refused == ()
    apply(path, plan)
    staying = {each.message_id for each in sent(path)}
    kept = {each.message_id for each in sent(path) if thinks(each)}
    entries = [each for each in read_entries(path) if thinks(each)]
    assert kept == {each.message_id for each in entries} & staying
    assert kept
