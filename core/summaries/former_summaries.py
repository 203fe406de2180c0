"""What earlier compactions left: the first thing that a later summary keeps.

A summary of the client's, a model's words and a digest's turns are quoted, whole if they fit, else
by their own sections. The facts of a summary of ours are read again from the lines that it was
made of, and come before the others.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from ..model.conversation import Author, Entry, PartKind
from ..transcript.authorship import CUT_MARKER, DIGEST_MARKER, SUMMARY_MARKER
from .decision_patterns import quote_line
from .summary_facts import QUOTE_MARK, FactKind, SummaryFact, make_fact, merge_facts, parse_summary
from .turn_digest import parse_digest

EARLIER_WEIGHT: Final = 1.0  # it is all that the model still knows of what it sums up
_PREFACE: Final = re.compile(
    r"This session is being continued from [^\n]*\n\s*(?:Summary:\s*)?", re.IGNORECASE
)
_EPILOGUE: Final = "If you need specific details from before compaction"
"""What the client puts around its own summaries (2.1.39 to 2.1.332), and repeats each time."""

_ONLY_QUOTED: Final = frozenset({FactKind.EARLIER, FactKind.ANCHOR})
"""Facts of a summary of ours that are not read again from the lines it was made of."""


def previous_summary_facts(history: Sequence[Entry]) -> tuple[SummaryFact, ...]:
    """Return the facts that only the newest earlier summary still holds.

    Facts of our own summary count only if the lines it was made of are gone; otherwise those
    lines are read themselves. What a model or the client wrote is quoted, never summarized
    again. The hand-off that began the session is never read itself.
    """
    handed = (
        fact
        for entry in history
        if entry.author is Author.CTXTOP
        for part in entry.parts
        for fact in _parse_own(part.text)
    )
    return merge_facts(handed, _newest_summary_facts(history))


def facts_kept_before(history: Sequence[Entry]) -> frozenset[tuple[FactKind, str]]:
    """Return the kind and key of each fact that the newest summary of ours holds."""
    _, text = _newest_summary(history) or (None, "")
    return frozenset((fact.kind, fact.key) for fact in parse_summary(text))


def _newest_summary(history: Sequence[Entry]) -> tuple[Entry, str] | None:
    """Find the newest summary; a cut has none of its own, only rules."""
    for entry in reversed(history):
        text = next((part.text for part in entry.parts if part.kind is PartKind.SUMMARY), None)
        if text is not None and not text.startswith(CUT_MARKER):
            return entry, text
    return None


def _newest_summary_facts(history: Sequence[Entry]) -> tuple[SummaryFact, ...]:
    newest = _newest_summary(history)
    if newest is None:
        return ()
    entry, text = newest
    if text.startswith(SUMMARY_MARKER):
        is_all = not any(each.role for each in history if each.offset < entry.offset)
        return tuple(fact for fact in _parse_own(text) if is_all or fact.kind in _ONLY_QUOTED)
    if text.startswith(DIGEST_MARKER):
        text = "\n".join(section.text for section in parse_digest(text))
    else:
        text = _PREFACE.sub("", text, count=1).partition(_EPILOGUE)[0]
    return tuple(_quoted(text, entry.line))


def _parse_own(text: str) -> Iterator[SummaryFact]:
    """Parse a summary of ours; what a model wrote for it is quoted from now on."""
    for fact in parse_summary(text):
        if fact.kind is FactKind.WRITTEN:
            yield from _quoted(fact.text, fact.line)
        else:
            yield fact


def _quoted(text: str, line: int) -> Iterator[SummaryFact]:
    if text.strip():
        yield make_fact(FactKind.EARLIER, text.strip(), line, EARLIER_WEIGHT)


_SECTION_START: Final = re.compile(r"^(?=#{1,4} |\*\*\S|\d{1,2}[.)] |[A-Z]\w+:\s*$)", re.MULTILINE)
_DRAFT_END: Final = re.compile(r"^Summary:\s*$", re.MULTILINE)
_FIRST_TITLES: Final = (
    re.compile(r"request|intent|goal|task overview|objective|요청|목표", re.IGNORECASE),
    re.compile(r"next step|다음", re.IGNORECASE),
    re.compile(r"pending|remaining|to ?do|남은", re.IGNORECASE),
    re.compile(r"current|state|status|현재|상태", re.IGNORECASE),
    re.compile(r"user messages|constraint|rule|preference|규칙|제약", re.IGNORECASE),
)
"""Titles of the sections that matter most, in this order."""

TASK_TITLES: Final = _FIRST_TITLES[:1]
NEXT_TITLES: Final = _FIRST_TITLES[1:3]

_TITLE_CHARS: Final = 120  # of a section's first line
MIN_SECTION_LINES: Final = 2  # its title, and something of what it says


def split_sections(text: str) -> list[str]:
    """Split a summary at its own headings; what the client drafted before it is one section."""
    draft_end = _DRAFT_END.search(text)
    at = draft_end.end() if draft_end else 0
    parts = [text[:at], *_SECTION_START.split(text[at:])]
    return [part.strip("\n") for part in parts if part.strip()]


def fit_earlier(fact: SummaryFact, tokens: int, count: Callable[[str], int]) -> SummaryFact | None:
    """Shorten a quoted summary to so many tokens, by its own sections; None if nothing fits.

    The task, what is next and where it stood come first. Of a section that does not fit, its
    first lines stay.
    """
    if count(as_quoted(fact.text)) <= tokens:
        return fact
    sections = split_sections(fact.text)
    kept: dict[int, str] = {}
    left = tokens
    for place in _by_importance(sections):
        form = _fit_section(sections[place], fact.line, left, count)
        if form:
            kept[place] = form
            left -= count(as_quoted(form))
    return replace(fact, text="\n".join(kept[place] for place in sorted(kept))) if kept else None


def _by_importance(sections: Sequence[str]) -> list[int]:
    is_digest = sections[0].startswith("## Turn ")

    def rank(place: int) -> tuple[int, int]:
        if is_digest:
            return 0, -place
        title = sections[place].partition("\n")[0][:_TITLE_CHARS]
        first = (n for n, pattern in enumerate(_FIRST_TITLES) if pattern.search(title))
        is_draft = bool(_DRAFT_END.search(sections[place]))
        return len(_FIRST_TITLES) + 1 if is_draft else next(first, len(_FIRST_TITLES)), place

    return sorted(range(len(sections)), key=rank)


def _fit_section(section: str, line: int, tokens: int, count: Callable[[str], int]) -> str:
    if count(as_quoted(section)) <= tokens:
        return section
    lines = section.split("\n")
    low, high = 0, len(lines) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high)
            if count(as_quoted(_first_lines(lines, middle, line))) <= tokens
            else (low, middle - 1)
        )
    return _first_lines(lines, low, line) if low >= MIN_SECTION_LINES else ""


def _first_lines(lines: Sequence[str], number: int, line: int) -> str:
    gap = f"[… {len(lines) - number} lines: line {line} of the transcript …]"
    return "\n".join([*lines[:number], gap])


def as_quoted(text: str) -> str:
    return "\n".join(f"{QUOTE_MARK}{line}" for line in text.split("\n"))


def find_stated(
    facts: Iterable[SummaryFact], titles: Iterable[re.Pattern[str]], chars: int
) -> str | None:
    """Return what quoted summaries say under the first matching title, as one line."""
    texts = [fact.text for fact in facts if fact.kind is FactKind.EARLIER]
    sections = [section for text in texts for section in split_sections(text)]
    for pattern in titles:
        for section in sections:
            title, _, body = section.partition("\n")
            if pattern.search(title[:_TITLE_CHARS]) and not _DRAFT_END.search(section):
                return quote_line(body or title.partition(":")[2], chars) or None
    return None
