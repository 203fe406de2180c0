"""Which sentences lay down a rule or say what was decided, and which only hold such a word."""

from __future__ import annotations

import json

import pytest
from ctxtop.core.summaries.decision_patterns import find_decisions, find_rules
from ctxtop.core.transcript.authorship import typed_words

from ..bench.bench_stated import DECIDED, LABELS, RULE, key_of, read_labels


@pytest.mark.parametrize(
    "sentence",
    [
        "Never push to the main branch.",
        "Run the tests first, and don't touch the lock file.",
        "Please do not rename public functions.",
        "Always sort the imports.",
        "The exporter must write UTF-8.",
        "Make sure you update the changelog.",
        "Make sure to use the same color for the whole column.",
        "Always sort by name and make sure the header stays.",
        "Never touch the seeds, they are real.",
        "Messages mustn't name the customer.",
        "The cache should never hold a password.",
        "Only render the banner when the list is empty.",
        "Keep the banner, only show it when there is news.",
        "Wrap only the outer list in the provider.",
        "For the report we would only add that to the web build, never to the library.",
        "The size is small, so only the second column should be cut.",
        "Two buttons (both only shown when a file was picked):",
        "Find a way to make the address always visible.",
        "I prefer small commits.",
        "Prefer pnpm over npm.",
        "Make sure that every error names the file.",
        "Secrets in the log are forbidden.",
        "From now on answer in Korean.",
        "Stop renaming the public functions.",
        "Please stop adding comments to every line.",
        "Avoid nested ternaries.",
        "No, use pnpm.",
        "Use pnpm, not npm.",
        "Use a list instead of a tuple here.",
        "The title should be “Phases”, not “Batches”.",
        "I said to keep the old names.",
        "I told you not to touch the lock file.",
        "That's wrong, the total includes the tax.",
        "커밋하지 마세요, 테스트가 먼저입니다.",
        "앞으로는 한국어로 답해 주세요.",
        "npm 말고 pnpm을 사용하세요.",
        "주석은 빼라고 했잖아요.",
        "그건 틀렸어요, 세금을 포함해야 합니다.",
        "반드시 테스트를 먼저 실행하세요.",
        "dont use the old client",
        "I don't want the export in two languages",
        "If it costs more per month we dont want the second server.",
        "Lets always take the slower path when it is safer.",
        "When you lose the connection always reload the page first.",
        "The clerk should not see the drafts of others.",
        "the cart icon shouldn't be a link",
        "Please always confirm what you asked me is actually done.",
        "Never read (e.g. print) the file with the keys.",
        "Don't stop until all tests pass.",
        "make sure a guest never sees the address of another one",
        "can you write down that we should always run the linter too",
        "There must be a folder for the pictures.",
    ],
)
def test_a_rule_is_found(sentence: str) -> None:
    assert list(find_rules(sentence)) == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "I don't know what can be done about it.",
        "The prompt never warns about this.",
        "You can always use the file in my home folder.",
        "The scan finds only old files and misses the new ones.",
        "Only Safari has the wrong extension.",
        "There is a bug: the colors do not look right.",
        "These pages are never linted in the pipeline.",
        "This was the only real filter found in the whole project.",
        "It shows the last run so that suggestions don't repeat work.",
        "Intermediate list after fixes only",
        "A built-in feature (web only) that lets people repair files.",
        "Should we always sort them?",
        "Run the exporter again and make sure it works.",
        "Then make sure that we're using the new column.",
        "Make sure that we've removed what is unused.",
        "The window must be due to the last change.",
        "Perhaps the list must always hold one row.",
        "For example, we must always sort before we merge.",
        "Column Error - every column must be named, not only the first.",
        "[Warning: Loader] my.package: You should only load signed files.",
        "It will always open the first order.",
        "Still only shows the first row.",
        "The borders are thin and only hide the text.",
        "Only opening the page without a filter does not show any rows.",
        "You did not do everything I told you to.",
        "Make sure to check the three pages of the report.",
        "We must get to the bottom of this.",
        "The easiest thing would be to start at zero and always use the parent's value.",
        "It must have been the cache.",
        "Update the label: Phase instead of Batch.",
        "It clones the repository instead of using the local folder.",
        "As I said, it fails on Safari.",
        "No, it fails on Safari too.",
        "That's wrong.",
        "아니요, 아직 실패합니다.",
        "이 값은 틀렸습니다.",
        "src/shop/cart.go:12:3: naming: avoid names that stutter (linter)",
        "The helper is defined in the tests but never called.",
        "Look at the case where we read the folder but don't lock it.",
        "I'll try it again and make sure it works.",
        "Check that they don't repeat each other, don't test the library itself.",
        "Scenario B: Don't clear the cart, and check out twice.",
        "Which only happens at the first start.",
        "What exists already and what must be built for guests.",
        "OK, going forward.",
        "Can we remove the discount, also make sure the price is right",
        "shouldn't there be a button here",
        "Fix the arms, then the hair, make sure we add a nose",
        "make sure our app is ready for the demo",
        "Make sure also to update the page",
        "make sure everything is deployed",
        "The goal is to keep it small and ensure the right type is used.",
        "I deleted the modal and it works, so it must be in the menu.",
        "There must be another list that hides them.",
        "I think it must be using sprites here.",
        "create only 200",
        "This page will always be made by hand.",
        "they must stay.",
        "Not only by name but by date",
        "Because it is drawn twice, the object must free its canvas.",
        "You don't only have to look at the first row",
        "Check S5 and the fixes if any must fixes",
        "say what should not be included",
        "Undo that, I don't want them.",
        "The export file must be renamed after that",
        "please make sure everything of the old shop is removed",
        "I need a new page, make sure it works on both screens",
        "it is on, so must be something else",
        "that's wrong, i see no button at all",
        "AVOID slow queries detected:",
        "The answer must contain:",
        "ok, don't do that",
        "let's first fix the link, it shouldn't be blue",
        "I wonder whether it should only be read",
        "make sure were on the test server",
        "dont like it.",
        "PostgresError: must be owner of the table",
        "Is there a plan going forward",
    ],
)
def test_a_sentence_that_describes_is_no_rule(sentence: str) -> None:
    assert not list(find_rules(sentence))


