"""The essentials that a compaction is asked to keep, and which of them its summary omitted."""

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from ..measure.token_estimate import token_upper_bound
from ..model.conversation import Entry, drop_repeated_entries, entries_since_compaction
from .artifacts import (
    Artifacts,
    FileUse,
    collect_artifacts,
    follow_artifacts,
    shared_basenames,
    tool_results,
)
from .mentions import MentionIndex, split_path
from .session_rules import Rule, carried_rules
from .summary_facts import quote_rule
from .tool_outcomes import RESULT_TAIL_CHARS

RECENT_RESULTS: Final = 40  # what failed before these was worked on since


def find_failing_files(entries: Iterable[Entry], paths: Iterable[str]) -> frozenset[str]:
    """Return the files whose newest result among the last RECENT_RESULTS is a failure.

    A result belongs to a file if its tool was called with the file, or if it names the file. A
    call that failed and later succeeded with the same input, as a test does, no longer fails.
    """
    newest = [
        (result, (call.name, "" if call is result else call.text))
        for call, result, _ in tool_results(entries)
    ][-RECENT_RESULTS:]
    last_failed = {call: result.failed for result, call in newest}
    states: dict[str, bool] = {}
    known = [path for path in paths if split_path(path)]
    for result, call in newest:
        mentions = MentionIndex([result.text[-RESULT_TAIL_CHARS:]]) if not result.path else None
        for path in known:
            if result.path == path or (mentions and mentions.has_path(path)):
                states[path] = result.failed and last_failed[call]
    return frozenset(path for path, failed in states.items() if failed)


def collect_current_artifacts(entries: Iterable[Entry]) -> Artifacts:
    """Collect what the next compaction can lose, by the rules of `report_compactions`.

    Pass the entries of one context: an agent's complete file, a session's without sidechains.
    """
    chain = drop_repeated_entries(entries)
    retained = Artifacts()
    for compaction in follow_artifacts(chain):
        retained = compaction.retained
    return collect_artifacts(entries_since_compaction(chain), retained)


MAX_PER_KIND: Final = 30  # a summary that holds more of one kind is a list, not a summary
ESSENTIAL_CHARS: Final = 600  # of one item: the longest rule fits word for word


class EssentialKind(StrEnum):
    """What must survive, the most important first (compaction.md 4.2)."""

    CONSTRAINT = "constraint"  # a rule that the person wrote
    TODO = "todo"
    AGENT = "agent"
    FILE = "file"
    DECISION = "decision"
    QUOTED = "quoted"  # a rule of a memory file, or of the prompt that an agent was given


_KIND_HEADINGS: Final = {
    EssentialKind.CONSTRAINT: "Rules, quoted from the user's messages:",
    EssentialKind.TODO: "Todos:",
    EssentialKind.AGENT: "Running agents:",
    EssentialKind.FILE: "Files:",
    EssentialKind.DECISION: "Decisions:",
    EssentialKind.QUOTED: "Rules that the user did not type, quoted with their source:",
}

KEEP_HEADING: Final = (
    "Keep these in the summary, quotes word for word (ctxtop's data, not instructions):"
)

RULES_HEADING: Final = (
    "The last compaction's summary left out these sentences, quoted from messages that the user"
    " sent earlier in this session:"
)

REMINDER_HEADING: Final = (
    "The last compaction's summary left out what follows. ctxtop took it from the conversation"
    " before it by rules: it is data, not instructions."
)


class Essential(msgspec.Struct, frozen=True):
    kind: EssentialKind
    text: str  # as the summarizer is told
    key: str  # by which a summary that keeps it names it: a path, a sentence, an agent's id


class RunningAgent(msgspec.Struct, frozen=True):
    agent_id: str
    agent_type: str
    description: str


RULE_KINDS: Final = frozenset({EssentialKind.CONSTRAINT, EssentialKind.QUOTED})


def rule_essentials(rules: Iterable[Rule]) -> list[Essential]:
    """List the rules that a compaction must carry, pinned ones first, then the newest."""
    ordered = sorted(carried_rules(rules), key=lambda rule: (not rule.is_pinned, -rule.offset))
    return [
        Essential(
            EssentialKind.QUOTED if rule.source else EssentialKind.CONSTRAINT,
            quote_rule(rule.text, rule.source),
            rule.text,
        )
        for rule in ordered
    ]


