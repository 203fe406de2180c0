"""What is told of a compaction: what it forgot, what was cleared, whether it is thrash."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final

from ..core import thrash
from .formats import one_line, plural, tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..core.steered import Steered
    from ..core.summaries.artifacts import FileUse
    from ..core.thrash import Culprit
    from ..core.told import Told

FILES_SHOWN: Final = 10
NAMES_SHOWN: Final = 30
SAID_SHOWN: Final = 8
"""Lines and names of one compaction; `ctxtop compactions --json` has more."""

UNKNOWN: Final = "The transcript begins at this compaction: what it forgot cannot be known."

_KINDS: Final = {
    "file_read": "reading",
    "tool_result": "the result of",
    "attachment": "the attachment",
    "agent_return": "an agent's return:",
    "prompt": "the prompt",
    "meta": "what the client wrote:",
    "answer": "the answers:",
}


def told_lines(report: Told, room: int) -> Iterator[tuple[str, str]]:
    """Tell all of it as labels and texts, a list of names wrapped at `room` cells."""
    lost = report.forgotten
    found = thrash.thrash(report.refill)
    if found:
        turns = plural(found.turns_since_last, "turn")
        yield "thrash", f"{turns} after the last one{refilled(found.culprit)}"
    if report.cleared_results:
        yield "cleared", f"{plural(report.cleared_results, 'tool result')} before it, silently"
    files = [_file(each) for each in lost.files[:FILES_SHOWN]]
    yield from _under("forgot files", _rest(files, lost.counts.files))
    names = [one_line(each.text) for each in lost.identifiers[:NAMES_SHOWN]]
    listed = ", ".join(_rest(names, lost.counts.identifiers))
    yield from _under("names", wrap(listed, room, break_on_hyphens=False))
    for label, said, count in (
        ("decisions", lost.decisions, lost.counts.decisions),
        ("todos", lost.todos, lost.counts.todos),
        ("constraints", lost.constraints, lost.counts.constraints),
    ):
        quoted = [f"{each.text} (line {each.line})" for each in said[:SAID_SHOWN]]
        yield from _under(label, _rest(quoted, count))


def steered_lines(items: Sequence[Steered]) -> Iterator[tuple[str, str]]:
    """Tell what a compaction was asked to keep, and what of it was not kept."""
    if items:
        lost = [one_line(item.text) for item in items if item.kept is False]
        said = plural(len(items), "thing") + (f", {len(lost)} not kept" if lost else "")
        yield "asked to keep", said + steering_cost(items)
        yield from _under("not kept", lost[:SAID_SHOWN])


def steering_cost(items: Sequence[Steered]) -> str:
    """Return how many tokens it took to ask; empty where nobody counted them."""
    known = [item.tokens for item in items if item.tokens is not None]
    return f", at most {tokens(sum(known))} tokens" if known else ""


def _under(label: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        yield label, text
        label = ""


def _rest(shown: list[str], count: int) -> list[str]:
    return [*shown, f"… {count - len(shown)} more"] if count > len(shown) else shown


def _file(use: FileUse) -> str:
    return f"{use.path} ({use_words(use)}; line {use.line})"


def use_words(use: FileUse) -> str:
    """Say what was done with a file, and how often."""
    done = [("written", use.writes), ("edited", use.edits), ("read", use.reads)]
    return ", ".join(f"{what} {count}×" for what, count in done if count)


def refilled(culprit: Culprit | None) -> str:
    """Say what filled the context again; empty where nothing did."""
    if culprit is None:
        return ""
    kind = _KINDS.get(culprit.kind, culprit.kind)
    size = f"≈{tokens(culprit.tokens)} tokens"
    return f", refilled most by {kind} {culprit.what}: {size} (line {culprit.line})"