@pytest.mark.parametrize(
    "sentence",
    [
        "We decided to drop Windows.",
        "I've chosen SQLite: I chose it over a file.",
        "Decision: a gradient needs at least four cells.",
        "I will use `msgspec` instead of json here.",
        "We'll go with polling.",
        "I'll use `Canvas` to draw the border.",
        "Since you chose the small template, let me use it instead of ours.",
        "Let's keep them as separate units.",
        "Rather than 90 fixtures, I'll use one list of hashes.",
        "I made the call on fixtures rather than wait: hashes for all of them.",
        "Accepted the derived flag instead of an explicit one.",
        "A screen has no width here, so width becomes a parameter rather than a constant.",
        "Rows lead with the key, not the title, because people search for keys.",
        "Deleting the filters rather than mending them was right.",
        "Let me rewrite the page to import from the small package instead of the large one:",
        "데이터베이스는 SQLite로 하기로 했습니다.",
        "Switching to pages instead of one long list.",
        "Instead of `drawText`, I will wrap the title in a layout.",
        "lets keep them apart for now",
    ],
)
def test_a_decision_that_was_taken_is_found(sentence: str) -> None:
    assert list(find_decisions(sentence)) == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "It failed because `read_all` blocks.",
        "The agent asked instead of guessing.",
        "I measured it on my own build rather than from the report.",
        "There needs to be a decision on the fallback.",
        "Should we use a queue instead of a lock?",
        "We could use a worker instead of a thread.",
        "The next prompt reads it from there instead of the default.",
        "The bar now counts phases instead of batches.",
        "A change touches one line instead of a whole file.",
        "The test missed it because it compares `name` alone.",
        "I'll leave it to you to decide whether we use a queue rather than a lock: tell me if so.",
        "Here are the decision criteria.",
        "I'll use `file_search` to look for the page.",
        "I'll use the read_file function for that.",
        "Let me use `lsof`.",
        "Let's keep going with the next part.",
        "The template you chose is made for another tool rather than this one.",
        "Let me know if you want a list instead of buttons.",
        "I'll use the browser to navigate to the page.",
        "I'll use the reviewing skill for this.",
        "Let me check what is there rather than guess.",
        "I'll write the store first, or I'll use the index alone.",
        "Final decision: whether the cart is cleared.",
        "It reads more like “what we'll use” instead of “what is planned”.",
        "I'll patch the loop so it stops instead of failing.",
        "Let's use a different approach.",
        "I'll keep it simple.",
        "I'll use shell scripts to move the files.",
        "I'll use `git filter-branch` for the history.",
        "Let's use an interactive rebase for that.",
        "Now let's use our helpers in the page:",
        "Read the page so that we'll use its terms.",
        "I liked the color you chose better.",
        "I'll treat this as a review rather than just an answer.",
        "This lets the wheel turn instead of stopping it.",
        "I'd rather you chose the name.",
        "I'll write that once you've decided on the first part.",
        "Let me count them rather than guess.",
        "You chose it knowingly.",
        "Decision: wait or use the other one",
        "Here's what we've agreed on:",
        "I'll use my own words.",
        "maybe let's have them right instead of left",
        "let's keep it and go to the next",
        "let's use best practices",
        "The sections I've picked are better.",
        "Add the page so we keep it, and I'll keep this.",
    ],
)
def test_a_reason_or_a_contrast_alone_is_no_decision(sentence: str) -> None:
    assert not list(find_decisions(sentence))


