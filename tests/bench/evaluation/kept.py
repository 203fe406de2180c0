"""Q2, Q7, Q8: the person's words, files that were touched, rules and decisions."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.artifacts import (
    collect_artifacts,
    parse_tool_input,
    shared_basenames,
)
from ctxtop.core.summaries.decision_patterns import RULE_PATTERN, find_decisions, find_sentences
from ctxtop.core.summaries.key_messages import persons_words
from ctxtop.core.summaries.mentions import MentionIndex, strip_pasted_text

from .share import Share
from .texts import SPOKEN, pieces_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctxtop.core.model.conversation import Entry
    from ctxtop.core.summaries.artifacts import FileUse

DECIDED_IN: Final = frozenset({PartKind.PROMPT, PartKind.TEXT})

_QUOTATION: Final = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
_REMOVED: Final = re.compile(r"(?:^|[;&|]\s*)(?:git )?rm\s+((?:-\S+\s+)*)([^\s;&|-][^\s;&|]*)")


def user_text_kept(original: Sequence[Entry], compacted: Sequence[Entry]) -> Share:
    """Return how many bytes of the user's prompts are kept verbatim (Q2).

    A prompt counts as a whole or not at all. A summary keeps one by quoting it word for word, with
    any quotation marks before its lines.
    """
    standing = Counter(
        piece.text for piece in pieces_of(compacted) if piece.kind is PartKind.PROMPT
    )
    quoted = _unquoted("\n".join(texts_of(compacted, frozenset({PartKind.SUMMARY}))))
    kept = whole = 0
    for piece in pieces_of(original):
        if piece.kind is not PartKind.PROMPT:
            continue
        size = len(piece.text.encode("utf-8", "surrogatepass"))
        whole += size
        if standing[piece.text] > 0:
            standing[piece.text] -= 1
            kept += size
        elif (words := _unquoted(piece.text)) and words in quoted:
            kept += size
    return Share(kept, whole)


def artifact_recall(original: Sequence[Entry], compacted: Sequence[Entry]) -> Share:
    """Return for how many touched files the context still records what was done to them (Q7).

    Either the calls themselves remain (the same number of reads, edits and writes, or a removal),
    or a summary or result names the file, with its folder if its name is ambiguous.
    """
    true = _files(original)
    left = _files(compacted)
    summary = MentionIndex(texts_of(compacted, frozenset({PartKind.SUMMARY})))
    shared = shared_basenames(true)
    kept = sum(
        left.get(path) == use or summary.has_path(path, shared) for path, use in true.items()
    )
    gone = _removed(original)
    kept += len([path for path in gone if path in _removed(compacted) or summary.has_path(path)])
    return Share(kept, len(true) + len(gone))


def artifact_precision(original: Sequence[Entry], compacted: Sequence[Entry]) -> Share:
    """Return how many of the files recorded as touched really were touched (Q7)."""
    true = _files(original)
    left = _files(compacted)
    return Share(sum(path in true for path in left), len(left))


def constraints_of(entries: Sequence[Entry]) -> list[str]:
    """List the person's rules: sentences with must, never, always and the like (Q8)."""
    return list(
        dict.fromkeys(
            sentence
            for entry in entries
            for words in persons_words(entry)
            for sentence in find_sentences(RULE_PATTERN, words)
        )
    )


def constraints_kept(rules: Iterable[str], compacted: Sequence[Entry]) -> Share:
    """Return how many rules remain, verbatim or mostly within one passage (Q8)."""
    spoken = MentionIndex(texts_of(compacted, SPOKEN))
    found = [spoken.has_sentence(rule) for rule in rules]
    return Share(sum(found), len(found))


def decisions_of(entries: Sequence[Entry]) -> list[str]:
    """List the sentences in which the person or the model decided something."""
    return list(
        dict.fromkeys(
            sentence
            for piece in pieces_of(entries)
            if piece.kind in DECIDED_IN
            for sentence in find_decisions(strip_pasted_text(piece.text))
        )
    )


def decisions_kept(decisions: Iterable[str], compacted: Sequence[Entry]) -> Share:
    """Return how many decisions remain, verbatim or mostly within one passage."""
    said = MentionIndex(texts_of(compacted, DECIDED_IN | SPOKEN))
    found = [said.has_sentence(decision) for decision in decisions]
    return Share(sum(found), len(found))


def _unquoted(text: str) -> str:
    return " ".join(_QUOTATION.sub("", text).split())


def _files(entries: Sequence[Entry]) -> dict[str, tuple[int, int, int]]:
    return {use.path: _counts(use) for use in collect_artifacts(entries).files}


def _counts(use: FileUse) -> tuple[int, int, int]:
    return use.reads, use.edits, use.writes


def _removed(entries: Sequence[Entry]) -> set[str]:
    found: set[str] = set()
    for piece in pieces_of(entries):
        if piece.kind is PartKind.TOOL_INPUT and piece.name == "Bash":
            command = parse_tool_input(piece).get("command")
            if isinstance(command, str):
                found.update(path for _, path in _REMOVED.findall(command))
    return found
