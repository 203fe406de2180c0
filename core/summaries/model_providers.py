"""The summary providers: the Anthropic API, OpenAI-compatible APIs and `claude -p`.

A request never shows its key: not in an error, and not to another host.
"""

import http.client
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import msgspec

from ..host import client_environment, find_program, is_loopback
from .model_summary import (
    MAX_ANSWER_TOKENS,
    SYSTEM_PROMPT,
    Provider,
    ProviderError,
    ProviderName,
    SummaryRequest,
)

MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024  # a summary of 8,192 tokens has some 40,000 bytes
ERROR_CHARS: Final = 200  # characters of a provider's error message: one line
RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A key is never sent to where another host points."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return


def post_json(
    url: str, headers: Mapping[str, str], body: Mapping[str, object], timeout_s: float
) -> dict[str, Any]:
    """Send a JSON object and return the one in the response; raises ProviderError.

    Only https, or http to this machine.
    """
    _check_url(url)
    host = urlsplit(url).hostname or ""
    # This machine is not reached through a proxy.
    proxies = [urllib.request.ProxyHandler({})] if is_loopback(host) else []
    opener = urllib.request.build_opener(_NoRedirect, *proxies)
    request = urllib.request.Request(  # noqa: S310 -- checked above
        url,
        data=msgspec.json.encode(body),
        headers={"content-type": "application/json", **headers},
        method="POST",
    )
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            data = answer.read(MAX_RESPONSE_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            body_text = error.read(ERROR_CHARS * 4).decode("utf-8", "replace")
        raise ProviderError(
            f"{host} answered {error.code}: {_redact_keys(headers, body_text)}",
            passing=error.code in RETRYABLE_STATUSES,
        ) from None
    except TimeoutError:
        raise ProviderError(f"{host} took more than {timeout_s:.0f} s", passing=True) from None
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        raise ProviderError(f"{host} cannot be reached: {why}", passing=True) from None
    if len(data) > MAX_RESPONSE_BYTES:
        raise ProviderError(f"{host} sent more than {MAX_RESPONSE_BYTES:,} bytes")
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        decoded = None
    if not isinstance(decoded, dict):
        raise ProviderError(f"{host} did not answer with a JSON object: is the address right?")
    return decoded


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise ProviderError("the address of the API is not a URL: use https://…") from None
    if parts.username or parts.password:
        raise ProviderError(
            "the address of the API contains a password: pass the key in its environment variable"
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ProviderError("the address of the API is not https: a key would be sent unencrypted")


def _redact_keys(headers: Mapping[str, str], message: str) -> str:
    """Redact keys in an API's error message: some repeat the key that they reject."""
    for value in headers.values():
        for secret in (value, value.removeprefix("Bearer ")):
            if len(secret) > len(ANTHROPIC_VERSION):
                message = message.replace(secret, "…")
    return _one_line(message)


def _one_line(message: str) -> str:
    return " ".join(message.split())[:ERROR_CHARS]


ANTHROPIC_VERSION: Final = "2023-06-01"
TEMPERATURE: Final = 0.2  # R003-07
_CUT_OFF: Final = f"the summary was cut off at {MAX_ANSWER_TOKENS:,} tokens"


class _HttpApi(msgspec.Struct, frozen=True):
    """An API whose address and key come from environment variables; the key is never shown."""

    environment: Mapping[str, str]

    label: ClassVar[str]
    default_url: ClassVar[str]
    key_variable: ClassVar[str]
    url_variable: ClassVar[str]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    @property
    def name(self) -> str:
        return f"{self.label} {self.base_url}"

    @property
    def base_url(self) -> str:
        return (self.environment.get(self.url_variable) or self.default_url).rstrip("/")

    def required_key(self) -> str:
        key = self.environment.get(self.key_variable)
        if not key:
            raise ProviderError(
                f"{self.key_variable} is not set: set it, or choose another provider"
            )
        return key


class AnthropicApi(_HttpApi, frozen=True):
    """POST /v1/messages."""

    label = "anthropic"
    default_url = "https://api.anthropic.com"
    key_variable = "ANTHROPIC_API_KEY"
    url_variable = "ANTHROPIC_BASE_URL"

    def generate(self, request: SummaryRequest, timeout_s: float) -> str:
        """Return the text blocks of the answer, joined (001-32); raises ProviderError."""
        key = self.required_key()
        answer = post_json(
            f"{self.base_url}/v1/messages",
            {"x-api-key": key, "anthropic-version": ANTHROPIC_VERSION},
            {
                "model": request.model,
                "max_tokens": MAX_ANSWER_TOKENS,
                "system": SYSTEM_PROMPT,
                "messages": [{"role": "user", "content": request.text}],
            },
            timeout_s,
        )
        if answer.get("stop_reason") == "max_tokens":
            raise ProviderError(_CUT_OFF)
        blocks = answer.get("content")
        return "".join(
            str(block.get("text", ""))
            for block in (blocks if isinstance(blocks, list) else ())
            if isinstance(block, dict) and block.get("type") == "text"
        )


class OpenAiApi(_HttpApi, frozen=True):
    """POST /chat/completions below the base address."""

    label = "openai"
    default_url = "https://api.openai.com/v1"
    key_variable = "OPENAI_API_KEY"
    url_variable = "OPENAI_BASE_URL"

    def generate(self, request: SummaryRequest, timeout_s: float) -> str:
        """Return the answer's text; raises ProviderError. Only the default server needs a key."""
        key = self.environment.get(self.key_variable)
        if self.base_url == self.default_url:
            key = self.required_key()
        answer = post_json(
            f"{self.base_url}/chat/completions",
            {"authorization": f"Bearer {key}"} if key else {},
            {
                "model": request.model,
                "max_tokens": MAX_ANSWER_TOKENS,
                "temperature": TEMPERATURE,
                "messages": [
                    {"role": "system", "content": SYSTEM_PROMPT},
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
            raise ProviderError(_CUT_OFF)
        message = first.get("message")
        text = message.get("content") if isinstance(message, dict) else None
        return text if isinstance(text, str) else ""


CLAUDE_PROGRAM: Final = "claude"

CLAUDE_OPTIONS: Final = (
    *("--no-session-persistence", "--safe-mode", "--setting-sources", "user"),
    *("--tools", "", "--output-format", "json"),
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
        return f"{CLAUDE_PROGRAM} -p"

    def generate(self, request: SummaryRequest, timeout_s: float) -> str:
        """Return what the program prints; raises ProviderError."""
        program = find_program(CLAUDE_PROGRAM, self.environment)
        if program is None:
            raise ProviderError(
                f"`{CLAUDE_PROGRAM}` is not on the PATH: install it, or name another provider"
            )
        words = [program, "-p", "--model", request.model, "--system-prompt", SYSTEM_PROMPT]
        environment = client_environment(self.environment)
        with tempfile.TemporaryDirectory(prefix="ctxtop-") as folder:
            # Others may write to the folder above: nothing is looked for there.
            environment["GIT_CEILING_DIRECTORIES"] = str(Path(folder).parent)
            try:
                ended = subprocess.run(  # noqa: S603 -- no shell; nothing of the text is a word
                    [*words, *CLAUDE_OPTIONS],
                    cwd=folder,
                    env=environment,
                    input=request.text.encode("utf-8", "replace"),
                    capture_output=True,
                    timeout=timeout_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                why = f"Claude Code took more than {timeout_s:.0f} s and was stopped"
                raise ProviderError(why, passing=True) from None
            except OSError as error:
                raise ProviderError(f"{program} cannot be run: {error.strerror}") from None
        return _parse_output(ended)


def _parse_output(ended: subprocess.CompletedProcess[bytes]) -> str:
    try:
        output = msgspec.json.decode(ended.stdout, type=_CliOutput)
    except (msgspec.DecodeError, UnicodeDecodeError):
        output = _CliOutput(is_error=True)
    if ended.returncode or output.is_error:
        message = output.result or (ended.stderr or ended.stdout).decode("utf-8", "replace")
        shown = _one_line(message) or f"it printed nothing, exit code {ended.returncode}"
        raise ProviderError(f"Claude Code returned no summary: {shown}", passing=True)
    return output.result


def make_provider(name: ProviderName, environment: Mapping[str, str]) -> Provider | None:
    """Make a provider by name; None for `none`, which needs no model."""
    providers: dict[ProviderName, type[ClaudeCli | AnthropicApi | OpenAiApi]] = {
        ProviderName.CLAUDE_CLI: ClaudeCli,
        ProviderName.ANTHROPIC: AnthropicApi,
        ProviderName.OPENAI: OpenAiApi,
    }
    return providers[name](environment) if name in providers else None
