"""The Anthropic API, asked with the key in ANTHROPIC_API_KEY."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .post import post
from .provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .provider import Request

KEY: Final = "ANTHROPIC_API_KEY"
BASE: Final = "ANTHROPIC_BASE_URL"
DEFAULT_BASE: Final = "https://api.anthropic.com"
VERSION: Final = "2023-06-01"


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
        return (self.environment.get(BASE) or DEFAULT_BASE).rstrip("/")

    def generate(self, request: Request, timeout_s: float) -> str:
        """Give the text blocks of the answer, joined (001-32); raises ProviderError."""
        key = self.environment.get(KEY)
        if not key:
            raise ProviderError(f"{KEY} is not set: set it, or choose another provider")
        answer = post(
            f"{self._base}/v1/messages",
            {"x-api-key": key, "anthropic-version": VERSION},
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
