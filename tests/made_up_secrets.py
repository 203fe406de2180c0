"""Secrets that nobody has, put together here: no scanner should take them for real."""

from __future__ import annotations

import json
import random
import string
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

SECRETS: Final = {
    "aws-access-token": "AKIA" + "IOSFODNN7EXAMPLE",
    "github-pat": "ghp_" + "aB3dE6gH9j" * 3 + "aBcDeF",
    "anthropic-api-key": "sk-ant-api03-" + "abcDEF123_" * 9 + "xyzAA",
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKC" * 9 + "\n-----END RSA"
    " PRIVATE KEY-----",
    "jwt": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3",
    "url-password": "postgres://app:s3cr3tpw@db.example.com:5432/x",
    "password": "aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
}
"""One of each kind, by what it is called where it stood."""

TELLTALES: Final = {
    "aws-access-token": "IOSFODNN7",
    "github-pat": "aB3dE6gH9jaB3d",
    "anthropic-api-key": "abcDEF123_abcDEF",
    "private-key": "MIIEpAIBAAKC",
    "jwt": "eyJzdWIiOiIx",
    "url-password": "s3cr3tpw",
    "password": "wJalrXUtnFEMI",
}
"""The part of each that no redacted text has."""


class Kind(NamedTuple):
    """A secret as it is found in a transcript, and the part of it that must not leave."""

    text: str
    telltale: str


HEX: Final = string.hexdigits[:16]
LETTERS: Final = string.ascii_letters + string.digits
UPPER: Final = string.ascii_uppercase + string.digits
LOWER: Final = string.ascii_lowercase + string.digits
BASE64: Final = LETTERS + "+/"
WORDS: Final = "Xk7!pLm2"


def _minted(text: str, size: int, signs: str = LETTERS) -> Kind:
    """A text with so many of the signs in place of `@@`, the same in each run."""
    chance = random.Random(text)
    # A digit in front, as most have one.
    body = chance.choice("23456789") + "".join(chance.choice(signs) for _ in range(size - 1))
    return Kind(text.replace("@@", body), body[: min(size, 16)])


def _spoken(text: str, secret: str = WORDS) -> Kind:
    return Kind(text.replace("@@", secret), secret)


_IN_A_RESULT: Final = json.dumps({"name": "prod", "api_key": "@@", "region": "eu"})

