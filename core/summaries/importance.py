"""How much a message matters, from 0 to 1, by rules alone.

`score = max(1.0 E, 0.8 D, 0.7 T, 0.5 K)`: marked by a person, a decision, a tool's result, and
how many keywords it has (requirements 2.2.2, 003-17, 003-18, 003-32).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from ..conversation import PieceKind
from .cues import DECISION

if TYPE_CHECKING:
    from ..conversation import Message

ANCHOR_MARKER: Final = "<!-- anchor -->"
"""003-05."""


class ImportanceWeights(msgspec.Struct, frozen=True):
    """What each sign is worth, 0..1 (003-32)."""

    user_explicit: float = 1.0
    decision: float = 0.8
    tool_result: float = 0.7
    keyword: float = 0.5


class ImportanceSettings(msgspec.Struct, frozen=True):
    """By what a message is judged."""

    weights: ImportanceWeights = ImportanceWeights()
    anchor_marker: str = ANCHOR_MARKER
    keyword_target: int = 5
    """Keywords that make a message as dense as can be. The requirements leave it open: five
    are more than a message has that only happens to name an error."""


class Importance(msgspec.Struct, frozen=True):
    """A message's score, and the signs that it comes from."""

    score: float
    """0..1."""
    has_emphasis: bool
    has_decision: bool
    has_tool_result: bool
    keyword_density: float
    """0..1."""


_DEFAULT: Final = ImportanceSettings()

SPOKEN: Final = frozenset({PieceKind.PROMPT, PieceKind.TEXT, PieceKind.SUMMARY})
"""What a person or the model says. A file that was read may hold any mark by chance."""

_RESULTS: Final = frozenset({PieceKind.TOOL_RESULT, PieceKind.AGENT_RETURN})


# Korean has no word limits that \b would see: particles are joined to the word.
_EXPLICIT: Final = re.compile(
    r"\b(?:important|remember|do not forget|don't forget|never forget|keep in mind|note that)\b"
    r"|중요|기억해|잊지",
    re.IGNORECASE,
)
_KEYWORDS: Final = re.compile(
    r"\b(?:errors?|exceptions?|fail(?:s|ed|ure)?|bugs?|fix(?:e[sd])?|todo|must|never|always"
    r"|because|requires?|requirements?|constraints?|breaking|deprecated|security|root cause"
    r"|blocked|blocker|test(?:s|ed)?|config(?:uration)?|version|api|schema|migration)\b"
    r"|오류|에러|실패|버그|수정|필수|반드시|이유|요구|제약|보안|원인|설정",
    re.IGNORECASE,
)


def score_message(message: Message, settings: ImportanceSettings = _DEFAULT) -> float:
    """Score a message, 0..1 (003-17)."""
    return judge_message(message, settings).score


def judge_message(message: Message, settings: ImportanceSettings = _DEFAULT) -> Importance:
    """Score a message, and say by which signs."""
    weights = settings.weights
    explicit = has_anchor(message, settings.anchor_marker) or _says(
        message, _EXPLICIT, frozenset({PieceKind.PROMPT})
    )
    decision = _says(message, DECISION, SPOKEN)
    result = any(piece.kind in _RESULTS for piece in message.parts)
    density = min(1.0, _keywords(message) / max(1, settings.keyword_target))
    score = max(
        weights.user_explicit * explicit,
        weights.decision * decision,
        weights.tool_result * result,
        weights.keyword * density,
    )
    return Importance(min(1.0, max(0.0, score)), explicit, decision, result, density)


def has_anchor(message: Message, marker: str = ANCHOR_MARKER) -> bool:
    """Say whether a person or the model marked a message as one to keep (003-05)."""
    return any(marker in piece.text for piece in message.parts if piece.kind in SPOKEN)


def _says(message: Message, pattern: re.Pattern[str], kinds: frozenset[PieceKind]) -> bool:
    return any(pattern.search(piece.text) for piece in message.parts if piece.kind in kinds)


def _keywords(message: Message) -> int:
    return sum(
        len(_KEYWORDS.findall(piece.text)) for piece in message.parts if piece.kind in SPOKEN
    )
