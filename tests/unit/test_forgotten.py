"""What is in neither a summary nor the messages that were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from ctxtop.core.summaries import artifacts as rules
from ctxtop.core.summaries.artifacts import (
    Artifacts,
    FileUse,
    LostArtifacts,
    Quote,
    Todo,
    UsedName,
    collect_artifacts,
    limit_lost_artifacts,
    split_retained_and_lost,
)
from ctxtop.core.summaries.mentions import MentionIndex

from ..entries import answered, asked, called, returned, touched

if TYPE_CHECKING:
    from ctxtop.core.model.conversation import Entry


def told(before: Artifacts, summary: str, *kept: Entry) -> LostArtifacts:
    return limit_lost_artifacts(split_retained_and_lost(before, summary, kept)[1])


def test_a_file_is_kept_by_its_basename_and_by_its_folder_where_it_needs_that() -> None:
    paths = ("/p/src/a.py", "/p/one/index.ts", "/p/two/index.ts", "/p/src/b.py")
    before = Artifacts(files=tuple(FileUse(path) for path in paths))
    lost = told(before, "I changed A.py, and two/index.ts as well; ab.py is new.")

    assert [use.path for use in lost.files] == ["/p/one/index.ts", "/p/src/b.py"]
    assert lost.counts.files == 2


def test_a_windows_path_is_one_too() -> None:
    before = Artifacts(files=(FileUse("D:\\work\\a.py"), FileUse("D:\\work\\b.py")))

    assert [use.path for use in told(before, "see D:\\work\\a.py").files] == ["D:\\work\\b.py"]


def test_a_name_stands_whole_or_not_at_all() -> None:
    before = Artifacts(
        names=(
            UsedName("read_all", 1, 1),
            UsedName("read_one", 1, 1),
            UsedName("src/deep/x.py", 1, 1),
        )
    )
    lost = told(before, "we call read_all_lines and Read_One in x.py")
    assert [name.text for name in lost.names] == ["read_all", "read_one", "src/deep/x.py"]

    lost = told(before, "we call read_all() and `read_one` in lib/src/deep/x.py")
    assert lost.names == (), "as they are written, whatever stands around them"


def test_a_sentence_of_small_words_is_kept_only_word_for_word() -> None:
    before = Artifacts(decisions=(Quote("yes, let's go with option A", 3),))
    assert told(before, "Confirm: yes, the skills filter is an option.").decisions
    assert not told(before, 'The user said "yes, let\'s go with option A".').decisions


def test_a_choice_is_kept_without_what_was_not_chosen() -> None:
    decided = "I'll store the frames in one sorted list instead of the linked buckets of records."
    before = Artifacts(decisions=(Quote(decided, 3),))
    assert not told(before, "The frames are stored in a sorted list.").decisions
    assert told(before, "The linked buckets hold the records.").decisions


def test_what_a_kept_message_holds_is_not_forgotten() -> None:
    before = Artifacts(
        files=(FileUse("/p/a.py"), FileUse("/p/b.py")),
        names=(
            UsedName("in_input", 1, 1),
            UsedName("in_result", 1, 1),
            UsedName("gone_name", 1, 1),
        ),
        constraints=(Quote("Never touch the billing module.", 3),),
    )
    kept = (
        called("Bash", "t1", command="cat\nin_input"),
        returned("Bash", "t1", "in_result /p/a.py"),
        asked("As I said: never touch the billing module."),
    )
    lost = told(before, "", *kept)

    assert [use.path for use in lost.files] == ["/p/b.py"]
    assert [name.text for name in lost.names] == ["gone_name"]
    assert lost.constraints == ()


def test_a_rule_in_a_tools_result_is_nothing_that_was_said() -> None:
    before = Artifacts(constraints=(Quote("Never touch the billing module.", 3),))
    kept = returned("Read", "t1", "# Never touch the billing module.")

    assert len(told(before, "", kept).constraints) == 1


@pytest.mark.parametrize(
    ("sentence", "is_kept"),
    [
        ("Never touch the billing module.", True),
        ("We never touch anything in the billing module of this shop.", True),
        ("The user said that billing modules are off limits and not to be touched.", True),
        ("The module was changed.", False),
        ("", False),
    ],
)
def test_a_sentence_is_kept_by_most_of_its_words(sentence: str, is_kept: bool) -> None:
    text = MentionIndex([sentence])

    assert text.has_sentence("Never touch the billing module.") is is_kept


def test_a_name_weighs_more_than_other_words() -> None:
    decision = "We decided to use `msgspec` for decoding transcripts quickly."

    assert MentionIndex(["Decoding is done with msgspec now."]).has_sentence(decision)
    assert not MentionIndex(["Decoding transcripts is done with json."]).has_sentence(decision)


def test_korean_words_are_found_under_other_particles() -> None:
    rule = "테스트를 먼저 실행하고 반드시 결과를 보여줘"

    assert MentionIndex(["테스트가 먼저 실행하며 결과는 반드시 보여줌"]).has_sentence(rule)
    assert not MentionIndex(["문서를 고쳤다"]).has_sentence(rule)


def test_a_sentence_of_empty_words_is_kept_word_for_word_alone() -> None:
    assert MentionIndex(["do not do that"]).has_sentence("Do not do that.")
    assert not MentionIndex(["that is done"]).has_sentence("Do not do that.")


def test_a_todo_is_kept_by_a_summary_or_by_a_list_that_stayed() -> None:
    todos = tuple(Todo(text, "pending", 1) for text in ("write docs", "ship release", "fix flake"))
    kept = called("TodoWrite", "t", todos=[{"content": "ship release", "status": "pending"}])
    lost = told(Artifacts(todos=todos), "Still open: write docs.", kept)

    assert [todo.text for todo in lost.todos] == ["fix flake"]


def test_the_most_important_are_told_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_LOST_FILES", 1)
    before = collect_artifacts([*touched("Read", "/p/a.py", "1"), *touched("Edit", "/p/b.py", "2")])
    lost = told(before, "nothing")

    assert [use.path for use in lost.files] == ["/p/b.py"]
    assert lost.counts.files == 2


def test_what_was_kept_and_what_was_lost_are_all_there_was() -> None:
    before = collect_artifacts(
        [
            answered("one_name and two_name. I will use `that_thing` instead of this."),
            asked("Never do it. Always do that other thing."),
            *touched("Read", "/p/a.py", "1"),
        ]
    )
    there, lost = split_retained_and_lost(before, "one_name in a.py", ())

    for kind in ("files", "names", "decisions", "todos", "constraints"):
        parts = (*getattr(there, kind), *getattr(lost, kind))
        assert sorted(map(str, parts)) == sorted(map(str, getattr(before, kind)))


def test_lost_names_are_stored_as_identifiers() -> None:
    lost = limit_lost_artifacts(Artifacts(names=(UsedName("read_all", 1, 1),)))
    stored = msgspec.to_builtins(lost)

    assert list(stored) == ["files", "identifiers", "decisions", "todos", "constraints", "counts"]
    assert stored["counts"]["identifiers"] == len(stored["identifiers"]) == 1
