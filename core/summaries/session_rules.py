"""The ledger of rules: what the person told the model to do or not to do, in their own words.

Rules are found in what the person wrote (`find_rules`) and in the project's and the person's own
memory files (`find_memory_rules`), which are quoted with their path, as data. A compaction that
ctxtop makes carries them word for word. Text by anyone else states no rule, wherever it appears.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from ..files.project_folder import is_own_memory_file
from ..model.conversation import Author, Entry, MessagePart, PartKind
from ..model.rule import RuleMark
from ..transcript.authorship import iter_typed_words
from ..transcript.client_messages import MEMORY_FILE_HEADING, NESTED_MEMORY, QUEUED_PROMPT
from .decision_patterns import find_memory_rules, find_rules, states_rule
from .key_messages import prompt_words
from .mentions import contains_secret
from .summary_facts import SummaryFact, parse_carried_rules, rule_fact

STARTUP_MEMORY: Final = "instructions"
"""The attachment of the memory files that the client reads at its start, and sends again after
every compaction (claude-code-formats 3.7)."""

MEMORY_ATTACHMENTS: Final = frozenset({STARTUP_MEMORY, NESTED_MEMORY})

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
    source: str | None = None
    """The memory file's path, or CALLERS_PROMPT; None if the person wrote it."""
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


CALLERS_PROMPT: Final = "the agent's prompt"  # which the model wrote that started the agent

NO_RULE_CHOICES: Final = RuleChoices()


def rule_key(text: str) -> str:
    """Return what is equal for the same sentence, whatever its case, spacing and end."""
    return " ".join(text.casefold().split()).strip(" .!…\"'“”")


def make_rule_id(origin: str, text: str) -> str:
    """`origin` is the uuid of a prompt's line, or the path of a memory file."""
    words = f"{origin}\n{rule_key(text)}".encode("utf-8", "replace")
    return hashlib.blake2b(words, digest_size=8).hexdigest()


def session_rules(
    entries: Iterable[Entry], transcript_path: str, choices: RuleChoices = NO_RULE_CHOICES
) -> tuple[Rule, ...]:
    """List the rules that hold in a session, each once as it was last stated, oldest first.

    Pass all entries of one context (`list_all_entries`), and the file that holds them. What the
    person dropped is left out.
    """
    return tuple(
        replace(rule, is_pinned=rule.rule_id in choices.pinned)
        for rule in list_stated_rules(entries, transcript_path)
        if rule.rule_id not in choices.dropped
    )


def dropped_rule_keys(
    entries: Iterable[Entry], transcript_path: str, choices: RuleChoices
) -> frozenset[str]:
    if not choices.dropped:
        return frozenset()
    stated = list_stated_rules(entries, transcript_path)
    return frozenset(rule.key for rule in stated if rule.rule_id in choices.dropped)


def carried_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Select what a compaction must carry: all but what the client sends again by itself."""
    return tuple(rule for rule in rules if rule.is_pinned or not rule.is_resent)


def rule_facts(rules: Iterable[Rule]) -> list[SummaryFact]:
    return [rule_fact(rule.text, rule.line, rule.source) for rule in rules]


def list_stated_rules(entries: Iterable[Entry], transcript_path: str) -> tuple[Rule, ...]:
    """List every rule once, dropped ones too: as it was last stated, oldest first.

    A prompt comes before a memory file that says the same, and both before a summary of ctxtop's
    that carried the rule.
    """
    carried: dict[str, Rule] = {}
    memory: dict[str, Rule] = {}
    stated: dict[str, Rule] = {}
    for entry in entries:
        carried |= {rule.key: rule for rule in _carried_rules(entry, transcript_path)}
        memory |= {rule.key: rule for rule in _memory_rules(entry, transcript_path)}
        stated |= {rule.key: rule for rule in _prompt_rules(entry)}
    return tuple(sorted((carried | memory | stated).values(), key=lambda rule: rule.offset))


def find_persons_rules(author: Author | None, texts: Collection[str]) -> Iterator[str]:
    """Yield the rules in what a person wrote; what holds a key or a password is left out."""
    if author is Author.PERSON:
        # Most prompts set no rule: leaving out what is quoted would take longer than this look.
        for words in iter_typed_words(filter(states_rule, texts)):
            yield from _without_secrets(find_rules(words))


def find_file_rules(text: str) -> Iterator[str]:
    """Yield the rules in a memory file as the client sends it."""
    body = text.partition(_MEMORY_EPILOGUE)[0]
    if body.startswith(MEMORY_FILE_HEADING):
        body = body.partition("\n")[2]
    return _without_secrets(find_memory_rules(body))


def states_memory_rules(part: MessagePart, transcript_path: str) -> bool:
    """Whether a part is a memory file whose rules count: the project's or the person's own."""
    is_memory = part.kind is PartKind.ATTACHMENT and part.name in MEMORY_ATTACHMENTS
    return is_memory and part.path is not None and is_own_memory_file(part.path, transcript_path)


def _without_secrets(rules: Iterable[str]) -> Iterator[str]:
    return (rule for rule in rules if not contains_secret(rule))


def _prompt_rules(entry: Entry) -> Iterator[Rule]:
    for words in prompt_words(entry):
        for text in _without_secrets(find_rules(words)):
            is_callers = entry.author is Author.CALLER
            yield _make_rule(entry, text, CALLERS_PROMPT if is_callers else None)


def _carried_rules(entry: Entry, transcript_path: str) -> Iterator[Rule]:
    for part in entry.parts:
        if part.kind is PartKind.SUMMARY or entry.author is Author.CTXTOP:
            for text, source in parse_carried_rules(part.text):
                if source in {None, CALLERS_PROMPT} or is_own_memory_file(
                    source or "", transcript_path
                ):
                    yield _make_rule(entry, text, source)


def _memory_rules(entry: Entry, transcript_path: str) -> Iterator[Rule]:
    for part in entry.parts:
        if states_memory_rules(part, transcript_path):
            for text in find_file_rules(part.text):
                rule = _make_rule(entry, text, part.path)
                yield replace(rule, is_resent=part.name == STARTUP_MEMORY)


def _make_rule(entry: Entry, text: str, source: str | None = None) -> Rule:
    file = None if source == CALLERS_PROMPT else source
    origin = file or entry.uuid or f"at {entry.offset}"
    return Rule(text, make_rule_id(origin, text), entry.line, entry.offset, entry.at, source)