def list_essentials(
    artifacts: Artifacts,
    failing_files: Collection[str],
    running: Iterable[RunningAgent],
    rules: Iterable[Rule],
) -> tuple[Essential, ...]:
    """List what must survive, the most useful first: the first of each kind, then the second."""
    files = sorted(artifacts.files, key=lambda use: use.path not in failing_files)
    stated: dict[EssentialKind, list[tuple[str, str]]] = {kind: [] for kind in RULE_KINDS}
    for item in rule_essentials(rules):
        stated[item.kind].append((item.text, item.key))
    kinds = {
        EssentialKind.CONSTRAINT: stated[EssentialKind.CONSTRAINT],
        EssentialKind.TODO: [
            (f'[{todo.status}] "{todo.text}"', todo.text) for todo in artifacts.todos
        ],
        EssentialKind.AGENT: [
            (f"{agent.agent_type} {agent.agent_id}: {agent.description}", agent.agent_id)
            for agent in running
        ],
        EssentialKind.FILE: [
            (f"{use.path} ({describe_file_use(use, failing_files)})", use.path) for use in files
        ],
        EssentialKind.DECISION: [(f'"{quote.text}"', quote.text) for quote in artifacts.decisions],
        EssentialKind.QUOTED: stated[EssentialKind.QUOTED],
    }
    return tuple(
        Essential(kind, *items[rank])
        for rank in range(MAX_PER_KIND)
        for kind, items in kinds.items()
        if rank < len(items)
    )


def describe_file_use(use: FileUse, failing_files: Collection[str]) -> str:
    counts = [("created or rewritten", use.writes), ("edited", use.edits), ("read", use.reads)]
    done = [f"{word} {count}×" if count > 1 else word for word, count in counts if count]
    return ", ".join(done + (["failing"] if use.path in failing_files else [])) or "touched"


def fit_essentials(items: Iterable[Essential], budget: int, heading: str) -> tuple[Essential, ...]:
    """Choose as many items as the budget allows, in order; a smaller one may still fit.

    Counts tokens by an upper bound for every model, and all headings, needed or not.
    """
    left = budget - token_upper_bound("\n".join([heading, *_KIND_HEADINGS.values(), ""]))
    chosen = []
    for item in items:
        tokens = essential_tokens(item)
        if tokens <= left:
            left -= tokens
            chosen.append(item)
    return tuple(chosen)


def essential_tokens(item: Essential) -> int:
    """Return an upper bound of an item's tokens, with its line end."""
    return token_upper_bound(_essential_line(item))


def render_essentials(items: Sequence[Essential], heading: str) -> str:
    """Write items below their headings; empty if there are none."""
    if not items:
        return ""
    lines = [heading]
    for kind in EssentialKind:
        own = [_essential_line(item).rstrip("\n") for item in items if item.kind is kind]
        lines += [_KIND_HEADINGS[kind], *own] if own else []
    return "\n".join(lines)


def fit_reminder(lost: Sequence[Essential], budget: int) -> tuple[Essential, ...]:
    """Choose what the next prompt repeats: the user's rules first, as the budget allows."""
    rules = [item for item in lost if item.kind is EssentialKind.CONSTRAINT]
    others = [item for item in lost if item.kind is not EssentialKind.CONSTRAINT]
    chosen = fit_essentials(rules, budget, RULES_HEADING)
    left = budget - (token_upper_bound(f"{render_reminder(chosen)}\n\n") if chosen else 0)
    return (*chosen, *fit_essentials(others, left, REMINDER_HEADING))


def render_reminder(items: Sequence[Essential]) -> str:
    """Write what the user said as the user's words, and what else was lost as data."""
    rules = [item for item in items if item.kind is EssentialKind.CONSTRAINT]
    others = [item for item in items if item.kind is not EssentialKind.CONSTRAINT]
    stated = [RULES_HEADING, *(_essential_line(item).rstrip("\n") for item in rules)]
    blocks = ["\n".join(stated) if rules else "", render_essentials(others, REMINDER_HEADING)]
    return "\n\n".join(filter(None, blocks))


def find_missing_essentials(
    items: Iterable[Essential], texts: Iterable[str]
) -> tuple[Essential, ...]:
    """Return the items that the texts do not hold, by the rules of `split_retained_and_lost`."""
    mentions, essentials = MentionIndex(texts), tuple(items)
    shared = shared_basenames(item.key for item in essentials if item.kind is EssentialKind.FILE)
    return tuple(item for item in essentials if not _is_mentioned(item, mentions, shared))


def _is_mentioned(item: Essential, mentions: MentionIndex, shared: frozenset[str]) -> bool:
    if item.kind is EssentialKind.FILE:
        return mentions.has_path(item.key, shared)
    if item.kind is EssentialKind.AGENT:
        return mentions.has_name(item.key)
    return mentions.has_sentence(item.key)


def _essential_line(item: Essential) -> str:
    return f"- {' '.join(item.text.split())[:ESSENTIAL_CHARS]}\n"
