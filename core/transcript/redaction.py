"""Finds secrets in text that leaves the store, and replaces each with the name of its kind.

The rules are those of gitleaks (core/data/gitleaks.json names the version) and a few of our own
for what gitleaks finds in other ways: passwords in addresses and assignments, headers, and keys
that are shorter or longer than today's.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from .sanitize import map_texts

RULES_FILE: Final = Path(__file__).parents[1] / "data" / "gitleaks.json"

KEYWORD_DISTANCE: Final = 400
"""Characters around a keyword that are searched if the rule does not begin with the keyword: the
longest rule of gitleaks reads 250 before its end."""


class SecretRule(msgspec.Struct, frozen=True, dict=True):
    """One kind of secret; only the text around its keywords is searched."""

    id: str
    regex: str
    keywords: tuple[str, ...]  # lower case; every text that holds the secret has one of them
    ignore_case: bool = False
    group: int = 0  # the secret's group; 0 for the first that matched, or the whole match
    entropy: float = 0.0  # minimum bits per character
    stopwords: tuple[str, ...] = ()  # a match with one of these is a name, not a secret
    at_keyword: bool = False  # the expression begins with a keyword: try it only there

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        # Compiled on demand: most rules are never needed.
        return re.compile(self.regex, re.IGNORECASE if self.ignore_case else 0)

    def secret_span(self, match: re.Match[str]) -> tuple[int, int] | None:
        """Return where the secret is in the text; None if the match is not a secret."""
        groups = range(1, len(match.groups()) + 1)
        group = self.group or next((each for each in groups if match[each]), 0)
        secret = match[group]
        if self.entropy and entropy(secret) < self.entropy:
            return None
        if self.stopwords:
            lower = secret.lower()
            has_digit = any(map(str.isdigit, secret))
            if not has_digit or any(word in lower for word in self.stopwords):
                return None
        return match.span(group)


class _RulesFile(msgspec.Struct):
    rules: list[SecretRule]


_CREDENTIAL_CHARACTER: Final = r"[^\s\"'`,;&<>(){}\[\]$]"
_CREDENTIAL_NAME: Final = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret"
    r"|(?:(?<=api)|(?<=api[_-])|(?<=account)|(?<=account_)|(?<=access)|(?<=access_)"
    r"|(?<=secret)|(?<=secret[_-])|(?<=private[_-]))key"
    r"|(?:(?<=auth)|(?<=auth[_-])|(?<=access)|(?<=access[_-])|(?<=api[_-]))token)[\"']?"
)
_SECRET_NAME_KEYWORDS: Final = ("passw", "passphrase", "pwd", "secret", "key", "token")


def _own_rule(id: str, regex: str, *keywords: str, ignore_case: bool = False) -> SecretRule:  # noqa: A002
    return SecretRule(id, regex, keywords, ignore_case=ignore_case, at_keyword=True)


_OWN_RULES: Final = (
    _own_rule("url-password", r"://[^\s/@:\"'<>]{0,200}:([^\s/@\"'<>]{1,300})@", "://"),
    _own_rule(
        "password",
        rf"{_CREDENTIAL_NAME}\s{{0,3}}(?:=>?|:=)\s{{0,3}}[\"']?({_CREDENTIAL_CHARACTER}{{4,300}})",
        *_SECRET_NAME_KEYWORDS,
        ignore_case=True,
    ),
    _own_rule(
        "password",
        _CREDENTIAL_NAME + r":\s{0,3}(?:\"([^\s\"]{4,300})\"|'([^\s']{4,300})'"
        rf"|(?=\S{{0,300}}[0-9!@#%^&*+=~?])({_CREDENTIAL_CHARACTER}{{6,300}}))",
        *_SECRET_NAME_KEYWORDS,
        ignore_case=True,
    ),
    _own_rule(
        "authorization",
        r"(?<![\w-])(?:bearer|basic|token)[ \t]{1,4}(?=\D{0,300}\d)([a-z0-9._~+/=-]{16,4000})",
        *("bearer", "basic", "token"),
        ignore_case=True,
    ),
    _own_rule(
        "user-password",
        r"(?<![\w-])(?:-u|--user)[ \t=]{1,3}[\"']?[^\s:\"']{1,100}:([^\s\"']{3,300})",
        *("-u ", "-u=", "--user"),
    ),
    _own_rule("aws-access-token", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", "akia", "asia"),
    _own_rule(
        "github-token",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_\w{20,255})",
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    _own_rule("anthropic-api-key", r"\bsk-ant-[\w-]{16,255}", "sk-ant-"),
    _own_rule("openai-api-key", r"\bsk-(?!ant-)(?=[\w-]{0,300}[0-9])[\w-]{20,300}", "sk-"),
    _own_rule("jwt", r"\beyJ[\w-]{8,4000}\.eyJ[\w-]{8,8000}(?:\.[\w-]{0,2000})?", "eyj"),
    _own_rule(
        "private-key",
        # A key whose end was cut off is still a key.
        r"-----BEGIN[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----[^-]{0,16000}"
        r"(?:-----END[^-]{0,60}-----)?",
        "-----begin",
        ignore_case=True,
    ),
)
"""A secret gets the name of the first rule that finds it."""

_PLACEHOLDERS: Final = re.compile(
    r"(?:none|null|nil|true|false|undefined|str|string|bytes|required|optional|redacted|hidden"
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
    """Return a text's secrets, for excerpts of it: a word by itself is not recognised."""
    return {text[begin:end] for begin, end, _ in _secret_spans(text)}


def redact_value(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    return map_texts(redact, value)


def entropy(text: str) -> float:
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values()) if size else 0.0


@cache
def secret_rules() -> tuple[SecretRule, ...]:
    """Return all rules, ours first."""
    gitleaks = msgspec.json.decode(RULES_FILE.read_bytes(), type=_RulesFile)
    return (*_OWN_RULES, *gitleaks.rules)


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
    lower = text.lower()
    if len(lower) != len(text):
        # A few letters have two lower-case ones, which would move all places.
        lower = text.translate(_ASCII_LOWERCASE)
    places = {n for keyword, of in _places_by_keyword().items() if keyword in lower for n in of}
    for rule in (secret_rules()[place] for place in sorted(places)):
        for match in _matches(rule, text, lower):
            span = rule.secret_span(match)
            if span and not _PLACEHOLDERS.fullmatch(text, *span):
                yield (*span, rule.id)


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
