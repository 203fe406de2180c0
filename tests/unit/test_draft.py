"""A plan asked for again without some of its operations."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ctxtop.core.compaction.plan import PlanOptions, Severity
from ctxtop.core.compaction.transcript_planning import PlanDraft
from ctxtop.core.compaction.transcript_view import open_transcript

from tests.planned import carried_out, plan_of, short, source_of
from tests.unit.test_planning import long_session
from tests.worked import NEWER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AIM = short(Severity.INPUTS)


@contextmanager
def drafted(path: Path, options: PlanOptions = AIM) -> Iterator[PlanDraft]:
    with open_transcript(path) as file:
        yield PlanDraft(source_of(path), file, options)


def test_a_draft_with_everything_is_the_plan(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")
    with drafted(path) as made:
        assert made.plan() == plan_of(path, AIM)
        assert made.plan() == made.plan()
        offered = [each for each in made.plan().operations if each.strategy != "usage"]
        assert list(made.offered_operations) == offered


def test_what_is_left_out_stays_and_the_sums_follow(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")
    before = path.read_bytes()
    with drafted(path, short(Severity.SUPERSEDED)) as made:
        whole, some = made.plan(), made.plan({0, 3})
    left = {made.offered_operations[0].line, made.offered_operations[3].line}
    freed = made.offered_operations[0].tokens_saved + made.offered_operations[3].tokens_saved
    assert some.after_tokens == whole.after_tokens + freed
    assert left.isdisjoint(each.line for each in some.operations)
    # The recorded usage is lowered by less.
    assert some.operations[-1].strategy == "usage"
    assert some.operations[-1].what != whole.operations[-1].what
    assert some.plan_id != whole.plan_id
    assert len(carried_out(some.operations, before)) == some.bytes_after


def test_bound_thoughts_go_with_the_first_change_and_not_by_themselves(tmp_path: Path) -> None:
    path = long_session(model=NEWER, thinking=True).write(tmp_path / "s.jsonl")
    with drafted(path) as made:
        whole = made.plan()
        (thoughts,) = [each for each in whole.operations if each.strategy == "thinking-after"]
        assert thoughts not in made.offered_operations
        later = made.plan(range(8))
        fewer = [each for each in later.operations if each.strategy == "thinking-after"]
        assert all(each.tokens_saved < thoughts.tokens_saved for each in fewer)
        nothing = made.plan(range(len(made.offered_operations)))
    assert nothing.operations == ()
    assert [each.check for each in nothing.refused] == ["nothing"]
    assert nothing.after_tokens == nothing.before_tokens


def test_too_little_is_refused_as_soon_as_it_is_too_little(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")
    with drafted(path) as made:
        assert not made.plan().refused
        few = made.plan(range(1, len(made.offered_operations)))
    assert [each.check for each in few.refused] == ["futile"]


def test_a_file_that_grows_meanwhile_is_noticed_at_the_next_question(tmp_path: Path) -> None:
    path = long_session().write(tmp_path / "s.jsonl")
    with drafted(path) as made:
        assert not made.plan().refused
        with path.open("ab") as file:
            file.write(b"{}\n")
        assert [each.check for each in made.plan({0}).refused] == ["changed"]
