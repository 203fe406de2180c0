"""The messages that matter most: what the user typed, anchors, and what scores highest.

Sources: requirements 2.2.2, 003-05, 003-17, 003-18, 003-28 and 003-32.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from ..model.conversation import (
    RESULT_KINDS,
    Author,
    ConversationMessage,
    Entry,
    MessagePart,
    PartKind,
)
from ..transcript.authorship import NOT_TYPED_PREFIXES, iter_typed_words
from ..transcript.client_messages import given_tasks, typed_text
from ..transcript.slash_commands import find_slash_command
from .decision_patterns import DECISION_PATTERN
from .summary_facts import FactKind, SummaryFact, make_fact

if TYPE_CHECKING:
    from ..policy.policy import Policy

ANCHOR_MARKER: Final = "<!-- anchor -->"  # 003-05
MAX_ANCHORS: Final = 5  # 003-28

# What each sign of importance is worth, 0..1 (003-32).
USER_EXPLICIT_WEIGHT: Final = 1.0
DECISION_WEIGHT: Final = 0.8
TOOL_RESULT_WEIGHT: Final = 0.7
KEYWORD_WEIGHT: Final = 0.5

KEYWORD_TARGET: Final = 5  # for the full weight: more than a message has that only names an error
SPOKEN_KINDS: Final = frozenset({PartKind.PROMPT, PartKind.TEXT, PartKind.SUMMARY})
"""What a person or the model says. A file that was read may hold any mark by chance."""

MARKED_KINDS: Final = frozenset({PartKind.PROMPT, PartKind.TEXT})
"""Where an anchor marker counts: a summary only quotes those of the messages that it replaced."""

# Korean has no word boundaries that \b would match: particles are joined to the word.
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


class ImportanceSettings(msgspec.Struct, frozen=True):
    """The policy's keys `importance.*` (2.2.2)."""

    user_explicit: float = USER_EXPLICIT_WEIGHT
    decision: float = DECISION_WEIGHT
    tool_result: float = TOOL_RESULT_WEIGHT
    keyword: float = KEYWORD_WEIGHT
    max_anchors: int = MAX_ANCHORS
    anchor_marker: str = ANCHOR_MARKER

    def score(self, parts: Sequence[MessagePart]) -> float:
        """Score a message's parts by their strongest sign, 0..1 (003-17)."""
        spoken = [part.text for part in parts if part.kind in SPOKEN_KINDS]
        prompts = (part.text for part in parts if part.kind is PartKind.PROMPT)
        is_explicit = self.has_marker(parts) or any(map(_EMPHASIS.search, prompts))
        keywords = sum(len(_KEYWORDS.findall(text)) for text in spoken)
        return max(
            self.user_explicit * is_explicit,
            self.decision * any(map(DECISION_PATTERN.search, spoken)),
            self.tool_result * any(part.kind in RESULT_KINDS for part in parts),
            self.keyword * min(1.0, keywords / KEYWORD_TARGET),
        )

    def has_marker(self, parts: Iterable[MessagePart]) -> bool:
        """Whether the user or the model marked a message as one to keep (003-05)."""
        return any(self.anchor_marker in part.text for part in parts if part.kind in MARKED_KINDS)


DEFAULT_IMPORTANCE: Final = ImportanceSettings()


def read_importance_settings(policy: Policy) -> ImportanceSettings:
    return ImportanceSettings(
        user_explicit=policy.number("importance.user_explicit") or 0.0,
        decision=policy.number("importance.decision") or 0.0,
        tool_result=policy.number("importance.tool_result") or 0.0,
        keyword=policy.number("importance.keyword") or 0.0,
        max_anchors=policy.count("importance.anchors_max"),
        anchor_marker=policy.text("importance.anchor_marker"),
    )


def find_anchors(
    messages: Sequence[ConversationMessage], importance: ImportanceSettings = DEFAULT_IMPORTANCE
) -> tuple[ConversationMessage, ...]:
    """Choose the anchors: first the marked ones, then the highest score, then the newest."""

    def rank(place: int) -> tuple[bool, float, int]:
        parts = messages[place].parts
        return importance.has_marker(parts), importance.score(parts), place

    ranked = sorted(range(len(messages)), key=rank, reverse=True)
    return tuple(messages[place] for place in ranked[: importance.max_anchors])


_REMINDER: Final = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def typed_command(text: str) -> str | None:
    """Write a slash command as the person typed it; None if the text asks nothing by one."""
    command = find_slash_command(text) if text.startswith("<command-") else None
    return str(command) if command and command.asks_model else None


def prompt_facts(entries: Iterable[Entry]) -> list[SummaryFact]:
    """Return the prompts word for word, oldest first, without the client's additions."""
    facts: list[SummaryFact] = []
    for entry in entries:
        if entry.author is Author.CTXTOP:
            continue
        prompts = filter(None, map(typed_text, entry.parts))
        text = _REMINDER.sub("", "\n".join(prompts)).strip()
        text = typed_command(text) or text
        if text and not text.startswith(NOT_TYPED_PREFIXES):
            facts.append(make_fact(FactKind.PROMPT, text, entry.line, 1.0, f"{entry.line}:{text}"))
    return facts


GIVEN_TASK: Final = re.compile(r"From (.{1,220}), not from the user:\n(.*)", re.DOTALL)


def request_facts(entries: Sequence[Entry]) -> list[SummaryFact]:
    """Return what the model was asked, oldest first: the prompts of a person or a caller.

    If the conversation began with a message of someone else (a teammate gave the task, a
    schedule or a channel started it), such messages are requests too, each with its sender.
    """
    prompts = prompt_facts(entries)
    given: list[SummaryFact] = []
    for entry in entries:
        for sender, words in given_tasks(entry):
            text = f"From {sender}, not from the user:\n{words}"
            given.append(make_fact(FactKind.PROMPT, text, entry.line, 1.0, f"{entry.line}:{text}"))
    if not given or (prompts and prompts[0].line < given[0].line):
        return prompts
    return sorted([*prompts, *given], key=lambda fact: fact.line)


def prompt_words(entry: Entry) -> Iterator[str]:
    """Yield the own words of a person, or of the model that started the agent, in a line."""
    if entry.author in {Author.PERSON, Author.CALLER}:
        yield from iter_typed_words(filter(None, map(typed_text, entry.parts)))


def persons_words(entry: Entry) -> Iterator[str]:
    """Yield a person's own words in a line, without pastes and quotations."""
    return prompt_words(entry) if entry.author is Author.PERSON else iter(())
