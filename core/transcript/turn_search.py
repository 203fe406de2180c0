"""The search in prompts and answers: what is indexed of an entry, and what a query means.

The index and every check use the same text: sanitized and redacted, so that no secret is found.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from itertools import islice, pairwise
from typing import Final

import msgspec

from ..lazy_pattern import lazy_pattern
from ..model.conversation import Entry, PartKind, Role
from .filter_language import (
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
from .redaction import redact
from .sanitize import sanitize_text


class TurnRole(StrEnum):
    PROMPT = "prompt"  # a person's words, in the session itself
    ANSWER = "answer"  # the model's words, in the session itself
    AGENT = "agent"  # what a subagent was asked, and what it wrote


ALL_ROLES: Final = tuple(TurnRole)

SEARCHED_PARTS: Final = frozenset({PartKind.PROMPT, PartKind.TEXT})
FILTER_KEYS: Final = ("project:", "since:", "role:", "session:")

MAX_TERMS: Final = 32  # more are ignored: nobody types so many
MAX_TERM_CHARS: Final = 7
"""Of an indexed word. Longer ones that begin alike are told apart by the text itself: a few more
turns are read, and the index takes a sixth less."""
MAX_HITS: Final = 5_000  # of one text; more are not marked

_IDEOGRAPH: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Scripts without spaces between words: each character is a word of the index."""

_LETTER: Final = rf"[^\W_{_IDEOGRAPH}]"
_TERM: Final = lazy_pattern(f"[{_IDEOGRAPH}]|{_LETTER}+")

_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)  # in JSON
_FOLDED_LETTERS: Final = bytes([*range(0xC3, 0xCE), 0xE1])
"""The first UTF-8 bytes of letters with accents, which are folded to those of ASCII."""
_FOLDED_SIGNS: Final = b"\xe2\x84"  # the same for Kelvin and Ångström


def _has_other_spelling(line: bytes) -> bool:
    """Whether a line of JSON may spell an ASCII word with other bytes than its own."""
    if not line.isascii():
        has_accents = len(line.translate(None, _FOLDED_LETTERS)) < len(line)
        if has_accents or _FOLDED_SIGNS in line:
            return True
    return b"\\u" in line and b"u" in _ESCAPE.findall(line)


# In a line of JSON without such spellings:
_BETWEEN_WORDS: Final = rb"(?:\\[nrtbf]|[^a-z0-9])*"
_NO_LETTER: Final = rb"(?![a-z0-9])"


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


def split_words(text: str) -> list[str]:
    """Return a text's words in order, folded."""
    return _TERM.findall(fold_text(text))


def index_terms(text: str) -> set[str]:
    """Return a text's words for the index."""
    return {word[:MAX_TERM_CHARS] for word in split_words(text)}


