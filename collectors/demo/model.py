"""What the demo's makers share: who a session is, which model it talks to, what was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]
ContextState = Literal["measured", "estimated", "unknown"]

CURRENT = "2.1.329"
NEWER = "2.1.217"
OLDER = "2.1.45"


@dataclass(frozen=True)
class DemoSession:
    """One session as it was written: what ctxtop must find out by itself."""

    session_id: str
    title: str
    transcript: Path
    era: str
    model: str
    context_tokens: int | None
    context_state: ContextState
    window_tokens: int
    compactions: int
    agents: int
    grows: bool


@dataclass(frozen=True)
class DemoFolder:
    """A whole config folder and the truth about every session in it."""

    root: Path
    sessions: tuple[DemoSession, ...]


@dataclass(frozen=True)
class Model:
    """A model as the client names it, with the numbers that its requests carry."""

    id: str
    name: str
    window: int
    max_output: int
    cutoff: str
    effort: str | None
    usd_per_million: (
        float  # dollars for a million input tokens; invented, only the order of size is right
    )


OPUS = Model("claude-opus-5-5", "Opus 5.5", 1_000_000, 128_000, "June 2026", "medium", 4.0)
SONNET = Model("claude-sonnet-5-5", "Sonnet 5.5", 1_000_000, 128_000, "June 2026", "medium", 2.0)
HAIKU = Model("claude-haiku-5-5", "Haiku 5.5", 1_000_000, 128_000, "June 2026", "medium", 0.1)
HAIKU_200K = Model("claude-haiku-4-5", "Haiku 4.5", 200_000, 32_000, "February 2025", None, 1.0)
OPUS_5 = Model("claude-opus-5", "Opus 5", 1_000_000, 128_000, "January 2026", "high", 5.0)
SONNET_5 = Model("claude-sonnet-5", "Sonnet 5", 1_000_000, 128_000, "January 2026", "high", 3.0)
OPUS_46 = Model("claude-opus-4-6", "Opus 4.6", 200_000, 64_000, "August 2025", None, 5.0)
SONNET_46 = Model("claude-sonnet-4-6", "Sonnet 4.6", 200_000, 32_000, "August 2025", None, 3.0)

MODELS = {
    model.id: model
    for model in (OPUS, SONNET, HAIKU, HAIKU_200K, OPUS_5, SONNET_5, OPUS_46, SONNET_46)
}


@dataclass(frozen=True)
class Origin:
    """What every line of one session says about where it comes from."""

    session_id: str
    cwd: str
    version: str
    entrypoint: str
    branch: str
    nickname: str


@dataclass(frozen=True)
class ToolCall:
    """One use of a tool and what came back, before it has an id."""

    name: str
    input: Json
    output: str
    result: Json
