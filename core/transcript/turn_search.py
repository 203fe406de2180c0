"""The search in prompts and answers: what is indexed of an entry, and what a query means.

The index and every check use the same text: sanitized and redacted, so that no secret is found.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import Final

import msgspec

from ..model.filter_language import (
    TIME_CHOICES,
    FilterWord,
    fold_text,
    invalid_word,
    parse_time,
    readable_filter,
    split_filter,
    unknown_filter_error,
    values_beginning_with,
)
from .conversation import Entry, PartKind, Role
from .redaction import redact
from .sanitize import sanitize_text


class TurnRole(StrEnum):
    PROMPT = "prompt"  # a person's words, in the session itself
    ANSWER = "answer"  # the model's words, in the session itself
    AGENT = "agent"  # what a subagent was asked, and what it wrote


SEARCHED_PARTS: Final = frozenset({PartKind.PROMPT, PartKind.TEXT})
FILTER_KEYS: Final = ("project:", "since:", "role:", "session:")

MAX_TERMS: Final = 32  # more are ignored: nobody types so many
MAX_TERM_CHARS: Final = 40  # of an indexed word; longer ones are told apart by the text itself
MAX_HITS: Final = 5_000  # of one text; more are not marked

_IDEOGRAPH: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Scripts without spaces between words: each character is a word of the index."""

_LETTER: Final = rf"[^\W_{_IDEOGRAPH}]"
_TERM: Final = re.compile(f"[{_IDEOGRAPH}]|{_LETTER}+")

_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)  # in JSON
_FOLDED_LETTERS: Final = bytes([*range(0xC3, 0xCE), 0xE1])
"""In UTF-8, the first bytes of letters with accents, which are folded to those of ASCII."""
_FOLDED_SIGNS: Final = b"\xe2\x84"  # the same for Kelvin and Ångström


def _has_other_spelling(line: bytes) -> bool:
    """Whether a line of JSON may spell an ASCII word with other bytes than its own."""
    if not line.isascii():
        has_accents = len(line.translate(None, _FOLDED_LETTERS)) < len(line)
        if has_accents or _FOLDED_SIGNS in line:
            return True
    return b"\\u" in line and b"u" in _ESCAPE.findall(line)


_BETWEEN_WORDS: Final = rb"(?:\\[nrtbf]|[^a-z0-9])*"  # in a line of JSON without such spellings


def searched_text(entry: Entry) -> str:
    """Return the text of an entry that can be found, as it is shown; empty for other entries."""
    return redact(unredacted_text(entry))


def unredacted_text(entry: Entry) -> str:
    """Return `searched_text` with its secrets, for checks that come before its redaction."""
    if entry.role is None or entry.hidden:
        return ""
    texts = [part.text for part in entry.parts if part.kind in SEARCHED_PARTS and part.text]
    return sanitize_text("\n".join(texts)).strip()


def turn_role(entry: Entry, *, is_agent_file: bool) -> TurnRole:
    if is_agent_file or entry.sidechain:
        return TurnRole.AGENT
    return TurnRole.ANSWER if entry.role is Role.ASSISTANT else TurnRole.PROMPT


def index_terms(text: str) -> set[str]:
    """Return a text's words for the index."""
    return {term[:MAX_TERM_CHARS] for term in _TERM.findall(fold_text(text))}