FINDING = (
    "The `CartStore` clears its items in `reset_cart` before the totals are read, so the receipt is"
    " empty for a guest. The method should never be called without a lock, to avoid the race in"
    " `checkout.py`."
)


def stated(text: str) -> list[str]:
    """Return the rules of a prompt as the ledger and the lens have them."""
    return list(find_rules(typed_words(text)))


def test_a_pasted_review_finding_sets_no_rule() -> None:
    assert stated(FINDING) == []
    own = "Please fix it. Never change `CartStore` itself."
    assert stated(f"{FINDING}\n\n{own}") == ["Never change `CartStore` itself."]


@pytest.mark.parametrize(
    "own",
    [
        f"I think so too: {FINDING}",
        f"Never call `reset_cart` without a lock. {FINDING}",
        "`CartStore` must never be cleared in `reset_cart`.",
    ],
    ids=["somebody speaks", "a command", "short"],
)
def test_what_a_person_says_of_code_is_no_finding(own: str) -> None:
    assert stated(own)


@pytest.mark.parametrize(
    "intro",
    ["I got this feedback:", "Findings of the reviewer:", "Name is wrong\n\nLow Severity"],
)
def test_what_an_introduction_calls_feedback_is_not_the_persons(intro: str) -> None:
    assert stated(f"{intro}\n\nThe name must never hold a blank.") == []


def test_the_labels_of_the_recorded_sessions_name_no_text() -> None:
    labels = read_labels()

    assert set(labels) == {RULE, DECIDED}
    assert all(len(key) == 64 for kind in labels.values() for key in kind)
    assert all(any(kind.values()) and not all(kind.values()) for kind in labels.values())
    assert set(json.loads(LABELS.read_text())) == set(labels)
    assert key_of(" Never  push.") == key_of("never push.")


def test_a_rule_keeps_what_it_quotes() -> None:
    banner = 'Never add "Made by a robot, with much love" to a message.'
    assert stated(banner) == [banner]
    # What somebody else wrote sets none, and a quoted rule is not the person's.
    assert stated('The page says "You must always sign in, whatever it costs".') == []
    assert stated('Please add "You must never do that" to the page.') == []
