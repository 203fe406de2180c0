"""Finds secrets in text that leaves the store, and replaces each with the name of its kind.

The rules are those of gitleaks (core/data/gitleaks.json says which version) and a few of our
own, for what gitleaks finds in other ways: passwords in addresses and assignments, headers,
and keys that are shorter or longer than today's.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from .sanitize import map_texts

RULES_FILE: Final = Path(__file__).parents[1] / "data" / "gitleaks.json"

KEYWORD_DISTANCE: Final = 400
"""Characters around a keyword in which a secret is looked for whose rule does not begin with the
keyword: the longest rule of gitleaks reads 250 before its end."""


class SecretRule(msgspec.Struct, frozen=True, dict=True):
    """One kind of secret: it is looked for around its keywords alone."""

    id: str
    regex: str
    keywords: tuple[str, ...]
    """In small letters; one of them stands in every text that holds the secret."""
    ignore_case: bool = False
    group: int = 0
    """Which group is the secret; 0 for the first that matched, or for all where there is none."""
    entropy: float = 0.0  # bits a character that a secret has at least
    stopwords: tuple[str, ...] = ()  # what holds one of these is a name, not a secret
    at_keyword: bool = False
    """The expression begins with a keyword: it is tried at those places alone."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression: most rules are never needed."""
        return _compiled(self.regex, re.IGNORECASE if self.ignore_case else 0)

    def secret_in(self, found: re.Match[str]) -> tuple[int, int] | None:
        """Return where in a match the secret stands; None where it is none."""
        groups = range(1, len(found.groups()) + 1)
        group = self.group or next((each for each in groups if found[each]), 0)
        secret = found[group]
        if self.entropy and entropy(secret) < self.entropy:
            return None
        if self.stopwords and not _may_be_secret(secret, self.stopwords):
            return None
        return found.span(group)


class _File(msgspec.Struct):
    rules: list[SecretRule]


_CREDENTIAL_CHARACTER: Final = r"[^\s\"'`,;&<>(){}\[\]$]"
_CREDENTIAL_NAME: Final = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret"
    r"|(?:(?<=api)|(?<=api[_-])|(?<=account)|(?<=account_)|(?<=access)|(?<=access_)"
    r"|(?<=secret)|(?<=secret[_-])|(?<=private[_-]))key"
    r"|(?:(?<=auth)|(?<=auth[_-])|(?<=access)|(?<=access[_-])|(?<=api[_-]))token)[\"']?"
)
_SECRET_NAME_KEYWORDS: Final = ("passw", "passphrase", "pwd", "secret", "key", "token")

_PRIVATE_KEY: Final = (
    r"-----BEGIN[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----[^-]{0,16000}"
    r"(?:-----END[^-]{0,60}-----)?"
)
"""One whose end was cut off is a key all the same."""

