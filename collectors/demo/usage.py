"""The counts on an answer, and the running totals of a session."""

from __future__ import annotations

from dataclasses import dataclass, field

from .model import MODELS, Json, Model
from .plumbing import Clock, millis

UNCACHED = 6  # input tokens that no cache holds: the client sends next to nothing uncached


@dataclass(frozen=True)
class Usage:
    """The four counts of one answer; their first three are the context."""

    uncached: int
    cache_written: int
    cache_read: int
    output: int

    @property
    def context(self) -> int:
        """Return how many tokens the model saw."""
        return self.uncached + self.cache_written + self.cache_read


def usage_for(tokens: int, before: int, output: int) -> Usage:
    """Return counts that add up to `tokens`: what was there before comes from the cache."""
    cached = max(0, min(before, tokens - UNCACHED))
    return Usage(UNCACHED, tokens - UNCACHED - cached, cached, output)


def current_usage(usage: Usage) -> Json:
    """Return the usage object as 2.1.329 writes it."""
    return {
        "input_tokens": usage.uncached,
        "cache_creation_input_tokens": usage.cache_written,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {
            "ephemeral_1h_input_tokens": 0,
            "ephemeral_5m_input_tokens": usage.cache_written,
        },
        "inference_geo": "",
        "iterations": [],
        "speed": "standard",
        "fallback_credit": None,
    }


def newer_usage(rounds: tuple[Usage, ...]) -> Json:
    """Return the usage object as 2.1.217 writes it: the top level is the sum of its rounds."""
    written = sum(usage.cache_written for usage in rounds)
    return {
        "input_tokens": sum(usage.uncached for usage in rounds),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": sum(usage.cache_read for usage in rounds),
        "output_tokens": sum(usage.output for usage in rounds),
        "server_tool_use": {"web_search_requests": len(rounds) - 1, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": written, "ephemeral_5m_input_tokens": 0},
        "inference_geo": "not_available",
        "iterations": [
            {
                "input_tokens": usage.uncached,
                "output_tokens": usage.output,
                "cache_read_input_tokens": usage.cache_read,
                "cache_creation_input_tokens": usage.cache_written,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 0,
                    "ephemeral_1h_input_tokens": usage.cache_written,
                },
                "type": "message",
            }
            for usage in rounds
        ],
        "speed": "standard",
    }


def older_usage(usage: Usage) -> Json:
    """Return the usage object as 2.1.45 writes it."""
    return {
        "input_tokens": usage.uncached,
        "cache_creation_input_tokens": usage.cache_written,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 0,
            "ephemeral_1h_input_tokens": usage.cache_written,
        },
        "output_tokens": usage.output,
        "service_tier": "standard",
        "inference_geo": "not_available",
    }


@dataclass
class Totals:
    """The running totals that a session writes as its cost state."""

    started_ms: int
    by_model: dict[str, list[int]] = field(default_factory=dict)

    def count(self, model: Model, usage: Usage) -> None:
        """Add one answer."""
        sums = self.by_model.setdefault(model.id, [0, 0, 0, 0])
        for place, value in enumerate(
            (usage.uncached, usage.output, usage.cache_read, usage.cache_written)
        ):
            sums[place] += value

    def line(self, session_id: str, clock: Clock) -> Json:
        """Return the cost-state line of this moment."""
        models = {name: self._model(name, sums) for name, sums in self.by_model.items()}
        lasted = max(0, millis(clock.at) - self.started_ms)
        return {
            "type": "cost-state",
            "sessionId": session_id,
            "totalCostUSD": round(sum(model["costUSD"] for model in models.values()), 6),
            "totalAPIDuration": lasted // 3,
            "totalAPIDurationWithoutRetries": lasted // 3,
            "totalToolDuration": lasted // 9,
            "totalLinesAdded": 0,
            "totalLinesRemoved": 0,
            "totalDuration": lasted,
            "startTime": self.started_ms,
            "modelUsage": models,
            "hasUnknownModelCost": False,
        }

    def _model(self, name: str, sums: list[int]) -> Json:
        fresh, output, cached, written = sums
        cost = (
            (fresh + output * 5 + cached / 10 + written * 1.25)
            * MODELS[name].usd_per_million
            / 1_000_000
        )
        return {
            "inputTokens": fresh,
            "outputTokens": output,
            "thinkingTokens": 0,
            "cacheReadInputTokens": cached,
            "cacheCreationInputTokens": written,
            "cacheCreationEphemeral5mInputTokens": written,
            "cacheCreationEphemeral1hInputTokens": 0,
            "webSearchRequests": 0,
            "costUSD": round(cost, 6),
        }
