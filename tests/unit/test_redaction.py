"""Secrets in texts that leave the store: found, named, and gone, in time that grows evenly."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.core.transcript.redaction import find_secrets, redact, redact_value
from ctxtop.core.transcript.secret_rules import secret_rules

from ..made_up_secrets import ALL_OF_THEM, KINDS, TELLTALES, told_in
from ..made_up_secrets import SECRETS as MADE_UP
from ..processor_time import thread_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST_KINDS: Final = 56

FORMS: Final[dict[str, Callable[[str], str]]] = {
    "as it is": str,
    "in code": lambda text: f"```sh\n{text}\n```",
    "in JSON": json.dumps,
    "in JSON in JSON": lambda text: json.dumps(json.dumps({"stdout": f"ok\n{text}\nend"})),
    "in a table": lambda text: f"| `{text}` | x |",
    "behind text": lambda text: "İ" * 500 + f"\n{text}",
}
"""How a text comes to stand in a transcript."""

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


def test_at_least_so_many_kinds_are_listed() -> None:
    assert len(KINDS) >= LEAST_KINDS
    assert all(kind.telltale in kind.text for kind in KINDS.values())
    assert told_in(ALL_OF_THEM) == set(KINDS)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", KINDS)
def test_no_kind_of_secret_passes_in_any_form(name: str, form: str) -> None:
    kind = KINDS[name]
    given = f"before {FORMS[form](kind.text)} behind"
    found = redact(given)

    assert kind.telltale not in found
    assert "[redacted: " in found
    assert found.startswith("before ")
    assert redact(found) == found
    assert any(kind.telltale in secret for secret in find_secrets(given))


@pytest.mark.parametrize("form", FORMS)
def test_no_kind_passes_among_the_others(form: str) -> None:
    assert told_in(redact(FORMS[form](ALL_OF_THEM))) == set()


def test_what_stands_around_a_secret_in_escaped_json_stays() -> None:
    inner = {"user": "app", "password": "Xk7!pLm2", "port": 5432}
    for depth in range(1, 5):
        text = json.dumps(inner)
        for _ in range(depth):
            text = json.dumps({"output": text})
        found = redact(text)
        for _ in range(depth):
            found = json.loads(found)["output"]
        assert json.loads(found) == inner | {"password": "[redacted: password]"}


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
        'PWD=/home/dev/app PWD: "~/dev", "pwd": "C:\\\\dev", pwd := env.Pwd()',
        "Use --password when you must; --token TOKEN, --password <password>, --secret id=x,src=y",
        "the passphrase is not stored anywhere on the disk, and the password is required",
        "the password is wrong! The password is sha256-hashed; is the passphrase wrong?",
        "Cookie: theme=dark; lang=en and cookies = jar.cookies(); a cookie: the client's",
        "mysql -p app, mysqldump --protocol=tcp, redis-cli -a, docker login -p, login page -p 80",
        "src/app.ts:12:5: error TS2304 at 10:20:30:40 and a::b::c::d, core/x.py:10:20:names:here",
        "store_before_write, hf_hub_download_model_files_2, sk_ip_1, key-value-store-of-strings",
        'apiKey := d.options.Template(APIKey, ".") and api_key=API_KEY, password: PASSWORD',
        "wsl wslpath -u 'C:/Users/dev/AppData/Local/Temp/x' and docker run -u 1000:1000 app",
        '{"auth": "none", "session_id": "11111111-2222-4333-8444-555555555555"}',
        "GET /v1?page=2&key=name&sig=short and $1$2$3, costs $5 and $6 $2a",
        "https://github.com/example/app/blob/main/README.md and git@github.com:example/app.git",
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
    hostile = (
        *("key=", "password=", "bearer a", "://a:", "eyJa", "sk-a", "-----BEGIN a", "token: "),
        *("--token a ", "cookie: a=b;", "login a password ", "mysql -a ", "docker login -a "),
        *("passphrase is aa-aa-", "a:5432:a:", "pgpass a:", ":aa1", "key-a1_", '\\\\\\"', "a\\"),
    )
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
