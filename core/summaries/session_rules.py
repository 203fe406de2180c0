"""The ledger of rules: what the person told the model to do or not to do, in their own words.

Rules are found in prompts (`find_rules`) and in the memory files that the client put into the
context (`find_memory_rules`). A compaction that ctxtop makes carries them word for word.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from ..model.rule import RuleMark
from ..transcript.client_messages import MEMORY_FILE_HEADING, QUEUED_PROMPT
from ..transcript.conversation import Entry, MessagePart, PartKind
from .artifacts import prompt_excerpt
from .decision_patterns import find_memory_rules, find_rules
from .key_messages import prompt_facts
from .mentions import contains_secret
from .summary_facts import FactKind, SummaryFact, make_fact, parse_carried_constraints

STARTUP_MEMORY: Final = "instructions"
"""The attachment of the memory files that the client reads at its start, and sends again after
every compaction (claude-code-formats 3.7)."""

MEMORY_ATTACHMENTS: Final = frozenset({STARTUP_MEMORY, "nested_memory"})

RULE_ATTACHMENTS: Final = MEMORY_ATTACHMENTS | {QUEUED_PROMPT}
"""Attachments that state rules."""

_MEMORY_EPILOGUE: Final = "IMPORTANT: this context may or may not be relevant"
"""Begins what the client (2.1.329) writes behind the memory files."""


class Rule(msgspec.Struct, frozen=True):
    text: str  # word for word, white space collapsed
    rule_id: str
    """Identifies this statement of the rule, also in a fork: by the uuid of the prompt's line, or
    the path of the memory file. A rule that the person states again has a new one."""
    line: int = 0  # of the transcript, from 1
    offset: int = 0
    at: int | None = None  # milliseconds since 1970
    path: str | None = None  # of the memory file; None if a prompt states it
    is_resent: bool = False  # the client sends it again after a compaction
    is_pinned: bool = False

    @property
    def key(self) -> str:
        return rule_key(self.text)


class RuleChoices(msgspec.Struct, frozen=True):
    """What the person chose for single rules, by `Rule.rule_id`."""

    dropped: frozenset[str] = frozenset()  # ignored until the person states them again
    pinned: frozenset[str] = frozenset()  # kept where another rule would be left out

    def mark_of(self, rule_id: str) -> RuleMark:
        if rule_id in self.dropped:
            return RuleMark.DROPPED
        return RuleMark.PINNED if rule_id in self.pinned else RuleMark.NONE


NO_RULE_CHOICES: Final = RuleChoices()


def rule_key(text: str) -> str:
    """Return what is equal for the same sentence, whatever its case, spacing and end."""
    return " ".join(text.casefold().split()).strip(" .!…\"'“”")


def make_rule_id(origin: str, text: str) -> str:
    """`origin` is the uuid of a prompt's line, or the path of a memory file."""
    words = f"{origin}\n{rule_key(text)}".encode("utf-8", "replace")
    return hashlib.blake2b(words, digest_size=8).hexdigest()


def session_rules(
    entries: Iterable[Entry], choices: RuleChoices = NO_RULE_CHOICES
) -> tuple[Rule, ...]:
    """List the rules that hold in a session, each once as it was last stated, oldest first.

    Pass all entries of one context (`list_all_entries`). What the person dropped is left out.
    """
    return tuple(
        replace(rule, is_pinned=rule.rule_id in choices.pinned)
        for rule in list_stated_rules(entries)
        if rule.rule_id not in choices.dropped
    )


def dropped_rule_keys(entries: Iterable[Entry], choices: RuleChoices) -> frozenset[str]:
    if not choices.dropped:
        return frozenset()
    stated = list_stated_rules(entries)
    return frozenset(rule.key for rule in stated if rule.rule_id in choices.dropped)


def carried_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Select what a compaction must carry: all but what the client sends again by itself."""
    return tuple(rule for rule in rules if rule.is_pinned or not rule.is_resent)


def rule_facts(rules: Iterable[Rule]) -> list[SummaryFact]:
    return [make_fact(FactKind.CONSTRAINT, f'"{rule.text}"', rule.line, 1.0) for rule in rules]


def list_stated_rules(entries: Iterable[Entry]) -> tuple[Rule, ...]:
    """List every rule once, dropped ones too: as the person last stated it, oldest first.

    A prompt comes before a memory file that says the same, and both before a summary of ctxtop's
    that carried the rule.
    """
    carried: dict[str, Rule] = {}
    memory: dict[str, Rule] = {}
    stated: dict[str, Rule] = {}
    for entry in entries:
        carried |= {rule.key: rule for rule in _carried_rules(entry)}
        memory |= {rule.key: rule for rule in _memory_rules(entry)}
        stated |= {rule.key: rule for rule in _prompt_rules(entry)}
    return tuple(sorted((carried | memory | stated).values(), key=lambda rule: rule.offset))


def find_prompt_rules(text: str) -> Iterator[str]:
    """Yield the rules in what a person typed; what holds a key or a password is left out.

    Of a hand-off from another session those are the rules that it carries.
    """
    carried = parse_carried_constraints(text)
    return (
        each for each in carried or find_rules(prompt_excerpt(text)) if not contains_secret(each)
    )


def find_file_rules(text: str) -> Iterator[str]:
    """Yield the rules in a memory file as the client sends it."""
    body = text.partition(_MEMORY_EPILOGUE)[0]
    if body.startswith(MEMORY_FILE_HEADING):
        body = body.partition("\n")[2]
    return (each for each in find_memory_rules(body) if not contains_secret(each))


def is_memory_file(part: MessagePart) -> bool:
    return part.kind is PartKind.ATTACHMENT and part.name in MEMORY_ATTACHMENTS and bool(part.path)


def _prompt_rules(entry: Entry) -> Iterator[Rule]:
    for prompt in prompt_facts([entry]):
        for text in find_prompt_rules(prompt.text):
            yield _make_rule(entry, text)


def _carried_rules(entry: Entry) -> Iterator[Rule]:
    for part in entry.parts:
        if part.kind is PartKind.SUMMARY:
            for text in parse_carried_constraints(part.text):
                yield _make_rule(entry, text)


def _memory_rules(entry: Entry) -> Iterator[Rule]:
    for part in filter(is_memory_file, entry.parts):
        for text in find_file_rules(part.text):
            rule = _make_rule(entry, text, part.path)
            yield replace(rule, is_resent=part.name == STARTUP_MEMORY)


def _make_rule(entry: Entry, text: str, path: str | None = None) -> Rule:
    origin = path or entry.uuid or f"at {entry.offset}"
    return Rule(text, make_rule_id(origin, text), entry.line, entry.offset, entry.at, path)
