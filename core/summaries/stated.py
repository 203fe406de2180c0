"""Sentences that lay down a rule, or that say what was decided: not all that hold such a word.

A cue (`cues`) stands in many sentences that only describe: "the prompt never warns", "a hash
rather than a name". What is told of a compaction needs the few that bind. The labelled
sentences of the recorded sessions (`tests/bench/bench_stated.py`) say how well that is found.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .cues import CONSTRAINT, DECISION, REASON, sentences_with

if TYPE_CHECKING:
    from collections.abc import Iterator

# Where a command may begin: at the sentence's start, or after what introduces a clause.
_BEGIN: Final = (
    r"(?:^|[,;:(—–]\s*|\b(?:and|but|so|or|then|please|also|just)\s+)"
    r"(?:(?:and|but|so|or|then|please|also|just|you)\s+)*"
)
_NOT_COMMANDED: Final = r"(?:know|think|see|mind|care|remember|understand|believe|worry)\b"
_BINDS: Final = r"(?:must|should|shall|will|would|may|have to|has to|need to|needs to|ought to)"

_WE_WILL: Final = r"(?:let[’']s|we[’']ll|I[’']ll|we will|I will|let me)"

_RULE: Final = re.compile(
    rf"{_BEGIN}(?:never|always|do not|don[’']t|prefer|make sure|(?:ensure|be sure)\b)"
    rf"(?!\s+{_NOT_COMMANDED})(?=\s+\w)"
    rf"|{_BEGIN}only\s+(?!because|if\b|then|one\b|two\b|a\b|an\b)"
    r"(?:\w+(?<!ed)(?<!s)\s+(?:(?:it|them|this|that)\s+)?(?:when|if|for|in|on|the|what|these|those|to)\b)"
    r"|^(?!there|this|that|it|these|the|a|an|i|we|they|he|she)[a-z]+\s+only\b"
    rf"|\b{_BINDS}\s+(?:only|never|always|not)\b(?!\s+be\s+(?:able|possible))"
    r"|\bmust(?:n[’']t)?\s+(?!have\b|admit\b)\w"
    r"|\bonly\s+(?:the|this|that|these|those)\s[\w\s-]{1,40}?\b(?:should|must|may)\b"
    r"|\bonly\s+(?:be\s+)?\w+ed\s+(?:when|if)\b|\bonly\s+(?:be\s+)?(?:shown|run|sent|built)\s+(?:when|if)\b"
    r"|\b(?:make|keep|keeps?)\b[\w\s'’-]{1,60}?\balways\b"
    r"|\bI(?:\s+\w+)?\s+prefer\b|\bno longer\s+(?:to\s+)?be\b.*\b(?:should|must)\b"
    r"|\b(?:is|are)\s+(?:forbidden|required to|not allowed)\b|^forbidden\b"
    r"|지\s?마(?:세요|라|십시오)?(?![가-힣])|지\s?말(?:고|아|것|라)|반드시|항상|절대|금지",
    re.IGNORECASE,
)
"""A command, an obligation or a restriction, in the words of the person who lays it down."""

_NO_RULE: Final = re.compile(
    r"\?\s*$|\bcan always\b|\bwould be to\b|\bcould\b(?!.*\bmust\b)|\bbug\b|\broot cause\b"
    r"|\b(?:don[’']t|do not) (?:know|think|see|mind|care)\b",
    re.IGNORECASE,
)
"""A question, a possibility, a fault that is described, and what somebody does not know."""

_DECIDED: Final = re.compile(
    r"\b(?:I|we|you)(?:\s+(?:have|had|then|also|finally)|[’']ve)?\s+"
    r"(?:decided\b(?! whether)|chose\b|opted\b|settled\b|agreed\b|picked\b|made the call\b"
    r"|went with\b)"
    r"|^(?:decided (?:to|on|against|that)|chose|opted|settled on|agreed (?:on|to)|picked"
    r"|accepted|kept|dropped|rejected|going with|went with|sticking with)\b"
    r"|^(?:\w+\s+)?decision:\s*\S"
    rf"|\b{_WE_WILL}\s+(?:use|go with|keep|stick with|switch)\b"
    rf"|\b{_WE_WILL}\s[^.]*\b(?:instead of|rather than)\b"
    r"|^rather than\b.*\b(?:I|we)(?:[’']ll| will)\b"
    r"|\b(?:becomes?|stays?|is (?:deleted|kept|dropped|removed|replaced))\b[^.]*\brather than\b"
    r"|^\w+ing\b.*\brather than\b.*\bwas right\b"
    r"|\bnot (?:the|a|an)\b[^.,;]{1,60},?\s+because\b"
    r"|\bdecided once\b|\bswitched (?:to|from)\b.*\b(?:because|so that|for)\b|^last stop because\b"
    r"|결정(?:했|하였|함|됨|됐|되었|합니다|:)|하기로|선택(?:했|하겠|함)|대신.*(?:사용|쓰|하겠|합니다|했)",
    re.IGNORECASE,
)
"""A choice that somebody says was made, or makes by saying it."""

_NOT_DECIDED: Final = re.compile(
    r"\?\s*$|\b(?:needs? (?:to be )?a decision|to decide|undecided|should (?:we|I)|tell me if)\b",
    re.IGNORECASE,
)
"""A decision that is still to be made."""


def rules_in(text: str) -> Iterator[str]:
    """Yield the sentences of a person's text that lay down a rule, in their order."""
    for sentence in sentences_with(CONSTRAINT, text):
        if _RULE.search(sentence) and not _NO_RULE.search(sentence):
            yield sentence


def decisions_in(text: str) -> Iterator[str]:
    """Yield the sentences that say what was decided, in their order, each once."""
    seen: set[str] = set()
    for cue in (DECISION, REASON):
        for sentence in sentences_with(cue, text):
            if sentence in seen:
                continue
            seen.add(sentence)
            if _DECIDED.search(sentence) and not _NOT_DECIDED.search(sentence):
                yield sentence
