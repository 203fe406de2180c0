"""The messages that matter most: what the user typed, anchors, and what scores highest.

Sources: requirements 2.2.2, 003-05, 003-17, 003-18, 003-28 and 003-32.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from ..transcript.conversation import RESULT_KINDS, ConversationMessage, Entry, PartKind
from .artifacts import prompt_excerpt
from .decision_patterns import DECISION_PATTERN, RULE_PATTERN, find_sentences
from .mentions import contains_secret
from .summary_facts import FactKind, SummaryFact, make_fact

ANCHOR_MARKER: Final = "<!-- anchor -->"  # 003-05


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


_DEFAULT_IMPORTANCE: Final = ImportanceSettings()

SPOKEN_KINDS: Final = frozenset({PartKind.PROMPT, PartKind.TEXT, PartKind.SUMMARY})
"""What a person or the model says. A file that was read may hold any mark by chance."""


# Korean has no word limits that \b would see: particles are joined to the word.
_EMPHASIS: Final = re.compile(
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


def score_importance(
    message: ConversationMessage, settings: ImportanceSettings = _DEFAULT_IMPORTANCE
) -> float:
    """Score a message by its strongest sign, 0..1 (003-17)."""
    weights = settings.weights
    explicit = has_anchor_marker(message, settings.anchor_marker) or _any_match(
        message, _EMPHASIS, frozenset({PartKind.PROMPT})
    )
    decision = _any_match(message, DECISION_PATTERN, SPOKEN_KINDS)
    result = any(piece.kind in RESULT_KINDS for piece in message.parts)
    density = min(1.0, _count_keywords(message) / max(1, settings.keyword_target))
    score = max(
        weights.user_explicit * explicit,
        weights.decision * decision,
        weights.tool_result * result,
        weights.keyword * density,
    )
    return min(1.0, max(0.0, score))


def has_anchor_marker(message: ConversationMessage, marker: str = ANCHOR_MARKER) -> bool:
    """Whether the user or the model marked a message as one to keep (003-05)."""
    return any(marker in piece.text for piece in message.parts if piece.kind in SPOKEN_KINDS)


def _any_match(
    message: ConversationMessage, pattern: re.Pattern[str], kinds: frozenset[PartKind]
) -> bool:
    return any(pattern.search(piece.text) for piece in message.parts if piece.kind in kinds)


def _count_keywords(message: ConversationMessage) -> int:
    return sum(
        len(_KEYWORDS.findall(piece.text)) for piece in message.parts if piece.kind in SPOKEN_KINDS
    )


class AnchorSettings(msgspec.Struct, frozen=True):
    """How many messages are anchors, and by what they are chosen."""

    max_anchors: int = 5  # 003-28
    importance: ImportanceSettings = ImportanceSettings()


_DEFAULT_ANCHORS: Final = AnchorSettings()


def find_anchors(
    messages: Sequence[ConversationMessage], settings: AnchorSettings = _DEFAULT_ANCHORS
) -> tuple[ConversationMessage, ...]:
    """Choose the anchors, first come the marked ones, then the highest score, then the newest."""
    marker = settings.importance.anchor_marker

    def by_rank(place: int) -> tuple[bool, float, int]:
        message = messages[place]
        score = score_importance(message, settings.importance)
        return (has_anchor_marker(message, marker), score, place)

    ranked = sorted(range(len(messages)), key=by_rank, reverse=True)
    return tuple(messages[place] for place in ranked[: max(0, settings.max_anchors)])


NOT_TYPED_PREFIXES: Final = (
    "[Previous conversation summary]",
    "This session is being continued from a previous conversation",
    "CRITICAL: Respond with TEXT ONLY",
    "Your task is to create a detailed summary of",
    "<command-",
    "<local-command-",
)
"""How texts begin that stand in a person's place: summaries, prompts for one, local commands
(client 2.1.170 to 2.1.329; compaction.md 6.1 has a summary that lists such a one)."""

_REMINDER: Final = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


_COMMAND_NAME: Final = re.compile(r"<command-name>\s*/?([^<\s]+)\s*</command-name>")
_COMMAND_ARGUMENTS: Final = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)

_CLIENT_COMMAND_LIST: Final = (
    "add-dir agents bashes bug clear compact config context copy cost doctor effort exit export"
    " extra-usage fast feedback fork help hooks ide install-github-app keybindings login logout"
    " mcp memory model output-style permissions plugin privacy-settings quit release-notes reload"
    " remote-control rename resume rewind sandbox settings skills status statusline stats tasks"
    " terminal-setup theme upgrade usage vim voice"
)
CLIENT_COMMANDS: Final = frozenset(_CLIENT_COMMAND_LIST.split())
"""Commands of the client's own that ask nothing of the model (2.1.330)."""

_MODE_COMMANDS: Final = frozenset({"plan"})
"""Commands that ask something of the model by their arguments alone."""


def typed_command(text: str) -> str | None:
    """Write a slash command as the person typed it; None where the text asks nothing by one."""
    named = _COMMAND_NAME.search(text) if text.startswith("<command-") else None
    if named is None or named[1] in CLIENT_COMMANDS:
        return None
    asked = _COMMAND_ARGUMENTS.search(text)
    words = asked[1].strip() if asked else ""
    if not words and named[1] in _MODE_COMMANDS:
        return None
    return f"/{named[1]} {words}".strip()


def prompt_facts(entries: Iterable[Entry]) -> list[SummaryFact]:
    """Return the user's messages word for word, oldest first, without the client's additions."""
    found: list[SummaryFact] = []
    for entry in entries:
        said = [piece.text for piece in entry.parts if piece.kind is PartKind.PROMPT]
        text = _REMINDER.sub("", "\n".join(said)).strip()
        text = typed_command(text) or text
        if text and not text.startswith(NOT_TYPED_PREFIXES):
            found.append(make_fact(FactKind.PROMPT, text, entry.line, 1.0, f"{entry.line}:{text}"))
    return found


def constraint_facts(prompts: Sequence[SummaryFact]) -> list[SummaryFact]:
    """Return the sentences in which the user sets a rule (Q8), newest first, each once.

    A sentence that holds what looks like a key is left out; its message still holds it.
    """
    found: dict[str, SummaryFact] = {}
    for prompt in prompts:
        for sentence in find_sentences(RULE_PATTERN, prompt_excerpt(prompt.text)):
            if not contains_secret(sentence):
                found.pop(sentence, None)
                found[sentence] = make_fact(FactKind.CONSTRAINT, f'"{sentence}"', prompt.line, 1.0)
    return list(reversed(found.values()))
