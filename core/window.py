"""How large a model's window is, by the best evidence there is, and which that was."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec

SMALL_WINDOW: Final = 200_000
"""Tokens; every model before the native 1M ones (reference: claude-code-formats 3.4)."""

LARGE_WINDOW: Final = 1_000_000
"""Tokens; the only larger window that there is."""

LARGE_MARK: Final = "[1m]"
"""What the client adds to a model's name; the API's name never has it (formats 3.4)."""


class WindowSource(StrEnum):
    """The evidence for a window, strongest first."""

    STATUS_LINE = "status_line"
    SESSION_USAGE = "session_usage"
    API_ERROR = "api_error"
    MODEL_USAGE = "model_usage"
    MODEL_TABLE = "model_table"
    ASSUMED = "assumed"


class Window(msgspec.Struct, frozen=True):
    """A window in tokens, and how we know."""

    tokens: int
    source: WindowSource

    @property
    def why(self) -> str:
        """The evidence in words for a person."""
        return _WORDS[self.source]


_WORDS: Final = {
    WindowSource.STATUS_LINE: "the client's status line said so",
    WindowSource.SESSION_USAGE: "this session used more than 200,000",
    WindowSource.API_ERROR: "the API refused a prompt above it",
    WindowSource.MODEL_USAGE: "another session of this model used more than 200,000",
    WindowSource.MODEL_TABLE: "known of this model",
    WindowSource.ASSUMED: "assumed: the model is not known",
}

# Models by family and version, without a date or a provider's prefix. Opus 4.6 and
# Sonnet 4.6 have 1M at the API, but 200K in Claude Code unless asked for ([1m]).
# Source: claude-code-formats 3.4; the 5.5 models confirmed on 2.1.329.
_TABLE: Final = {
    "opus-5-5": LARGE_WINDOW,
    "sonnet-5-5": LARGE_WINDOW,
    "haiku-5-5": LARGE_WINDOW,
    "fable-5-1": LARGE_WINDOW,
    "opus-5": LARGE_WINDOW,
    "sonnet-5": LARGE_WINDOW,
    "fable-5": LARGE_WINDOW,
    "mythos-5": LARGE_WINDOW,
    "opus-4-8": LARGE_WINDOW,
    "opus-4-7": LARGE_WINDOW,
    "opus-4-6": SMALL_WINDOW,
    "sonnet-4-6": SMALL_WINDOW,
    "opus-4-5": SMALL_WINDOW,
    "sonnet-4-5": SMALL_WINDOW,
    "haiku-4-5": SMALL_WINDOW,
    "opus-4-1": SMALL_WINDOW,
    "opus-4": SMALL_WINDOW,
    "sonnet-4": SMALL_WINDOW,
    "3-7-sonnet": SMALL_WINDOW,
    "3-5-sonnet": SMALL_WINDOW,
    "3-5-haiku": SMALL_WINDOW,
    "3-opus": SMALL_WINDOW,
}

_FAMILY: Final = re.compile(r"claude-(?P<family>[a-z0-9-]+?)(?:-latest|-v\d+|[-@]\d{8}|:\d+)*$")


class WindowEvidence(msgspec.Struct, frozen=True):
    """What was seen that tells a window; tokens, None where nothing was seen."""

    model: str | None
    asked_model: str | None = None
    """The same with its mark for a large window, where the session was asked for it."""
    status_line_tokens: int | None = None
    """`context_window_size` of this session with this model."""
    session_peak_tokens: int = 0
    """Most that an answer of this model saw in this session."""
    limit_tokens: int | None = None
    """The maximum that a refused prompt of this session was told."""
    model_peak_tokens: int = 0
    """Most that any session of this model saw."""


def find_window(evidence: WindowEvidence) -> Window:
    """Decide the window in tokens (R: issue's order; reference: peers 0.1, formats 3.4).

    A status line that a later answer outgrew is of an earlier setting and loses.
    """
    seen = evidence.status_line_tokens
    if seen and evidence.session_peak_tokens <= seen:
        return Window(seen, WindowSource.STATUS_LINE)
    if evidence.session_peak_tokens > SMALL_WINDOW:
        return Window(LARGE_WINDOW, WindowSource.SESSION_USAGE)
    if evidence.limit_tokens:
        return Window(evidence.limit_tokens, WindowSource.API_ERROR)
    if evidence.model_peak_tokens > SMALL_WINDOW:
        return Window(LARGE_WINDOW, WindowSource.MODEL_USAGE)
    known = table_window(evidence.asked_model) or table_window(evidence.model)
    if known:
        return Window(known, WindowSource.MODEL_TABLE)
    return Window(SMALL_WINDOW, WindowSource.ASSUMED)


def asked_large(asked: str | None, model: str | None) -> str | None:
    """Take the client's own name of the model where it asks for the large window of the same."""
    if asked and asked.endswith(LARGE_MARK) and asked.removesuffix(LARGE_MARK) == model:
        return asked
    return None


def table_window(model: str | None) -> int | None:
    """Window in tokens of a model id by the table, or None for one that it does not hold."""
    if model is None:
        return None
    if model.endswith(LARGE_MARK):
        return LARGE_WINDOW
    return _TABLE.get(family_of(model) or "")


def family_of(model: str) -> str | None:
    """Name a model's family and version, as in "opus-4-6"; None for what is no Claude model."""
    found = _FAMILY.search(model)
    return found["family"] if found else None
