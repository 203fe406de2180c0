"""The summary providers: the Anthropic API, OpenAI-compatible APIs and `claude -p`.

A request never shows its key: not in an error, and not to another host.
"""

from __future__ import annotations

import http.client
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ..host import client_environment, find_program, is_loopback
from .model_summary import Provider, ProviderError, ProviderName, SummaryRequest

MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024  # bytes: a summary of 8,192 tokens has some 40,000
ERROR_CHARS: Final = 200  # characters of what an API says of an error: one line
RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses after which asking again may help."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A key is never sent to where somebody else points."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow nothing."""
        return


def post_json(
    url: str, headers: Mapping[str, str], body: Mapping[str, object], timeout_s: float
) -> dict[str, Any]:
    """Send a JSON object and give the one that comes back; raises ProviderError.

    Only https, or http to this machine itself.
    """
    _check_url(url)
    request = urllib.request.Request(  # noqa: S310 -- checked above
        url,
        data=msgspec.json.encode(body),
        headers={"content-type": "application/json", **headers},
        method="POST",
    )
    host = urlsplit(url).hostname
    try:
        with _opener(url).open(request, timeout=timeout_s) as answer:
            data = answer.read(MAX_RESPONSE_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            said = _redact_keys(headers, error.read(ERROR_CHARS * 4).decode("utf-8", "replace"))
        passing = error.code in RETRYABLE_STATUSES
        raise ProviderError(f"{host} answered {error.code}: {said}", passing=passing) from None
    except TimeoutError:
        raise ProviderError(f"{host} took more than {timeout_s:.0f} s", passing=True) from None
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        raise ProviderError(f"{host} cannot be reached: {why}", passing=True) from None
    if len(data) > MAX_RESPONSE_BYTES:
        raise ProviderError(f"{host} answered more than {MAX_RESPONSE_BYTES:,} bytes")
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        decoded = None
    if not isinstance(decoded, dict):
        raise ProviderError(f"{host} answered what is no JSON object: is the address right?")
    return decoded


def _opener(url: str) -> urllib.request.OpenerDirector:
    # What runs on this machine is not reached through a proxy.
    own = [urllib.request.ProxyHandler({})] if is_loopback(urlsplit(url).hostname or "") else []
    return urllib.request.build_opener(_NoRedirect, *own)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise ProviderError("the address of the API is no URL: give https://…") from None
    if parts.username or parts.password:
        raise ProviderError("the address of the API holds a password: give the key as a variable")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ProviderError("the address of the API is not https: a key would be sent in the open")


def _redact_keys(headers: Mapping[str, str], said: str) -> str:
    """Redact keys in an API's error message: some repeat the key that they reject."""
    for value in headers.values():
        for secret in (value, value.removeprefix("Bearer ")):
            said = said.replace(secret, "…") if len(secret) > len("2023-06-01") else said
    return " ".join(said.split())[:ERROR_CHARS]


ANTHROPIC_KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
ANTHROPIC_URL_VARIABLE: Final = "ANTHROPIC_BASE_URL"
ANTHROPIC_DEFAULT_URL: Final = "https://api.anthropic.com"
ANTHROPIC_VERSION: Final = "2023-06-01"


class AnthropicApi(msgspec.Struct, frozen=True):
    """POST /v1/messages."""

    environment: Mapping[str, str]

    def __repr__(self) -> str:
        return f"AnthropicApi({self.name})"

    @property
    def name(self) -> str:
        """The API's address."""
        return f"anthropic {self._base}"

    @property
    def _base(self) -> str:
        return (self.environment.get(ANTHROPIC_URL_VARIABLE) or ANTHROPIC_DEFAULT_URL).rstrip("/")

    def generate(self, request: SummaryRequest, timeout_s: float) -> str:
        """Return the text blocks of the answer, joined (001-32); raises ProviderError."""
        key = self.environment.get(ANTHROPIC_KEY_VARIABLE)
        if not key:
            raise ProviderError(
                f"{ANTHROPIC_KEY_VARIABLE} is not set: set it, or choose another provider"
            )
        answer = post_json(
            f"{self._base}/v1/messages",
            {"x-api-key": key, "anthropic-version": ANTHROPIC_VERSION},
            {
                "model": request.model,
                "max_tokens": request.max_tokens,
                "system": request.system,
                "messages": [{"role": "user", "content": request.text}],
            },
            timeout_s,
        )
        if answer.get("stop_reason") == "max_tokens":
            raise ProviderError(f"the summary was cut off at {request.max_tokens:,} tokens")
        blocks = answer.get("content")
        return "".join(
            str(block.get("text", ""))
            for block in (blocks if isinstance(blocks, list) else ())
            if isinstance(block, dict) and block.get("type") == "text"
        )


