"""What a person searches the summaries for: words, "phrases", -not, and filters with a name.

Nothing that is typed is an error: what is no filter is a word, and a filter whose value says
nothing is told and left out.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS: Final = ("agent", "boundary", "plan")
"""Who wrote it: an agent, the client at a compaction, or ctxtop."""

FILTERS: Final = ("kind", "type", "project", "since", "session")

TERMS: Final = 32
"""More are left out: nobody types them, and each is a search of its own."""

HITS: Final = 5_000
"""Of one text; more are neither marked nor counted."""

DAY_MS: Final = 24 * 3600 * 1000
_UNITS: Final = {"m": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}

_PART: Final = re.compile(
    rf'(?P<no>-)?(?:(?P<name>{"|".join(FILTERS)}):)?(?:"(?P<quoted>[^"]*)"?|(?P<bare>\S*))'
)
_TOKEN: Final = re.compile(r"[^\W_]+")
_SPAN: Final = re.compile(r"(\d{1,5})([mhdw])")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


class Term(msgspec.Struct, frozen=True):
    """A word by its beginning, or a phrase of whole words."""

    text: str
    matches_whole_words: bool = False
    """Its last word is not the beginning of a longer one."""

    @property
    def fts_expression(self) -> str:
        """Say it to FTS5."""
        quoted = '"' + self.text.replace('"', '""') + '"'
        return quoted if self.matches_whole_words else f"{quoted}*"

    @property
    def pattern(self) -> str:
        """Find it in a folded text, as FTS5's tokenizer unicode61 does."""
        words = [re.escape(word) for word in _TOKEN.findall(folded(self.text))]
        end = r"(?![^\W_])" if self.matches_whole_words else r"[^\W_]*"
        return r"(?<![^\W_])" + r"[\W_]+".join(words) + end


class Search(msgspec.Struct, frozen=True):
    """What was typed, understood; everything in it must be met."""

    terms: tuple[Term, ...] = ()
    excluded: tuple[Term, ...] = ()
    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    """Beginnings or parts of agent types; one of them is met."""
    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    """Beginnings of ids."""
    since: int | None = None
    """Milliseconds since 1970."""
    problems: tuple[str, ...] = ()
    """What was not understood, a line each."""

    @property
    def fts_match(self) -> str:
        """Say what must be there to FTS5; empty where nothing must."""
        return " AND ".join(term.fts_expression for term in self.terms)

    @property
    def fts_exclude(self) -> str:
        """Say what must not be there to FTS5; empty where anything may."""
        return " OR ".join(term.fts_expression for term in self.excluded)

    def hits(self, text: str) -> list[tuple[int, int]]:
        """Find where the text has what is searched, as start and end, at most HITS."""
        if not self.terms:
            return []
        pattern = _pattern(tuple(term.pattern for term in self.terms))
        found: list[tuple[int, int]] = []
        for hit in pattern.finditer(folded(text)):
            found.append(hit.span())
            if len(found) == HITS:
                break
        return found

    def matches(self, text: str) -> bool:
        """Say of a text that stands in no index whether it has all that it must."""
        whole = folded(text)
        return all(re.search(term.pattern, whole) for term in self.terms) and not any(
            re.search(term.pattern, whole) for term in self.excluded
        )


def parse(typed: str, now_ms: int) -> Search:
    """Understand what was typed; `now_ms` is what `since:` counts from."""
    terms: list[Term] = []
    without: list[Term] = []
    kept: dict[str, list[str]] = {name: [] for name in FILTERS}
    notes: list[str] = []
    since: int | None = None
    # SQLite takes neither NUL nor half a character.
    readable = typed.replace("\0", " ").encode("utf-8", "replace").decode()
    for part in [each for each in _PART.finditer(readable) if each.group()][:TERMS]:
        name, value = part["name"], part["bare"] or part["quoted"] or ""
        if name is None or part["no"]:
            text = value if name is None else f"{name}:{value}"
            if _TOKEN.search(text):
                whole = part["quoted"] is not None
                (without if part["no"] else terms).append(Term(text, whole))
        elif not value:
            # Its value is still being typed.
            continue
        elif name == "since":
            at = _moment(value, now_ms)
            notes += [] if at is not None else [_not_understood(name, value)]
            since = at if since is None else max(since, at or since)
        elif name == "kind" and not any(kind.startswith(value.casefold()) for kind in KINDS):
            notes.append(_not_understood(name, value))
        else:
            kept[name].append(value.casefold())
    return Search(
        terms=tuple(terms),
        excluded=tuple(without),
        kinds=tuple(kind for kind in KINDS if any(kind.startswith(each) for each in kept["kind"])),
        types=tuple(kept["type"]),
        projects=tuple(kept["project"]),
        sessions=tuple(kept["session"]),
        since=since,
        problems=tuple(notes),
    )


def folded(text: str) -> str:
    """Take capitals and accents away, character by character: every place stays what it is."""
    return text.lower() if text.isascii() else "".join(map(_plain, text))


def start_of_day(now_ms: int, days: int = 0) -> int:
    """Say when the day of `now_ms` began here, or the one so many days before it."""
    here = datetime.fromtimestamp(now_ms / 1000).astimezone()
    day = here.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days)
    return int(day.timestamp() * 1000)


@lru_cache(maxsize=4096)
def _plain(character: str) -> str:
    return unicodedata.normalize("NFD", character)[0].lower()[0]


@lru_cache(maxsize=8)
def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


def _not_understood(name: str, value: str) -> str:
    known = "today, 24h, 7d, 2w or 2026-11-30" if name == "since" else ", ".join(KINDS)
    return f"{name}:{value} says nothing: {known}"


def _moment(value: str, now_ms: int) -> int | None:
    return next(_readings(value.casefold(), now_ms), None)


def _readings(value: str, now_ms: int) -> Iterator[int]:
    if value in {"today", "yesterday"}:
        yield start_of_day(now_ms, 0 if value == "today" else 1)
    if span := _SPAN.fullmatch(value):
        yield now_ms - int(span[1]) * _UNITS[span[2]]
    if _DATE.fullmatch(value):
        try:
            yield int(datetime.fromisoformat(value).astimezone().timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            return
