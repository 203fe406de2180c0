"""Finds secrets in text that leaves the store, and replaces each with the name of its kind.

The rules are those of gitleaks (core/data/gitleaks.json names the version) and a few of our own
for what gitleaks finds in other ways: passwords in addresses and assignments, headers, and keys
that are shorter or longer than today's.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
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


_CREDENTIAL_NAME: Final = (
    r"(?:passw(?:or)?d|passphrase|secret"
    # The working directory has this name more often than a password.
    r"|pwd(?![\"']?\s{0,3}(?::=?|=)\s{0,3}[\"']?(?:[*~/.]|[a-z]:[\\/]|\w{1,60}\.\w))"
    r"|(?:(?<=api)|(?<=api[_-])|(?<=account)|(?<=account_)|(?<=access)|(?<=access_)"
    r"|(?<=secret)|(?<=secret[_-])|(?<=private)|(?<=private[_-]))key"
    r"|(?:(?<=auth)|(?<=auth[_-])|(?<=access)|(?<=access[_-])|(?<=api[_-])|(?<=refresh[_-])"
    r"|(?<=session[_-])|(?<=private[_-]))token)[\"']?"
)
_SECRET_NAME_KEYWORDS: Final = ("passw", "passphrase", "pwd", "secret", "key", "token")
_QUOTED: Final = r"\"([^\s\"]{4,300})\"|'([^\s']{4,300})'"
_VALUE_CHARACTER: Final = r"[^\s\"'`,;&<>(){}\[\]]"
_CREDENTIAL: Final = rf"(?!\$){_VALUE_CHARACTER}"  # its first; a variable has a `$` in front
_ARGUMENT: Final = r"(?:\"([^\"\n]{3,300})\"|'([^'\n]{3,300})'|([^\s\"'|;<>-][^\s\"'|;<>]{2,300}))"
_WORDS_BEHIND_IS: Final = (
    "a|also|always|an|as|asked|being|derived|empty|encrypted|for|from|generated|hashed|in|incorrect"
    "|invalid|kept|missing|my|needed|never|no|not|now|on|only|optional|read|required|sent|set|still"
    "|stored|that|the|then|this|to|too|used|what|which|wrong|your"
)
"""What a sentence about a passphrase goes on with, and no passphrase begins with."""

_HAS_SIGN: Final = r"(?=[^\s\"']{0,300}(?:[0-9]|[!@#%^&*+=~?$]\w))"
"""Tells a password from a word, before which the same names stand."""


def _own_rule(id: str, regex: str, *keywords: str, ignore_case: bool = False) -> SecretRule:  # noqa: A002
    return SecretRule(id, regex, keywords, ignore_case=ignore_case, at_keyword=True)


_TOKEN_PREFIXES: Final = {
    "apify-token": ("apify_api_",),
    "bitbucket-token": ("ATBB",),
    "buildkite-token": ("bkua_",),
    "cerebras-api-key": ("csk-",),
    "docker-token": ("dckr_pat_", "dckr_oat_"),
    "figma-token": ("figd_",),
    "fireworks-api-key": ("fw_",),
    "google-token": ("ya29.", "1//0", "GOCSPX-"),
    "groq-api-key": ("gsk_",),
    "huggingface-token": ("hf_",),
    "langsmith-api-key": ("lsv2_",),
    "mailgun-api-key": ("key-",),
    "neon-api-key": ("napi_",),
    "netlify-token": ("nfp_",),
    "new-relic-api-key": ("NRAK-",),
    "notion-token": ("ntn_",),
    "nvidia-api-key": ("nvapi-",),
    "pinecone-api-key": ("pcsk_",),
    "posthog-api-key": ("phx_",),
    "render-api-key": ("rnd_",),
    "replicate-token": ("r8_",),
    "resend-api-key": ("re_",),
    "secret-key": ("sk_",),
    "stripe-webhook-secret": ("whsec_",),
    "supabase-key": ("sbp_", "sb_secret_"),
    "tailscale-key": ("tskey-",),
    "tavily-api-key": ("tvly-",),
    "together-api-key": ("tgp_v1_",),
    "xai-api-key": ("xai-",),
}
"""Services whose keys gitleaks does not know by their beginning alone; the documentation of each
names it."""


def _prefix_rule(name: str, prefixes: tuple[str, ...]) -> SecretRule:
    # Names in code have no sixteen letters and digits without a hyphen or underscore in a row.
    regex = rf"(?<![\w-])(?:{'|'.join(map(re.escape, prefixes))})(?=[\w-]{{0,40}}[a-zA-Z0-9]{{16}})"
    keywords = tuple(each.lower() for each in prefixes)
    return SecretRule(name, regex + r"(?=[\w-]{0,40}[0-9])[\w-]{20,300}", keywords, at_keyword=True)


_OWN_RULES: Final = (
    _own_rule(
        "url-password",
        r"://(?:[^\s/@:\"'<>]{0,200}:([^\s/@\"'<>]{1,300})|((?=\D{0,300}\d)[\w-]{20,300}))@",
        "://",
    ),
    _own_rule(
        "password",
        rf"{_CREDENTIAL_NAME}\s{{0,3}}(?:=>?|:=)\s{{0,3}}(?:{_QUOTED}"
        # What goes on with a bracket is a call.
        rf"|[\"']?({_CREDENTIAL}{_VALUE_CHARACTER}{{3,300}}+)(?![(\[]))",
        *_SECRET_NAME_KEYWORDS,
        ignore_case=True,
    ),
    _own_rule(
        "password",
        rf"{_CREDENTIAL_NAME}:\s{{0,3}}(?:{_QUOTED}"
        rf"|(?=\S{{0,300}}[0-9!@#%^&*+=~?])({_CREDENTIAL}{_VALUE_CHARACTER}{{5,300}}))",
        *_SECRET_NAME_KEYWORDS,
        ignore_case=True,
    ),
    _own_rule(
        "password",
        r"(?:pass ?phrase|password|passcode)\s{1,3}(?:is|was)\s{1,3}"
        r"(?:\"([^\"\n]{4,200})\"|`([^`\n]{4,200})`|'([^'\n]{4,200})'"
        rf"|(?!(?:md5|sha|base|utf|aes)-?\d){_HAS_SIGN}({_VALUE_CHARACTER}{{3,299}}[^\s.,:;!?)]))",
        *("passphrase", "pass phrase", "password is", "password was", "passcode"),
        ignore_case=True,
    ),
    _own_rule(
        "passphrase",  # four words or more, which no other rule takes for a secret
        r"(?:pass ?phrase|(?:seed|recovery|mnemonic) phrase)"
        r"(?:\s{1,3}is\s|[\"']?\s{0,2}[:=])\s{0,2}[\"']?"
        rf"(?!(?:{_WORDS_BEHIND_IS})\b)([a-z]{{2,20}}(?:[ -][a-z]{{2,20}}){{3,24}})",
        *("passphrase", "pass phrase", "seed phrase", "recovery phrase", "mnemonic phrase"),
        ignore_case=True,
    ),
    _own_rule(
        "password",
        r"(?<![\w-])--(?:[a-z]{1,20}[-_]){0,3}(?:password|passwd|passphrase|pass|secret|token"
        r"|api[-_]?key|access[-_]?key|secret[-_]?key)(?:=|\s{1,3})(?!id=)"
        r"(?:\"([^\"\n]{4,300})\"|'([^'\n]{4,300})'"
        # A word, as in a sentence, is a password if an option or the line's end follows.
        rf"|(?!-)(?:{_HAS_SIGN}|(?=\S{{4,300}}[ \t]*(?:[ \t]--?\w|\n|$)))"
        rf"({_VALUE_CHARACTER}{{4,300}}))",
        "--",
        ignore_case=True,
    ),
    _own_rule(
        "password",
        rf"(?:mysql|mariadb)[\w-]{{0,12}}[ \t][^\n|;]{{0,200}}?(?<=\s)-p{_ARGUMENT}",
        *("mysql", "mariadb"),
    ),
    _own_rule(
        "password",
        rf"redis-cli[ \t][^\n|;]{{0,200}}?(?<=\s)-a[ \t]{{1,3}}{_ARGUMENT}",
        "redis-cli",
    ),
    _own_rule("password", rf"sshpass[ \t]{{1,3}}-p[ \t]{{0,3}}{_ARGUMENT}", "sshpass"),
    _own_rule(
        "password",
        r"(?:(?<=docker )|(?<=podman )|(?<=registry )|(?<=nerdctl ))login[ \t][^\n|;]{0,200}?"
        rf"(?<=\s)-p[ \t]{{1,3}}{_ARGUMENT}",
        "login",
    ),
    _own_rule(
        "netrc-password",
        r"login\s{1,9}\S{1,200}\s{1,9}(?:account\s{1,9}\S{1,200}\s{1,9})?password\s{1,9}(\S{2,300})",
        "login",
    ),
    SecretRule(
        "pgpass-password",
        r"(?<![\w*.-])[\w*.-]{1,200}:(?:\d{2,5}|\*):[^:\s]{1,100}:[^:\s]{1,100}:([^\s:\"']{3,300})",
        (":5432:", ":5433:", ":6432:", ":*:", "pgpass"),
    ),
    _own_rule(
        "cookie",
        r"cookie[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
        # At least one of the values is long: `theme=dark` alone is no secret.
        r"(?=(?:[\w.%-]{1,100}=[^\s;\"']{0,300};[ ]?){0,30}[\w.%-]{1,100}=[^\s;\"']{16})"
        r"((?:[\w.%-]{1,100}=[^\s;\"']{0,4000}(?:;[ ]?)?){1,60})",
        "cookie",
        ignore_case=True,
    ),
    _own_rule(
        "session-cookie",
        r"(?:phpsessid|jsessionid|connect\.sid|asp\.net_sessionid|laravel_session)=([^\s;&\"']{8,4000})",
        *("phpsessid", "jsessionid", "connect.sid", "asp.net_sessionid", "laravel_session"),
        ignore_case=True,
    ),
    _own_rule(
        "signature",
        r"(?:(?<=[?&;])|(?<=x-amz-)|(?<=x-goog-))(?:sig|signature|token|security-token|key|auth)="
        r"([\w%.~+/=-]{16,4000})",
        *("sig=", "signature=", "token=", "key=", "auth="),
        ignore_case=True,
    ),
    _own_rule(
        "docker-auth",
        r"auth\"\s{0,3}:\s{0,3}\"(?=[^\"]{0,300}[0-9=])([\w+/=-]{16,4000})\"",
        'auth"',
    ),
    _own_rule(
        "password-hash",
        r"\$(?:[156y]|2[abxy]|argon2(?:id?|d))\$([\w./$=,+-]{20,300})",
        *("$1$", "$5$", "$6$", "$y$", "$2a$", "$2b$", "$2x$", "$2y$", "$argon2"),
    ),
    _own_rule("telegram-token", r"(?<=\d):(AA[\w-]{30,40})(?![\w-])", ":aa"),
    _own_rule("discord-webhook", r"/api/webhooks/\d{5,25}/([\w-]{20,100})", "/api/webhooks/"),
    *(_prefix_rule(name, prefixes) for name, prefixes in _TOKEN_PREFIXES.items()),
    _own_rule(
        "authorization",
        r"(?<![\w-])(?:bearer|basic|token)[ \t]{1,4}(?=\D{0,300}\d)([a-z0-9._~+/=-]{16,4000})",
        *("bearer", "basic", "token"),
        ignore_case=True,
    ),
    _own_rule(
        "user-password",
        r"(?<![\w-])(?:-u|--user)[ \t=]{1,3}[\"']?(?![a-zA-Z]:[\\/]|\d{1,9}:\d{1,9}\b)"
        r"[^\s:\"']{1,100}:([^\s\"']{3,300})",
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
        parts, position, size = [], 0, 0
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
