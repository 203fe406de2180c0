"""What a compaction is told to keep: chosen by rules, within a budget."""

from __future__ import annotations

from ctxtop.core.conversation import Piece, PieceKind
from ctxtop.core.summaries.artifacts import Artifacts, FileUse, Quote
from ctxtop.core.summaries.failing import RESULTS, failing_files
from ctxtop.core.summaries.steering import (
    STEER,
    Item,
    Kind,
    Running,
    essentials,
    missing,
    state_of,
    within,
    words,
)
from ctxtop.core.summaries.todos import Todo
from ctxtop.core.text_count import count_text
from hypothesis import given, settings
from hypothesis import strategies as st

from ..entries import entry

STANDING = Artifacts(
    files=(FileUse("/p/a.py", edits=3), FileUse("/p/b.py", reads=2), FileUse("/p/c.py", writes=1)),
    decisions=(Quote("We decided on SQLite.", 4), Quote("We chose a queue.", 3)),
    todos=(Todo("Round the totals", "in_progress", 5),),
    constraints=(Quote("You must never push.", 1), Quote("Always run the tests.", 0)),
)
AGENT = Running("a12345", "reviewer", "Review the cart")


def test_the_first_of_each_kind_comes_before_the_second() -> None:
    found = essentials(STANDING, {"/p/c.py"}, [AGENT])
    assert [(item.kind, item.key) for item in found] == [
        (Kind.CONSTRAINT, "You must never push."),
        (Kind.TODO, "Round the totals"),
        (Kind.AGENT, "a12345"),
        (Kind.FILE, "/p/c.py"),
        (Kind.DECISION, "We decided on SQLite."),
        (Kind.CONSTRAINT, "Always run the tests."),
        (Kind.FILE, "/p/a.py"),
        (Kind.DECISION, "We chose a queue."),
        (Kind.FILE, "/p/b.py"),
    ]


def test_it_is_written_by_kind_and_word_for_word() -> None:
    text = words(essentials(STANDING, {"/p/c.py"}, [AGENT]), STEER)
    assert text.splitlines() == [
        STEER,
        "Rules:",
        '- "You must never push."',
        '- "Always run the tests."',
        "Todos:",
        '- [in_progress] "Round the totals"',
        "Running agents:",
        "- reviewer a12345: Review the cart",
        "Files:",
        "- /p/c.py (created or rewritten, failing)",
        "- /p/a.py (edited 3×)",
        "- /p/b.py (read 2×)",
        "Decisions:",
        '- "We decided on SQLite."',
        '- "We chose a queue."',
    ]


def test_nothing_is_said_of_nothing() -> None:
    assert words((), STEER) == ""
    assert essentials(Artifacts(), (), ()) == ()


def test_a_file_that_nothing_was_done_to_is_still_named() -> None:
    assert state_of(FileUse("/p/a.py"), ()) == "touched"


def test_what_a_summary_does_not_hold() -> None:
    found = essentials(STANDING, (), [AGENT])
    summary = (
        "The person said: you must never push. The queue was chosen for the jobs."
        " Files: a.py, c.py; agent a12345 still reviews; round the totals next."
    )
    assert [item.key for item in missing(found, [summary])] == [
        "We decided on SQLite.",
        "Always run the tests.",
        "/p/b.py",
    ]
    assert missing(found, [words(found, STEER)]) == ()


def test_two_files_of_one_name_need_their_folder() -> None:
    files = (FileUse("/p/one/index.ts", edits=1), FileUse("/p/two/index.ts", edits=1))
    found = essentials(Artifacts(files=files), (), ())
    assert [item.key for item in missing(found, ["see one/index.ts"])] == ["/p/two/index.ts"]


ITEMS = st.lists(
    st.builds(Item, kind=st.sampled_from(Kind), text=st.text(max_size=600), key=st.text()),
    max_size=40,
)


@settings(deadline=None)
@given(ITEMS, st.integers(0, 1_500))
def test_no_budget_is_exceeded(items: list[Item], budget: int) -> None:
    chosen = within(items, budget, STEER)
    counted = count_text(words(chosen, STEER))
    assert max(counted.older, counted.newer) <= budget
    left = iter(items)
    assert all(item in left for item in chosen), "in their order"


def call(number: int, command: str, said: str, *, failed: bool) -> list[Piece]:
    asked = Piece(PieceKind.TOOL_INPUT, command, "Bash", f"t{number}")
    return [asked, Piece(PieceKind.TOOL_RESULT, said, "Bash", f"t{number}", failed=failed)]


def test_what_a_failed_test_names_is_failing_until_it_goes_well() -> None:
    paths = ["/p/cart.py", "/p/price.py"]
    first = call(1, "pytest", "FAILED cart.py::test_it", failed=True)
    assert failing_files([entry(*first)], paths) == {"/p/cart.py"}
    other = call(2, "ls", "price.py", failed=False)
    assert failing_files([entry(*first, *other)], paths) == {"/p/cart.py"}
    again = call(3, "pytest", "2 passed", failed=False)
    assert failing_files([entry(*first, *other, *again)], paths) == frozenset()


def test_an_edit_that_was_refused_is_failing_until_one_is_made() -> None:
    def edit(number: int, *, failed: bool) -> list[Piece]:
        asked = Piece(PieceKind.TOOL_INPUT, f"{{{number}}}", "Edit", f"t{number}", "/p/cart.py")
        said = Piece(PieceKind.TOOL_RESULT, "", "Edit", f"t{number}", "/p/cart.py", failed=failed)
        return [asked, said]

    assert failing_files([entry(*edit(1, failed=True))], ["/p/cart.py"]) == {"/p/cart.py"}
    both = entry(*edit(1, failed=True), *edit(2, failed=False))
    assert failing_files([both], ["/p/cart.py"]) == frozenset()


def test_an_old_failure_is_forgotten() -> None:
    first = call(0, "pytest", "FAILED cart.py", failed=True)
    later = [each for n in range(1, RESULTS + 1) for each in call(n, f"{n}", "ok", failed=False)]
    assert failing_files([entry(*first, *later)], ["/p/cart.py"]) == frozenset()