_OWN_RULES: Final = tuple(
    SecretRule(name, regex, keywords, ignore_case=ignore_case, at_keyword=True)
    for name, regex, keywords, ignore_case in (
        ("url-password", r"://[^\s/@:\"'<>]{0,200}:([^\s/@\"'<>]{1,300})@", ("://",), False),
        (
            "password",
            _CREDENTIAL_NAME
            + rf"\s{{0,3}}(?:=>?|:=)\s{{0,3}}[\"']?({_CREDENTIAL_CHARACTER}{{4,300}})",
            _SECRET_NAME_KEYWORDS,
            True,
        ),
        (
            "password",
            _CREDENTIAL_NAME + r":\s{0,3}(?:\"([^\s\"]{4,300})\"|'([^\s']{4,300})'"
            rf"|(?=\S{{0,300}}[0-9!@#%^&*+=~?])({_CREDENTIAL_CHARACTER}{{6,300}}))",
            _SECRET_NAME_KEYWORDS,
            True,
        ),
        (
            "authorization",
            r"(?<![\w-])(?:bearer|basic|token)[ \t]{1,4}(?=\D{0,300}\d)([a-z0-9._~+/=-]{16,4000})",
            ("bearer", "basic", "token"),
            True,
        ),
        (
            "user-password",
            r"(?<![\w-])(?:-u|--user)[ \t=]{1,3}[\"']?[^\s:\"']{1,100}:([^\s\"']{3,300})",
            ("-u ", "-u=", "--user"),
            False,
        ),
        ("aws-access-token", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", ("akia", "asia"), False),
        (
            "github-token",
            r"\b(?:gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_\w{20,255})",
            ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
            False,
        ),
        ("anthropic-api-key", r"\bsk-ant-[\w-]{16,255}", ("sk-ant-",), False),
        ("openai-api-key", r"\bsk-(?!ant-)(?=[\w-]{0,300}[0-9])[\w-]{20,300}", ("sk-",), False),
        (
            "jwt",
            r"\beyJ[\w-]{8,4000}\.eyJ[\w-]{8,8000}(?:\.[\w-]{0,2000})?",
            ("eyj",),
            False,
        ),
        (
            "private-key",
            _PRIVATE_KEY,
            ("-----begin",),
            True,
        ),
    )
)
"""Each secret is named by the first rule that finds it."""

_PLACEHOLDERS: Final = re.compile(
    r"(?:none|null|nil|true|false|undefined|str|string|bytes|required|optional|redacted|hidden"
    r"|\*+|x+|\.+|<.*|\$.*|%.*|process\.env.*|os\.environ.*|getenv.*|self\..*|\[redacted.*)",
    re.IGNORECASE,
)
"""What stands where a password would, and is none."""


def redact(text: str) -> str:
    """Replace the secrets in a text by what they are: `[redacted: jwt]`.

    A redacted text has none left. It takes time in proportion to the text.
    """
    found = sorted(_secret_spans(text))
    if not found:
        return text
    parts, stands = [], 0
    for begin, end, name in found:
        if end <= stands:
            continue
        if begin >= stands:
            parts.append(text[stands:begin])
            parts.append(f"[redacted: {name}]")
        stands = end
    return "".join((*parts, text[stands:]))


def find_secrets(text: str) -> set[str]:
    """The secrets of a text, for what is taken out of it: a word alone does not show what it is."""
    return {text[begin:end] for begin, end, _ in _secret_spans(text)}


def redact_value(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Redact every text of a value; its keys stay."""
    return map_texts(redact, value)


def entropy(text: str) -> float:
    """Shannon's entropy of a text, in bits a character."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values()) if size else 0.0


@cache
def secret_rules() -> tuple[SecretRule, ...]:
    """Return all rules, ours first."""
    known = msgspec.json.decode(RULES_FILE.read_bytes(), type=_File).rules
    return (*_OWN_RULES, *known)


@cache
def _by_keyword() -> dict[str, tuple[int, ...]]:
    """Places in `rules()` of the rules that have a keyword."""
    places: dict[str, tuple[int, ...]] = {}
    for place, rule in enumerate(secret_rules()):
        for keyword in rule.keywords:
            places[keyword] = (*places.get(keyword, ()), place)
    return places


def _rules_for(small: str) -> list[SecretRule]:
    """Rules that may find something in a text of small letters; most texts have none."""
    places = {n for keyword, of in _by_keyword().items() if keyword in small for n in of}
    return [secret_rules()[place] for place in sorted(places)]


@cache
def _compiled(regex: str, flags: int) -> re.Pattern[str]:
    return re.compile(regex, flags)


def _secret_spans(text: str) -> Iterator[tuple[int, int, str]]:
    if len(text) < _MIN_TEXT_CHARS:
        return
    small = text.lower()
    if len(small) != len(text):
        # A few letters become two small ones; the places would be others.
        small = text.translate(_ASCII_LOWERCASE)
    for rule in _rules_for(small):
        for match in _matches(rule, text, small):
            span = rule.secret_in(match)
            if span and not _PLACEHOLDERS.fullmatch(text, *span):
                yield (*span, rule.id)


def _matches(rule: SecretRule, text: str, small: str) -> Iterator[re.Match[str]]:
    places = [place for keyword in rule.keywords for place in _keyword_places(small, keyword)]
    if not places:
        return
    if rule.at_keyword:
        yield from filter(None, (rule.pattern.match(text, place) for place in places))
        return
    for begin, end in _joined_windows(sorted(places)):
        yield from rule.pattern.finditer(text, begin, end)


_MIN_TEXT_CHARS: Final = 10  # a keyword and a secret
_ASCII_LOWERCASE: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _joined_windows(places: list[int]) -> Iterator[tuple[int, int]]:
    """Join what is looked at around places; what is cut there was too long for the rule."""
    begin = end = -1
    for place in places:
        if place - KEYWORD_DISTANCE > end:
            if end >= 0:
                yield begin, end
            begin = max(0, place - KEYWORD_DISTANCE)
        end = place + KEYWORD_DISTANCE
    yield begin, end


def _keyword_places(small: str, keyword: str) -> Iterator[int]:
    place = small.find(keyword)
    while place >= 0:
        yield place
        place = small.find(keyword, place + len(keyword))


def _may_be_secret(secret: str, stopwords: tuple[str, ...]) -> bool:
    if not any(map(str.isdigit, secret)):
        return False
    small = secret.lower()
    return not any(word in small for word in stopwords)
