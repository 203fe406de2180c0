"""What one compaction kept and forgot of all that stood before it."""

from __future__ import annotations

from ctxtop.core.summaries.compaction_report import find_retained_and_lost
from msgspec.structs import replace

from ..entries import answered, asked, compacted, summed_up, touched


def test_what_stood_before_a_compaction_is_kept_or_lost() -> None:
    end = compacted()
    entries = [
        asked("Never push to main."),
        *touched("Read", "/p/a.py", "t1"),
        *touched("Edit", "/p/b.py", "t2"),
        end,
        summed_up("a.py was read; never push to main."),
        answered("go on"),
    ]
    found = find_retained_and_lost(entries, end.uuid or "")

    assert found
    assert [use.path for use in found.retained.files] == ["/p/a.py"]
    assert [use.path for use in found.lost.files] == ["/p/b.py"]
    assert [said.text for said in found.retained.constraints] == ["Never push to main."]
    assert found.lost.constraints == ()


def test_what_the_first_kept_stands_before_the_second() -> None:
    first, second = compacted(), compacted()
    entries = [
        *touched("Edit", "/p/a.py", "t1"),
        first,
        summed_up("a.py"),
        *touched("Edit", "/p/b.py", "t2"),
        second,
        summed_up("b.py"),
    ]
    found = find_retained_and_lost(entries, second.uuid or "")

    assert found
    assert [use.path for use in found.lost.files] == ["/p/a.py"]
    assert [use.path for use in found.retained.files] == ["/p/b.py"]


def test_a_compaction_without_an_id_is_named_by_its_place() -> None:
    end = replace(compacted(), uuid=None)
    entries = [*touched("Edit", "/p/a.py", "t1"), end, summed_up("nothing")]

    assert find_retained_and_lost(entries, f"at {end.offset}")
    assert find_retained_and_lost(entries, "another") is None
