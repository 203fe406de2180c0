"""The words by which a sentence is known to decide or to forbid something."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

DECISION: Final = re.compile(
    r"\b(?:decided|decision|(?:we|I|you) chose|chosen|opted (?:for|to)|settled on|agreed (?:on|to)"
    r"|instead of|rather than|going with|(?:let's|we'll|I'll|we will|I will) (?:use|go with|keep)"
    r"|switched (?:to|from))\b"
    r"|결정|하기로|대신|선택(?:했|하겠|함)",
    re.IGNORECASE,
)
"""A decision (compaction.md 4.3: decided, chose, instead of); Korean beside English."""

REASON: Final = re.compile(r"\b(?:because|the reason)\b|때문에|이므로", re.IGNORECASE)
"""A reason, which is a decision's where the sentence names something (compaction.md 4.3)."""

CONSTRAINT: Final = re.compile(
    r"\b(?:must(?:n't)?|never|always|only|do not|don[’']t|no longer|required to|forbidden"
    r"|make sure|prefer)\b"
    r"|지\s?마(?:세요|라|십시오)?(?![가-힣])|지\s?말(?:고|아|것|라)|반드시|항상|절대|금지",
    re.IGNORECASE,
)
"""A person's rule (compaction.md 4.2, Q8); Korean beside English."""

SHORTEST_SENTENCE: Final = 8
"""Characters: a shorter one ("Don't!") names nothing that a summary could hold."""

LONGEST_SENTENCE: Final = 500
"""Characters: a longer run without an end is no sentence, but a table, a log or code."""

QUOTE_CHARS: Final = 180
"""Of a sentence that is shown: two lines of a terminal."""

_FENCED: Final = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_END: Final = re.compile(r"[.!?…](?=\s|$)|[。！？]|\n")
_MARKS: Final = re.compile(r"^(?:[-*+>#|]+|\d+[.)])\s+|^[\s*_>#|]+|[\s*_|]+$")


def sentences_with(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Give the sentences of a text that hold a cue, in their order, each once; code is left out.

    White space is made one space, and the marks of a list or a heading are taken off.
    """
    if not pattern.search(text):
        return
    if "```" in text:
        text = _FENCED.sub("\n", text)
    done = 0
    for found in pattern.finditer(text):
        if found.start() < done:
            continue
        begin, done = _around(text, found.start(), found.end())
        if done - begin > LONGEST_SENTENCE:
            continue
        sentence = " ".join(_MARKS.sub("", text[begin:done].strip()).replace("**", "").split())
        if len(sentence) >= SHORTEST_SENTENCE:
            yield sentence


def quote(text: str, chars: int = QUOTE_CHARS) -> str:
    """Cut a text to one short line."""
    line = " ".join(text[: 4 * chars].split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def _around(text: str, start: int, end: int) -> tuple[int, int]:
    # An end further away than the longest sentence makes it no sentence: so far is looked.
    first = max(0, start - LONGEST_SENTENCE - 1)
    begin = first
    for found in _END.finditer(text, first, start):
        begin = found.end()
    after = _END.search(text, end, end + LONGEST_SENTENCE + 1)
    return begin, after.end() if after else min(len(text), end + LONGEST_SENTENCE + 1)
