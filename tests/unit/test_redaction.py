"""Secrets in texts that leave the store: found, named, and gone, in time that grows evenly."""

from __future__ import annotations

import re

import pytest
from ctxtop.core.transcript.redaction import redact, redact_value, secret_rules

from ..made_up_secrets import SECRETS as MADE_UP
from ..made_up_secrets import TELLTALES
from ..processor_time import thread_seconds

SECRETS = MADE_UP | {
    "github-token": "github_pat_" + "11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123456789",
    "openai-api-key": "sk-proj-" + "a1B2c3D4e5" * 5,
    "private-key ": "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjE" * 40,
    "password ": "Server=db;User Id=sa;Password=Hunter2!x;Encrypt=yes",
    "password  ": '{"password": "hunter2hunter2"}',
    "authorization": "Authorization: Bearer abcdef0123456789ABCDEF",
    "slack-bot-token": "xoxb-" + "123456789012-1234567890123-abcdefghijklmnopqrstuvwx",
    "user-password": "curl -u admin:passw0rd https://example.com",
}

PARTS = TELLTALES | {
    "password ": "Hunter2!x",
    "password  ": "hunter2hunter2",
    "authorization": "abcdef0123456789",
    "user-password": "passw0rd",
}
"""What of them is the secret, where the rest may stay."""


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_replaced_by_what_it_is(name: str) -> None:
    found = redact(f"before {SECRETS[name]} behind")

    assert f"[redacted: {name.strip()}]" in found
    assert PARTS.get(name, SECRETS[name][12:40]) not in found
    assert found.startswith("before ")
    assert redact(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "The token budget is 2000 and password: the user must set it.",
        "def f(password: str, token=None): return os.environ['API_KEY']",
        "context_tokens=180000, max_tokens: 4096, auth: auth_handler_v2.py, secret: None",
        "agent a1 of 11111111-2222-4333-8444-555555555555 in src/key_rows.py:120",
        "sha256 is 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "see https://example.com/a:b@c and mailto:x@example.com; sort(key=itemgetter(1))",
        "👩\u200d💻 İ password",
        "",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_letters_that_grow_when_they_are_made_small_move_nothing() -> None:
    assert redact("İİİ password=hunter2") == "İİİ password=[redacted: password]"


def test_every_text_of_a_record_and_no_key() -> None:
    given = {"password=hunter2": ["password=hunter2", 3, None, ("PASSWORD=hunter2",)]}

    assert redact_value(given) == {
        "password=hunter2": [
            "password=[redacted: password]",
            3,
            None,
            ["PASSWORD=[redacted: password]"],
        ]
    }


def test_every_rule_can_be_compiled_and_has_keywords() -> None:
    assert len(secret_rules()) > 200
    for rule in secret_rules():
        assert rule.pattern.pattern == rule.regex
        assert rule.keywords
        assert all(each == each.lower() for each in rule.keywords)


def test_ten_times_the_text_takes_about_ten_times_as_long() -> None:
    words = "the key of the token is access: password and api = secret, auth "
    hostile = ("key=", "password=", "bearer a", "://a:", "eyJa", "sk-a", "-----BEGIN a", "token: ")
    for text in (words, *hostile):
        small, large = (
            _seconds(text * (20_000 // len(text))),
            _seconds(text * (200_000 // len(text))),
        )
        assert large < max(40 * small, 1.0), text


def _seconds(text: str) -> float:
    return thread_seconds(lambda: redact(text))


def test_no_rule_reads_on_without_a_bound() -> None:
    """A star or a plus over anything, which a hostile text makes quadratic."""
    unbounded = [rule.id for rule in secret_rules() if re.search(r"(?<!\\)\.[*+]", rule.regex)]

    assert unbounded == []
