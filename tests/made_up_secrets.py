"""Secrets that nobody has, put together here: no scanner should take them for real."""

from __future__ import annotations

from typing import Final

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

ALL_OF_THEM: Final = "Remember these:\n\n" + "\n\n".join(SECRETS.values()) + "\n\nNext: the tests."


def told_in(text: str) -> set[str]:
    """Names of the secrets that a text gives away."""
    return {name for name, part in TELLTALES.items() if part in text}
