"""A pattern that is compiled when it is first used."""

from __future__ import annotations

import re

import pytest
from ctxtop.core.lazy_pattern import lazy_pattern


def test_it_is_compiled_once_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_now = re.compile

    def note(pattern: str, flags: int) -> re.Pattern[str]:
        compiled.append(pattern)
        return compile_now(pattern, flags)

    monkeypatch.setattr(re, "compile", note)
    lazy = lazy_pattern("(a+)b", re.IGNORECASE)
    assert lazy.pattern == "(a+)b"
    assert compiled == []
    assert lazy.search("xAAB") is not None
    assert lazy.sub("-", "ab, Ab") == "-, -"
    assert compiled == ["(a+)b"]


def test_it_does_what_a_pattern_does() -> None:
    lazy, usual = lazy_pattern(r"\b\w", re.MULTILINE), re.compile(r"\b\w", re.MULTILINE)
    text = "one two\nthree"
    assert lazy.findall(text) == usual.findall(text)
    assert [each.span() for each in lazy.finditer(text)] == [
        each.span() for each in usual.finditer(text)
    ]
    assert (lazy.flags, lazy.groups) == (usual.flags, usual.groups)
    with pytest.raises(AttributeError):
        _ = lazy.nothing_of_it  # type: ignore[attr-defined]