class TurnTerm(msgspec.Struct, frozen=True, dict=True):
    """Words that must follow each other; the last one may be a prefix."""

    words: tuple[str, ...]
    is_prefix: bool = False

    @property
    def fts_expression(self) -> str:
        *most, last = (f'"{word[:MAX_TERM_CHARS]}"' for word in self.words)
        is_prefix = self.is_prefix and len(self.words[-1]) < MAX_TERM_CHARS
        return " AND ".join([*most, f"{last}*" if is_prefix else last])

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Match it in a folded text."""
        first = re.escape(self.words[0])
        # The word itself comes first, so that the search for it is one for a literal.
        begin = first if _is_ideograph(self.words[0]) else f"{first}(?<!{_LETTER}{first})"
        end = f"{_LETTER}*" if self.is_prefix else f"(?!{_LETTER})"
        last = "" if _is_ideograph(self.words[-1]) else end
        others = (
            rf"[\W_]{'*' if _is_ideograph(before) or _is_ideograph(word) else '+'}{re.escape(word)}"
            for before, word in pairwise(self.words)
        )
        return re.compile("".join([begin, *others, last]))

    @property
    def line_pattern(self) -> re.Pattern[bytes]:
        """Match it, if it is ASCII, in a line of JSON in lower case without other spellings."""
        first, *others = (re.escape(word.encode()) for word in self.words)
        begin = rb"%b(?:(?<![a-z0-9]%b)|(?<=\\[nrtbf]%b))" % (first, first, first)
        end = b"" if self.is_prefix else _NO_LETTER
        return re.compile(_BETWEEN_WORDS.join([begin, *others]) + end)


def _is_ideograph(word: str) -> bool:
    return re.match(f"[{_IDEOGRAPH}]", word) is not None


class TurnQuery(msgspec.Struct, frozen=True, dict=True):
    """A parsed query; all conditions must be met."""

    terms: tuple[TurnTerm, ...] = ()
    excluded: tuple[TurnTerm, ...] = ()
    roles: tuple[TurnRole, ...] = ALL_ROLES
    projects: tuple[str, ...] = ()  # parts of names, one of which must match
    sessions: tuple[str, ...] = ()  # beginnings of ids, one of which must match
    other_projects: tuple[str, ...] = ()  # parts of names, none of which may match
    other_sessions: tuple[str, ...] = ()  # beginnings of ids, none of which may match
    since: int | None = None  # milliseconds since 1970
    problems: tuple[str, ...] = ()  # invalid filters, a line each

    @property
    def is_empty(self) -> bool:
        words = self.terms or self.excluded
        is_any_turn = self.roles == ALL_ROLES and self.since is None
        return not words and is_any_turn and not self.chooses_sessions

    @property
    def chooses_sessions(self) -> bool:
        return any((self.projects, self.sessions, self.other_projects, self.other_sessions))

    def allows_session(self, session_id: str, project: str) -> bool:
        def is_project(parts: tuple[str, ...]) -> bool:
            return any(part in project.casefold() for part in parts)

        return (
            (not self.projects or is_project(self.projects))
            and (not self.sessions or session_id.startswith(self.sessions))
            and not is_project(self.other_projects)
            and not session_id.startswith(self.other_sessions)
        )

    @property
    def fts_match(self) -> str:
        """The FTS5 expression of the blocks in which a turn may match; empty if all may."""
        return " AND ".join(term.fts_expression for term in self.terms)

    def may_match(self, line: bytes) -> bool:
        """Whether a transcript's line may match: decoding and redacting it takes far longer."""
        if _has_other_spelling(line):
            return True
        folded = line.lower()
        # A plain loop: it is run for each turn of the blocks that have the words.
        for word in self._line_words:
            if word not in folded:
                return False
        return all(pattern.search(folded) for pattern in self._line_patterns)

    @cached_property
    def _line_words(self) -> list[bytes]:
        words = {word for term in self.terms for word in term.words if word.isascii()}
        # Long words are rare.
        return sorted((word.encode() for word in words), key=len, reverse=True)

    @cached_property
    def _line_patterns(self) -> list[re.Pattern[bytes]]:
        return [
            term.line_pattern for term in self.terms if all(word.isascii() for word in term.words)
        ]

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
    negated: dict[str, list[str]] = {key: [] for key in FILTER_KEYS}
    for place, word in enumerate(words):
        key = word.key.lower()
        if key in values:
            problems += _filter_problems(word, now_ms)
            of_key = negated[key] if word.is_negated else values[key]
            of_key += [word.value.casefold()] if word.value else []
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
        roles=tuple(
            role
            for role in _roles_beginning_with(values["role:"]) or ALL_ROLES
            if role not in _roles_beginning_with(negated["role:"])
        ),
        projects=tuple(values["project:"]),
        sessions=tuple(values["session:"]),
        other_projects=tuple(negated["project:"]),
        other_sessions=tuple(negated["session:"]),
        since=max((time for time in times if time is not None), default=None),
        problems=tuple(problems),
    )


def _split_terms(word: FilterWord, *, is_prefix: bool) -> list[TurnTerm]:
    """Return the term of a word; none if it has only punctuation."""
    found = tuple(split_words(word.text))
    return [TurnTerm(found, is_prefix and not word.is_quoted)] if found else []


def _roles_beginning_with(prefixes: list[str]) -> tuple[TurnRole, ...]:
    return tuple(map(TurnRole, values_beginning_with(TurnRole, prefixes)))


def _filter_problems(word: FilterWord, now_ms: int) -> Iterable[str]:
    key, value = word.key.lower(), word.value
    # Without a value it is still being typed.
    if value and key == "since:" and word.is_negated:
        yield invalid_word(f"-{key}{value}", (f"{key}{value}",))
    elif value and key == "since:" and parse_time(value, now_ms) is None:
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
