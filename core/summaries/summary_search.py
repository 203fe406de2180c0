"""Searches agents' results and summaries: the query language, and the matches in the store.

No query is an error: what is no filter is a word, and a filter with an invalid value is
reported and left out.
"""

import re
from functools import lru_cache
from itertools import islice
from typing import Final

import msgspec

from ..model.stored_rows import SummaryRow
from ..transcript.filter_language import (
    TIME_CHOICES,
    fold_text,
    invalid_word,
    parse_time,
    readable_filter,
    split_filter,
    values_beginning_with,
)
from .summary_facts import QuotedAnchor

PLAN_KIND: Final = "plan"  # of what ctxtop wrote, held by a receipt, and of plans made in plan mode
RULE_KIND: Final = "rule"  # what a person told the model to do: listed only if it is asked for
SUMMARY_KINDS: Final = ("agent", "boundary", PLAN_KIND, RULE_KIND)  # the client writes a boundary
FILTER_NAMES: Final = ("kind", "type", "project", "since", "session")

MAX_TERMS: Final = 32  # more are ignored: nobody types them, and each is a search of its own
MAX_HITS: Final = 5_000  # of one text; more are neither marked nor counted

_TOKEN: Final = re.compile(r"[^\W_]+")


class SearchTerm(msgspec.Struct, frozen=True):
    """A word by its beginning, or a phrase of whole words."""

    text: str
    matches_whole_words: bool = False  # its last word is not the beginning of a longer one

    @property
    def fts_expression(self) -> str:
        quoted = '"' + self.text.replace('"', '""') + '"'
        return quoted if self.matches_whole_words else f"{quoted}*"

    @property
    def pattern(self) -> str:
        """Match it in a folded text as FTS5's tokenizer unicode61 does."""
        words = [re.escape(word) for word in _TOKEN.findall(fold_text(self.text))]
        end = r"(?![^\W_])" if self.matches_whole_words else r"[^\W_]*"
        return r"(?<![^\W_])" + r"[\W_]+".join(words) + end


class SummaryQuery(msgspec.Struct, frozen=True):
    """A parsed query; all conditions must be met."""

    terms: tuple[SearchTerm, ...] = ()
    excluded: tuple[SearchTerm, ...] = ()
    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = ()  # parts of agent types, one of which must match
    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()  # beginnings of ids
    since: int | None = None  # milliseconds since 1970
    problems: tuple[str, ...] = ()  # invalid filters, a line each

    @property
    def fts_match(self) -> str:
        """The FTS5 expression of the required terms; empty if there are none."""
        return " AND ".join(term.fts_expression for term in self.terms)

    @property
    def fts_exclude(self) -> str:
        """The FTS5 expression of the excluded terms; empty if there are none."""
        return " OR ".join(term.fts_expression for term in self.excluded)

    def hits(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each match of a term, at most MAX_HITS."""
        if not self.terms:
            return []
        pattern = _hits_pattern(tuple(term.pattern for term in self.terms))
        return [hit.span() for hit in islice(pattern.finditer(fold_text(text)), MAX_HITS)]

    def matches(self, text: str) -> bool:
        """Whether a text that is not indexed has all required terms and no excluded ones."""
        folded = fold_text(text)
        return all(re.search(term.pattern, folded) for term in self.terms) and not any(
            re.search(term.pattern, folded) for term in self.excluded
        )


def parse_summary_query(typed: str, now_ms: int) -> SummaryQuery:
    """Parse what was typed; `now_ms` is what `since:` counts from."""
    terms: list[SearchTerm] = []
    excluded: list[SearchTerm] = []
    values: dict[str, list[str]] = {name: [] for name in FILTER_NAMES}
    problems: list[str] = []
    since: int | None = None
    for word in split_filter(readable_filter(typed))[:MAX_TERMS]:
        name, value = word.key.removesuffix(":"), word.value
        if name not in FILTER_NAMES or word.is_negated:
            if _TOKEN.search(word.text):
                term = SearchTerm(word.text, word.is_quoted)
                (excluded if word.is_negated else terms).append(term)
        elif not value:
            # Its value is still being typed.
            continue
        elif name == "since":
            at = parse_time(value, now_ms)
            problems += [] if at is not None else [_invalid_value(name, value)]
            since = at if since is None else max(since, at or since)
        elif name == "kind" and not values_beginning_with(SUMMARY_KINDS, [value.casefold()]):
            problems.append(_invalid_value(name, value))
        else:
            values[name].append(value.casefold())
    return SummaryQuery(
        terms=tuple(terms),
        excluded=tuple(excluded),
        kinds=values_beginning_with(SUMMARY_KINDS, values["kind"]),
        types=tuple(values["type"]),
        projects=tuple(values["project"]),
        sessions=tuple(values["session"]),
        since=since,
        problems=tuple(problems),
    )


@lru_cache(maxsize=8)
def _hits_pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


def _invalid_value(name: str, value: str) -> str:
    return invalid_word(f"{name}:{value}", TIME_CHOICES if name == "since" else SUMMARY_KINDS)


class PlanSummary(msgspec.Struct, frozen=True):
    """A summary or a hand-off that a receipt holds."""

    row: SummaryRow  # its id is negative: it is no row of the store
    uuid: str  # of the line that it became: if the store has that line too, it is shown once
    receipt_id: str
    operation_number: int  # counted from 0
    strategy: str
    undone: bool
    transcript: str  # path of what it was made of
    base_bytes: int  # of the transcript as it was
    before_tokens: int
    after_tokens: int
    kept_uuids: tuple[str, ...] = ()  # messages that it keeps as they are, by uuid
    description: str = ""  # of its operation
    anchors: tuple[QuotedAnchor, ...] = ()  # that it quotes


class SummaryCriteria(msgspec.Struct, frozen=True):
    query: str = ""
    kind: str | None = None
    agent_type: str | None = None
    project: str | None = None
    since: int | None = None  # milliseconds since 1970
    session_id: str | None = None


class SummaryMatches(msgspec.Struct, frozen=True):
    """The places of all matches, newest first, without their texts."""

    search: SummaryQuery
    places: tuple[tuple[int, int], ...] = ()
    """Id, and time in ms since 1970 (0 if unknown); a plan's id is negative."""
    is_cut: bool = False  # there are more

    @property
    def ids(self) -> list[int]:
        return [summary_id for summary_id, _ in self.places]
