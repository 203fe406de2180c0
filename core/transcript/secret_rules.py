"""Rules by which secrets are found: those of gitleaks, and ours for what it finds in other ways.

core/data/gitleaks.json names the version. Ours find passwords in addresses, assignments, options
and sentences, headers, cookies, and keys that are shorter or longer than today's.
"""

import math
import re
from collections import Counter
from functools import cache, cached_property
from pathlib import Path
from typing import Final

import msgspec

RULES_FILE: Final = Path(__file__).parents[1] / "data" / "gitleaks.json"


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
"""How a sentence about a passphrase continues, and no passphrase begins."""

_HAS_SIGN: Final = r"(?=[^\s\"']{0,300}(?:[0-9]|[!@#%^&*+=~?$]\w))"
"""Distinguishes a password from a word that follows the same names."""


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
        # A name before a parenthesis is a call.
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


def entropy(text: str) -> float:
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values()) if size else 0.0


@cache
def secret_rules() -> tuple[SecretRule, ...]:
    """Return all rules, ours first."""
    gitleaks = msgspec.json.decode(RULES_FILE.read_bytes(), type=_RulesFile)
    return (*_OWN_RULES, *gitleaks.rules)
