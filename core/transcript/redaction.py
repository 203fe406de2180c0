"""Finds secrets in text that leaves the store, and replaces each with the name of its kind."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from .sanitize import map_texts
from .secret_rules import SecretRule, secret_rules

KEYWORD_DISTANCE: Final = 400
"""Characters around a keyword that are searched if the rule does not begin with the keyword: the
longest rule of gitleaks reads 250 before its end."""


_PLACEHOLDERS: Final = re.compile(
    r"(?:none|null|nil|true|false|undefined|str|string|bytes|required|optional|redacted|hidden"
    r"|(?-i:[A-Z_]*(?:KEY|TOKEN|SECRET|PASS|PASSWORD|PWD|VALUE)[A-Z_]*)"
    r"|\*+|x+|\.+|<.*|\$.*|%.*|process\.env.*|os\.environ.*|getenv.*|self\..*|\[redacted.*)",
    re.IGNORECASE,
)
"""Values in a password's place that are no password."""


def redact(text: str) -> str:
    """Replace each secret with the name of its kind: `[redacted: jwt]`.

    A redacted text has no secrets left. Takes time in proportion to the text's length.
    """
    parts, position = [], 0
    for begin, end, name in sorted(_secret_spans(text)):
        if end <= position:
            continue
        if begin >= position:
            parts.append(text[position:begin])
            parts.append(f"[redacted: {name}]")
        position = end
    return "".join((*parts, text[position:]))


def find_secrets(text: str) -> set[str]:
    """Return a text's secrets, for excerpts of it: a word by itself is not recognized."""
    return {text[begin:end] for begin, end, _ in _secret_spans(text)}


def redact_value(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    return map_texts(redact, value)


@cache
def _places_by_keyword() -> dict[str, list[int]]:
    """Map each keyword to the places of its rules in `secret_rules()`."""
    places: dict[str, list[int]] = {}
    for place, rule in enumerate(secret_rules()):
        for keyword in rule.keywords:
            places.setdefault(keyword, []).append(place)
    return places


_MIN_TEXT_CHARS: Final = 10  # a keyword and a secret
_ASCII_LOWERCASE: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _secret_spans(text: str) -> Iterator[tuple[int, int, str]]:
    if len(text) < _MIN_TEXT_CHARS:
        return
    places = sorted({place for of in _present_keywords(_lowercase(text)) for place in of})
    rules = [secret_rules()[place] for place in places]
    yield from _spans_of(rules, text)
    if rules and "\\" in text:
        # As JSON in JSON writes it, `{\"api_key\":\"…\"}`.
        plain = _Unescaped(text)
        for begin, end, name in _spans_of(rules, plain.text):
            yield plain.place(begin), plain.place(end), name


def _spans_of(rules: Iterable[SecretRule], text: str) -> Iterator[tuple[int, int, str]]:
    lower = _lowercase(text)
    for rule in rules:
        for match in _matches(rule, text, lower):
            span = rule.secret_span(match)
            if span and not _PLACEHOLDERS.fullmatch(text, *span):
                yield (*span, rule.id)


def _lowercase(text: str) -> str:
    lower = text.lower()
    # A few letters have two lower-case ones, which would move all places.
    return lower if len(lower) == len(text) else text.translate(_ASCII_LOWERCASE)


_ESCAPES: Final = re.compile(r"\\+(?:([\"'/])|([nrt])|u00(2[267]|3[cde]))", re.IGNORECASE)


class _Unescaped:
    """A text in which an escaped quote, at any depth, is a quote, and an escaped newline one."""

    def __init__(self, text: str) -> None:
        self._ends: Final[list[int]] = []  # in the unescaped text
        self._removed: Final[list[int]] = [0]
        parts: list[str] = []
        position = size = 0
        for match in _ESCAPES.finditer(text):
            quote, _, code = match.groups()
            parts += text[position : match.start()], quote or (chr(int(code, 16)) if code else "\n")
            size += match.start() - position + 1
            position = match.end()
            self._ends.append(size)
            self._removed.append(position - size)
        self.text: Final = "".join((*parts, text[position:]))

    def place(self, place: int) -> int:
        """Return where a place of the unescaped text is in the text."""
        return place + self._removed[bisect_right(self._ends, place)]


_BY_FREQUENCY: Final = "etaoinsrhldcumfpgywbvkxjqz"
"""The letters, the one that English has most often first; signs and digits are rarer."""


class _Keyword(msgspec.Struct, frozen=True):
    text: str
    pairs: frozenset[int]  # of neighboring characters
    places: list[int]  # of its rules in `secret_rules()`


@cache
def _keywords_by_pair() -> dict[int, list[_Keyword]]:
    """Map the rarest two neighboring characters of each keyword to the keywords."""
    by_pair: dict[int, list[_Keyword]] = {}
    for keyword, places in _places_by_keyword().items():
        pairs = [keyword[start : start + 2] for start in range(len(keyword) - 1)]
        found = _Keyword(keyword, frozenset(map(_pair_code, pairs)), places)
        by_pair.setdefault(_pair_code(max(pairs, key=_rarity)), []).append(found)
    return by_pair


def _rarity(pair: str) -> int:
    return sum(_BY_FREQUENCY.find(each) % len(_BY_FREQUENCY) for each in pair)


def _pair_code(pair: str) -> int:
    return memoryview(pair.encode()).cast("H")[0]


def _present_keywords(lower: str) -> Iterator[list[int]]:
    """Yield the places of the rules whose keywords a text has.

    Most texts have few of the pairs: this takes a third of looking for each keyword.
    """
    by_pair = _keywords_by_pair()
    data = memoryview(lower.encode("ascii", "replace"))
    even, odd = len(data) & ~1, (len(data) - 1) & ~1
    pairs = {*data[:even].cast("H"), *data[1 : odd + 1].cast("H")}
    for pair in pairs.intersection(by_pair):
        for keyword in by_pair[pair]:
            if keyword.pairs <= pairs and keyword.text in lower:
                yield keyword.places


def _matches(rule: SecretRule, text: str, lower: str) -> Iterator[re.Match[str]]:
    places = [place for keyword in rule.keywords for place in _keyword_places(lower, keyword)]
    if not places:
        return
    if rule.at_keyword:
        yield from filter(None, (rule.pattern.match(text, place) for place in places))
        return
    for begin, end in _joined_windows(sorted(places)):
        yield from rule.pattern.finditer(text, begin, end)


def _joined_windows(places: list[int]) -> Iterator[tuple[int, int]]:
    """Join the windows around keywords; a match that a window cuts is too long for its rule."""
    begin = end = -1
    for place in places:
        if place - KEYWORD_DISTANCE > end:
            if end >= 0:
                yield begin, end
            begin = max(0, place - KEYWORD_DISTANCE)
        end = place + KEYWORD_DISTANCE
    yield begin, end


def _keyword_places(lower: str, keyword: str) -> Iterator[int]:
    place = lower.find(keyword)
    while place >= 0:
        yield place
        place = lower.find(keyword, place + len(keyword))
