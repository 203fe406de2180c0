"""The provider that a person named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .anthropic_api import AnthropicApi
from .claude_cli import ClaudeCli
from .openai_api import OpenAiApi
from .provider import ProviderName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .provider import Provider


def provider_of(name: ProviderName, environment: Mapping[str, str]) -> Provider | None:
    """Give the provider of a name; None for `none`, which needs no model."""
    if name is ProviderName.CLAUDE_CLI:
        return ClaudeCli(environment)
    if name is ProviderName.ANTHROPIC:
        return AnthropicApi(environment)
    if name is ProviderName.OPENAI:
        return OpenAiApi(environment)
    return None