OPENAI_KEY_VARIABLE: Final = "OPENAI_API_KEY"
OPENAI_URL_VARIABLE: Final = "OPENAI_BASE_URL"
OPENAI_DEFAULT_URL: Final = "https://api.openai.com/v1"

TEMPERATURE: Final = 0.2  # R003-07


class OpenAiApi(msgspec.Struct, frozen=True):
    """POST /chat/completions below the base address."""

    environment: Mapping[str, str]

    def __repr__(self) -> str:
        return f"OpenAiApi({self.name})"

    @property
    def name(self) -> str:
        """The API's address."""
        return f"openai {self._base}"

    @property
    def _base(self) -> str:
        return (self.environment.get(OPENAI_URL_VARIABLE) or OPENAI_DEFAULT_URL).rstrip("/")

    def generate(self, request: SummaryRequest, timeout_s: float) -> str:
        """Return the answer's text; raises ProviderError. Only the default server needs a key."""
        key = self.environment.get(OPENAI_KEY_VARIABLE)
        if not key and self._base == OPENAI_DEFAULT_URL:
            raise ProviderError(
                f"{OPENAI_KEY_VARIABLE} is not set: set it, or choose another provider"
            )
        answer = post_json(
            f"{self._base}/chat/completions",
            {"authorization": f"Bearer {key}"} if key else {},
            {
                "model": request.model,
                "max_tokens": request.max_tokens,
                "temperature": TEMPERATURE,
                "messages": [
                    {"role": "system", "content": request.system},
                    {"role": "user", "content": request.text},
                ],
            },
            timeout_s,
        )
        choices = answer.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, dict):
            return ""
        if first.get("finish_reason") == "length":
            raise ProviderError(f"the summary was cut off at {request.max_tokens:,} tokens")
        message = first.get("message")
        said = message.get("content") if isinstance(message, dict) else None
        return said if isinstance(said, str) else ""


CLAUDE_PROGRAM: Final = "claude"

CLI_ERROR_CHARS: Final = 200  # characters of what the client says of an error: one line
CLAUDE_OPTIONS: Final = (
    "--no-session-persistence",
    "--safe-mode",
    "--setting-sources",
    "user",
    "--tools",
    "",
    "--output-format",
    "json",
)
"""No transcript of its own, no hooks, skills, memory or plugins, no tools (2.1.329, `--help`)."""


class _CliOutput(msgspec.Struct):
    result: str = ""
    is_error: bool = False


class ClaudeCli(msgspec.Struct, frozen=True):
    """A run of the client in an empty folder; the conversation goes in by stdin."""

    environment: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ClaudeCli({self.name})"

    @property
    def name(self) -> str:
        """The command."""
        return f"{CLAUDE_PROGRAM} -p"

    def generate(self, request: SummaryRequest, timeout_s: float) -> str:
        """Return what the program prints; raises ProviderError."""
        program = find_program(CLAUDE_PROGRAM, self.environment)
        if program is None:
            raise ProviderError(
                f"there is no `{CLAUDE_PROGRAM}` on the PATH: install it, or name another"
            )
        words = [program, "-p", "--model", request.model, "--system-prompt", request.system]
        own = client_environment(self.environment)
        with tempfile.TemporaryDirectory(prefix="ctxtop-") as folder:
            # Above it stands a folder that others may write to: nothing is looked for there.
            own["GIT_CEILING_DIRECTORIES"] = str(Path(folder).parent)
            try:
                ended = subprocess.run(  # noqa: S603 -- no shell; nothing of the text is a word
                    [*words, *CLAUDE_OPTIONS],
                    cwd=folder,
                    env=own,
                    input=request.text.encode("utf-8", "replace"),
                    capture_output=True,
                    timeout=timeout_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                why = f"the client took more than {timeout_s:.0f} s and was ended"
                raise ProviderError(why, passing=True) from None
            except OSError as error:
                raise ProviderError(f"{program} cannot be run: {error.strerror}") from None
        return _parse_output(ended)


def _parse_output(ended: subprocess.CompletedProcess[bytes]) -> str:
    try:
        said = msgspec.json.decode(ended.stdout, type=_CliOutput)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = _CliOutput(is_error=True)
    if ended.returncode or said.is_error:
        words = said.result or (ended.stderr or ended.stdout).decode("utf-8", "replace")
        shown = (
            " ".join(words.split())[:CLI_ERROR_CHARS] or f"it said nothing, code {ended.returncode}"
        )
        raise ProviderError(f"the client gave no summary: {shown}", passing=True)
    return said.result


def make_provider(name: ProviderName, environment: Mapping[str, str]) -> Provider | None:
    """Make a provider by name; None for `none`, which needs no model."""
    if name is ProviderName.CLAUDE_CLI:
        return ClaudeCli(environment)
    if name is ProviderName.ANTHROPIC:
        return AnthropicApi(environment)
    if name is ProviderName.OPENAI:
        return OpenAiApi(environment)
    return None
