"""Any endpoint that speaks as OpenAI's chat completions do: a hosted one, or one of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .post import post
from .provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .provider import Request

KEY: Final = "OPENAI_API_KEY"
BASE: Final = "OPENAI_BASE_URL"
DEFAULT_BASE: Final = "https://api.openai.com/v1"

TEMPERATURE: Final = 0.2
"""R003-07."""


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
        return (self.environment.get(BASE) or DEFAULT_BASE).rstrip("/")

    def generate(self, request: Request, timeout_s: float) -> str:
        """Give the answer's text; raises ProviderError. A server of one's own needs no key."""
        key = self.environment.get(KEY)
        if not key and self._base == DEFAULT_BASE:
            raise ProviderError(f"{KEY} is not set: set it, or choose another provider")
        answer = post(
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