KINDS: Final[dict[str, Kind]] = {
    **{name: Kind(text, TELLTALES[name]) for name, text in SECRETS.items()},
    # Keys of services, by their shape alone.
    "GitHub fine-grained": _minted("github_pat_@@", 82),
    "GitHub app": _minted("ghs_@@", 36),
    "GitLab": _minted("glpat-@@", 20),
    "Slack bot": _minted("xoxb-123456789012-1234567890123-@@", 24),
    "Slack app": _minted("xapp-1-A012ABCDEFG-1234567890123-@@", 64, HEX),
    "Slack webhook": _minted("https://hooks.slack.com/services/T0ABCDEFG/B0ABCDEFG/@@", 24),
    "Discord webhook": _minted("https://discord.com/api/webhooks/123456789012345678/@@", 68),
    "Telegram bot": _minted("telegram bot 123456789:AA@@", 33),
    "Stripe": _minted("sk_live_@@", 24),
    "Twilio": _minted("SK@@", 32, HEX),
    "SendGrid": _minted("SG.@@", 66),
    "Mailgun": _minted("key-@@", 32, HEX),
    "Mailchimp": _minted("mailchimp_key: @@-us12", 32, HEX),
    "npm": _minted("npm_@@", 36, LOWER),
    "PyPI": _minted("pypi-AgEIcHlwaS5vcmc@@", 60),
    "RubyGems": _minted("rubygems_@@", 48, HEX),
    "Docker PAT": _minted("dckr_pat_@@", 27),
    "DigitalOcean": _minted("dop_v1_@@", 64, HEX),
    "Google API": _minted("AIza@@", 35),
    "Google OAuth": _minted("ya29.@@", 60),
    "Google client secret": _minted("GOCSPX-@@", 28),
    "OpenAI project": _minted("sk-proj-@@", 60),
    "OpenRouter": _minted("sk-or-v1-@@", 64, HEX),
    "Groq": _minted("gsk_@@", 52),
    "xAI": _minted("xai-@@", 80),
    "Hugging Face": _minted("hf_@@", 34, string.ascii_letters),
    "Replicate": _minted("r8_@@", 37),
    "Perplexity": _minted("pplx-@@", 48),
    "NVIDIA": _minted("nvapi-@@", 64),
    "Tavily": _minted("tvly-@@", 32),
    "LangSmith": _minted("lsv2_pt_@@_0123456789", 32, HEX),
    "Pinecone": _minted("pcsk_@@", 64),
    "Supabase": _minted("sbp_@@", 40, HEX),
    "Supabase secret": _minted("sb_secret_@@", 31),
    "Neon": _minted("napi_@@", 64, LOWER),
    "PlanetScale": _minted("pscale_tkn_@@", 43),
    "Resend": _minted("re_a1B2c3D4_@@", 24),
    "Shopify": _minted("shpat_@@", 32, HEX),
    "Square": _minted("sq0atp-@@", 22),
    "Linear": _minted("lin_api_@@", 40),
    "Notion": _minted("ntn_123456789@@", 37),
    "Figma": _minted("figd_@@", 40),
    "Postman": _minted(f"PMAK-{'0a1b2c3d' * 3}-@@", 34, HEX),
    "Grafana": _minted("glsa_@@_a1b2c3d4", 32),
    "New Relic": _minted("NRAK-@@", 27, UPPER),
    "Sentry": _minted("sntryu_@@", 64, HEX),
    "Databricks": _minted("dapi@@", 32, HEX),
    "Terraform Cloud": _minted("a1B2c3D4e5F6g7.atlasv1.@@", 64),
    "Vault": _minted("hvs.@@", 92),
    "Pulumi": _minted("pul-@@", 40, HEX),
    "Netlify": _minted("nfp_@@", 36),
    "Atlassian": _minted("ATATT3@@", 186),
    "age": _minted("AGE-SECRET-KEY-1@@", 58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
    "OpenSSH key": _minted(
        "-----BEGIN OPENSSH PRIVATE KEY-----\n@@\n-----END OPENSSH PRIVATE KEY-----", 300, BASE64
    ),
    "service account": _minted(
        '"private_key": "-----BEGIN PRIVATE KEY-----\\n@@\\n-----END PRIVATE KEY-----\\n"', 64
    ),
    "PGP key": _minted(
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n@@\n-----END PGP PRIVATE KEY BLOCK-----",
        300,
        BASE64,
    ),
    # Keys and passwords by what stands around them.
    "key in escaped JSON": _minted(json.dumps(_IN_A_RESULT), 32),
    "key in a number of letters": _minted(json.dumps(_IN_A_RESULT), 20, string.ascii_lowercase),
    "password in escaped JSON": _spoken('{\\"password\\":\\"@@\\",\\"user\\":\\"app\\"}'),
    "password in JSON": _spoken('{"db": {"password": "@@"}}'),
    "password in YAML": _spoken("database:\n  password: @@\n"),
    "password in a variable": _spoken("export DB_PASSWORD='@@'"),
    "PGPASSWORD": _spoken("PGPASSWORD=@@ psql -h db app"),
    "connection string": _spoken("Server=db;User Id=sa;Password=@@;Encrypt=yes"),
    "Azure storage": _minted("AccountName=app;AccountKey=@@==;Suffix=x", 86, BASE64),
    "SAS signature": _minted("https://app.blob.example/c?sv=2024-01-01&sig=@@%3D", 43),
    "signed address": _minted("https://b.example/f?X-Amz-Expires=60&X-Amz-Signature=@@", 64, HEX),
    "token in an address": _minted("https://api.example/v1/jobs?access_token=@@&page=2", 40, HEX),
    "user in an address": _minted("https://@@@github.com/example/app.git", 40, HEX),
    "--password X": _spoken("deploy --user app --password @@ --host db"),
    "--password=X": _spoken("deploy --password=@@ --host db"),
    "--token X": _minted("gh-helper --token @@ --repo app", 24, LOWER),
    "--api-key X": _minted("cli --api-key @@ run", 24, LOWER),
    "mysql -pX": _spoken("mysql -uroot -p@@ -h db app < dump.sql"),
    "mysqldump -p'X'": _spoken("mysqldump -h db -u root -p'@@' app"),
    "redis-cli -a X": _spoken("redis-cli -h cache -a @@ ping"),
    "sshpass -p X": _spoken("sshpass -p @@ ssh app@db"),
    "docker login -p X": _spoken("docker login -u app -p @@ registry.example"),
    "curl -u": _spoken("curl -u app:@@ https://api.example/"),
    "basic authorization": _minted("Authorization: Basic @@==", 30, BASE64),
    "bearer": _minted('curl -H "Authorization: Bearer @@"', 32),
    "API key header": _minted("curl -H 'X-Api-Key: @@'", 24, LOWER),
    "session cookie": _minted("Cookie: theme=dark; sessionid=@@; lang=en", 32, LOWER),
    "connect.sid": _minted("Cookie: connect.sid=s%3A@@", 60),
    "set-cookie": _minted("Set-Cookie: PHPSESSID=@@; Path=/; HttpOnly", 26, LOWER),
    ".netrc": _spoken("machine api.example\n  login app\n  password @@\n"),
    ".netrc on a line": _spoken("machine api.example login app password @@"),
    ".pgpass": _spoken("db.example:5432:app:root:@@"),
    ".npmrc": _minted("//npm.example/:_authToken=@@", 36),
    ".npmrc password": _minted("//npm.example/:_password=@@==", 22),
    "Docker config": _minted('{"auths": {"r.example": {"auth": "@@=="}}}', 30),
    "kubeconfig": _minted("    client-key-data: @@==", 300, BASE64),
    "refresh token": _minted('{"refresh_token": "@@"}', 40),
    "session token": _minted("AWS_SESSION_TOKEN=@@==", 200, BASE64),
    "signing key": _minted("JWT_SIGNING_KEY: @@", 32, LOWER),
    "WireGuard": _minted("[Interface]\nPrivateKey = @@=", 43, BASE64),
    "one-time code": _minted("otpauth://totp/app:me?secret=@@&issuer=app", 32, UPPER),
    "shadow": _minted("root:$6$@@:19000:0:99999:7:::", 86),
    "htpasswd": _minted("app:$2y$10$@@", 53),
    "the passphrase is": _spoken("The passphrase is @@, as always."),
    "the passphrase is, quoted": _spoken('the passphrase is "@@"', "correct horse battery staple"),
    "the password is": _spoken("My password is @@. Do not tell."),
    "password: X": _spoken("user: app, password: @@"),
}
"""All kinds of secrets that no export, hook or index may have."""


def _remembered(texts: Iterable[str]) -> str:
    return "Remember these:\n\n" + "\n\n".join(texts) + "\n\nNext: the tests."


SOME_OF_THEM: Final = _remembered(SECRETS.values())
ALL_OF_THEM: Final = _remembered(kind.text for kind in KINDS.values())


def told_in(text: str) -> set[str]:
    """Names of the secrets that a text gives away."""
    return {name for name, kind in KINDS.items() if kind.telltale in text}
