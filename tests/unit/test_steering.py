"""What a compaction is told to keep: chosen by rules, within a budget."""

from __future__ import annotations

from ctxtop.core.measure.tokens import count_text
from ctxtop.core.model.conversation import MessagePart, PartKind
from ctxtop.core.summaries.artifacts import Artifacts, FileUse, Quote, Todo
from ctxtop.core.summaries.session_rules import RuleChoices, session_rules
from ctxtop.core.summaries.steering import (
    KEEP_HEADING,
    RECENT_RESULTS,
    REMINDER_HEADING,
    RULES_HEADING,
    Essential,
    EssentialKind,
    RunningAgent,
    describe_file_use,
    find_failing_files,
    find_missing_essentials,
    fit_essentials,
    fit_reminder,
    list_essentials,
    render_essentials,
    render_reminder,
    rule_essentials,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from ..entries import asked, attached, entry

STANDING = Artifacts(
    files=(FileUse("/p/a.py", edits=3), FileUse("/p/b.py", reads=2), FileUse("/p/c.py", writes=1)),
    decisions=(Quote("We decided on SQLite.", 4), Quote("We chose a queue.", 3)),
    todos=(Todo("Round the totals", "in_progress", 5),),
    constraints=(Quote("Only the rules of the session are kept.", 1),),
)
RULES = session_rules([asked("Always run the tests."), asked("You must never push.")], "")
AGENT = RunningAgent("a12345", "reviewer", "Review the cart")


def test_the_first_of_each_kind_comes_before_the_second() -> None:
    found = list_essentials(STANDING, {"/p/c.py"}, [AGENT], RULES)
    assert [(item.kind, item.key) for item in found] == [
        (EssentialKind.CONSTRAINT, "You must never push."),
        (EssentialKind.TODO, "Round the totals"),
        (EssentialKind.AGENT, "a12345"),
        (EssentialKind.FILE, "/p/c.py"),
        (EssentialKind.DECISION, "We decided on SQLite."),
        (EssentialKind.CONSTRAINT, "Always run the tests."),
        (EssentialKind.FILE, "/p/a.py"),
        (EssentialKind.DECISION, "We chose a queue."),
        (EssentialKind.FILE, "/p/b.py"),
    ]


def test_it_is_written_by_kind_and_word_for_word() -> None:
    text = render_essentials(list_essentials(STANDING, {"/p/c.py"}, [AGENT], RULES), KEEP_HEADING)
    assert text.splitlines() == [
        KEEP_HEADING,
        "Rules, quoted from the user's messages:",
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
    assert render_essentials((), KEEP_HEADING) == ""
    assert list_essentials(Artifacts(), (), (), ()) == ()


def test_a_file_that_nothing_was_done_to_is_still_named() -> None:
    assert describe_file_use(FileUse("/p/a.py"), ()) == "touched"


def test_what_a_summary_does_not_hold() -> None:
    found = list_essentials(STANDING, (), [AGENT], RULES)
    summary = (
        "The person said: you must never push. The queue was chosen for the jobs."
        " Files: a.py, c.py; agent a12345 still reviews; round the totals next."
    )
    assert [item.key for item in find_missing_essentials(found, [summary])] == [
        "We decided on SQLite.",
        "Always run the tests.",
        "/p/b.py",
    ]
    assert find_missing_essentials(found, [render_essentials(found, KEEP_HEADING)]) == ()


def test_two_files_of_one_name_need_their_folder() -> None:
    files = (FileUse("/p/one/index.ts", edits=1), FileUse("/p/two/index.ts", edits=1))
    found = list_essentials(Artifacts(files=files), (), (), ())
    assert [item.key for item in find_missing_essentials(found, ["see one/index.ts"])] == [
        "/p/two/index.ts"
    ]


ITEMS = st.lists(
    st.builds(
        Essential, kind=st.sampled_from(EssentialKind), text=st.text(max_size=600), key=st.text()
    ),
    max_size=40,
)


@settings(deadline=None)
@given(ITEMS, st.integers(0, 1_500))
def test_no_budget_is_exceeded(items: list[Essential], budget: int) -> None:
    chosen = fit_essentials(items, budget, KEEP_HEADING)
    counted = count_text(render_essentials(chosen, KEEP_HEADING))
    assert max(counted.older, counted.newer) <= budget
    left = iter(items)
    assert all(item in left for item in chosen), "in their order"


@settings(deadline=None)
@given(ITEMS, st.integers(0, 1_500))
def test_no_reminder_exceeds_its_budget(items: list[Essential], budget: int) -> None:
    text = render_reminder(fit_reminder(items, budget))
    counted = count_text(text)
    assert max(counted.older, counted.newer) <= budget


def test_a_reminder_names_the_rules_first_and_as_rules() -> None:
    found = list_essentials(STANDING, (), (), RULES)
    text = render_reminder(fit_reminder(found, 1_500))
    rules, _, others = text.partition("\n\n")
    assert rules.splitlines() == [
        RULES_HEADING,
        '- "You must never push."',
        '- "Always run the tests."',
    ]
    assert others.startswith(f"{REMINDER_HEADING}\nTodos:")
    assert "Rules:" not in others


def test_a_pinned_rule_comes_first_and_what_the_client_sends_again_is_left_out() -> None:
    entries = [
        asked("Always sort."),
        asked("Never guess."),
        attached("instructions", "- Use tabs.", "/m"),
    ]
    first = next(rule for rule in session_rules(entries, "") if rule.text == "Always sort.")
    rules = session_rules(entries, "", RuleChoices(pinned=frozenset({first.rule_id})))
    assert [item.key for item in rule_essentials(rules)] == ["Always sort.", "Never guess."]
    assert next(item.key for item in rule_essentials(session_rules(entries, ""))) == "Never guess."


def call(number: int, command: str, said: str, *, failed: bool) -> list[MessagePart]:
    asked = MessagePart(PartKind.TOOL_INPUT, command, "Bash", f"t{number}")
    return [asked, MessagePart(PartKind.TOOL_RESULT, said, "Bash", f"t{number}", failed=failed)]


def test_what_a_failed_test_names_is_failing_until_it_goes_well() -> None:
    paths = ["/p/cart.py", "/p/price.py"]
    first = call(1, "pytest", "FAILED cart.py::test_it", failed=True)
    assert find_failing_files([entry(*first)], paths) == {"/p/cart.py"}
    other = call(2, "ls", "price.py", failed=False)
    assert find_failing_files([entry(*first, *other)], paths) == {"/p/cart.py"}
    again = call(3, "pytest", "2 passed", failed=False)
    assert find_failing_files([entry(*first, *other, *again)], paths) == frozenset()


def test_an_edit_that_was_refused_is_failing_until_one_is_made() -> None:
    def edit(number: int, *, failed: bool) -> list[MessagePart]:
        asked = MessagePart(
            PartKind.TOOL_INPUT, f"{{{number}}}", "Edit", f"t{number}", "/p/cart.py"
        )
        said = MessagePart(
            PartKind.TOOL_RESULT, "", "Edit", f"t{number}", "/p/cart.py", failed=failed
        )
        return [asked, said]

    assert find_failing_files([entry(*edit(1, failed=True))], ["/p/cart.py"]) == {"/p/cart.py"}
    both = entry(*edit(1, failed=True), *edit(2, failed=False))
    assert find_failing_files([both], ["/p/cart.py"]) == frozenset()


def test_an_old_failure_is_forgotten() -> None:
    first = call(0, "pytest", "FAILED cart.py", failed=True)
    later = [
        each for n in range(1, RECENT_RESULTS + 1) for each in call(n, f"{n}", "ok", failed=False)
    ]
    assert find_failing_files([entry(*first, *later)], ["/p/cart.py"]) == frozenset()