class TurnTerm(msgspec.Struct, frozen=True, dict=True):
    """Words that must follow each other; the last one may be a prefix."""

    words: tuple[str, ...]
    is_prefix: bool = False

    @property
    def fts_expression(self) -> str:
        *most, last = (f'"{word[:MAX_TERM_CHARS]}"' for word in self.words)
        return " AND ".join([*most, f"{last}*" if self.is_prefix else last])

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Match it in a folded text."""
        first, *others = map(re.escape, self.words)
        # The word itself comes first, so that the search for it is one for a literal.
        begin = first if _is_ideograph(self.words[0]) else f"{first}(?<!{_LETTER}{first})"
        end = f"{_LETTER}*" if self.is_prefix else f"(?!{_LETTER})"
        last = "" if _is_ideograph(self.words[-1]) else end
        return re.compile(r"[\W_]*".join([begin, *others]) + last)


def _is_ideograph(word: str) -> bool:
    return re.match(f"[{_IDEOGRAPH}]", word) is not None


class TurnQuery(msgspec.Struct, frozen=True, dict=True):
    """A parsed query; all conditions must be met."""

    terms: tuple[TurnTerm, ...] = ()
    excluded: tuple[TurnTerm, ...] = ()
    roles: tuple[TurnRole, ...] = ()
    projects: tuple[str, ...] = ()  # parts of names, one of which must match
    sessions: tuple[str, ...] = ()  # beginnings of ids, one of which must match
    since: int | None = None  # milliseconds since 1970
    problems: tuple[str, ...] = ()  # invalid filters, a line each

    @property
    def is_empty(self) -> bool:
        chosen = (self.terms, self.excluded, self.roles, self.projects, self.sessions)
        return not any(chosen) and self.since is None

    @property
    def fts_match(self) -> str:
        """The FTS5 expression of the blocks in which a turn may match; empty if all may."""
        return " AND ".join(term.fts_expression for term in self.terms)

    def may_match(self, line: bytes) -> bool:
        """Whether a transcript's line may match: decoding and redacting it takes far longer."""
        if _has_other_spelling(line):
            return True
        folded = line.lower()
        return all(pattern.search(folded) for pattern in self._line_patterns)

    @cached_property
    def _line_patterns(self) -> tuple[re.Pattern[bytes], ...]:
        words = (term.words for term in self.terms if all(word.isascii() for word in term.words))
        return tuple(
            re.compile(_BETWEEN_WORDS.join(re.escape(word.encode()) for word in each))
            for each in words
        )

    def has_terms(self, text: str) -> bool:
        return self._has_terms(fold_text(text))

    def matches(self, text: str) -> bool:
        folded = fold_text(text)
        is_excluded = any(term.pattern.search(folded) for term in self.excluded)
        return not is_excluded and self._has_terms(folded)

    def _has_terms(self, folded: str) -> bool:
        return all(term.pattern.search(folded) for term in self.terms)

    def hits(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each match of a term, in order and without overlaps."""
        folded = fold_text(text)
        spans = sorted(
            match.span()
            for term in self.terms
            for match in islice(term.pattern.finditer(folded), MAX_HITS)
        )
        hits: list[tuple[int, int]] = []
        for begin, end in spans:
            if hits and begin < hits[-1][1]:
                hits[-1] = (hits[-1][0], max(end, hits[-1][1]))
            else:
                hits.append((begin, end))
        return hits


def parse_turn_query(typed: str, now_ms: int) -> TurnQuery:
    """Parse what was typed; `now_ms` is what `since:` counts from.

    The last word is a prefix unless it is quoted or followed by a space: it is still being typed.
    """
    readable = readable_filter(typed)
    words = split_filter(readable)[:MAX_TERMS]
    terms: list[TurnTerm] = []
    excluded: list[TurnTerm] = []
    problems: list[str] = []
    values: dict[str, list[str]] = {key: [] for key in FILTER_KEYS}
    for place, word in enumerate(words):
        key = word.key.lower()
        if key in values and not word.is_negated:
            problems += _filter_problems(key, word.value, now_ms)
            values[key] += [word.value.casefold()] if word.value else []
        elif error := unknown_filter_error(word, FILTER_KEYS):
            problems.append(error)
        else:
            is_typed = place == len(words) - 1 and not readable[-1].isspace()
            terms_of_word = _split_terms(word, is_prefix=is_typed and not word.is_negated)
            (excluded if word.is_negated else terms).extend(terms_of_word)
    times = (parse_time(value, now_ms) for value in values["since:"])
    return TurnQuery(
        terms=tuple(terms),
        excluded=tuple(excluded),
        roles=_roles_beginning_with(values["role:"]),
        projects=tuple(values["project:"]),
        sessions=tuple(values["session:"]),
        since=max((time for time in times if time is not None), default=None),
        problems=tuple(problems),
    )


def _split_terms(word: FilterWord, *, is_prefix: bool) -> list[TurnTerm]:
    """Return the term of a word; none if it has only punctuation."""
    found = tuple(_TERM.findall(fold_text(word.text)))
    return [TurnTerm(found, is_prefix and not word.is_quoted)] if found else []


def _roles_beginning_with(prefixes: list[str]) -> tuple[TurnRole, ...]:
    return tuple(map(TurnRole, values_beginning_with(TurnRole, prefixes)))


def _filter_problems(key: str, value: str, now_ms: int) -> Iterable[str]:
    # Without a value it is still being typed.
    if value and key == "since:" and parse_time(value, now_ms) is None:
        yield invalid_word(f"{key}{value}", TIME_CHOICES)
    if value and key == "role:" and not _roles_beginning_with([value.casefold()]):
        yield invalid_word(f"{key}{value}", TurnRole)


EXCERPT_CHARS: Final = 240
CHARS_BEFORE_HIT: Final = 40


class Excerpt(msgspec.Struct, frozen=True):
    """A part of a text in one line, and where the query's terms are in it."""

    text: str
    matches: tuple[tuple[int, int], ...] = ()


def make_excerpt(text: str, query: TurnQuery) -> Excerpt:
    """Return the text around the first hit, or the start of the text if there is none."""
    hits = query.hits(text)
    first = hits[0][0] if hits else 0
    start = max(0, first - CHARS_BEFORE_HIT)
    if start:
        # At the beginning of a word, if there is one.
        space = text.find(" ", start, first)
        start = space + 1 if space >= 0 else start
    around = " ".join(text[start : start + EXCERPT_CHARS].split())
    snippet = f"… {around}" if start else around
    return Excerpt(snippet, tuple(query.hits(snippet)))
