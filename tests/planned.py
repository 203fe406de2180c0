"""Views and plans of transcripts made by hand, and what is left when a plan is carried out."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ctxtop.core.compaction.plan import (
    DEFAULT_OPTIONS,
    PlanOptions,
    RemoveLine,
    ReplaceValue,
    Severity,
)
from ctxtop.core.compaction.transcript_planning import STRATEGIES, PlanDraft
from ctxtop.core.compaction.transcript_reading import PlanSource, read_transcript_view
from ctxtop.core.compaction.transcript_view import open_transcript
from ctxtop.core.files.json_spans import replace_value
from ctxtop.core.measure.token_estimate import Estimator
from ctxtop.core.model.claude_models import LARGE_WINDOW
from ctxtop.core.model.conversation import PartKind, newest_model
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ctxtop.core.compaction.plan import CompactionPlan, Operation
    from ctxtop.core.compaction.transcript_view import TranscriptView

    from .worked import Session

COUNTERS = Estimator({})
SHORT = PlanOptions(
    level=Severity.SUPERSEDED.value, keep=2, min_tail_tokens=1_000, max_task_tokens=40_000
)
"""Options for short stories: what stays at the end is short too, and holds the last prompt."""


def short(level: Severity, target_tokens: int | None = None) -> PlanOptions:
    """Options for short stories, up to a level, to stop at a size; the window is large."""
    share = None if target_tokens is None else target_tokens / LARGE_WINDOW
    return replace(SHORT, level=level.value, target=share)


def source_of(path: Path, live: str | None = None) -> PlanSource:
    """A transcript whose tokens are estimated without samples."""
    return PlanSource("s", path, COUNTERS.for_model, open_in=live)


def plan_transcript(source: PlanSource, options: PlanOptions = DEFAULT_OPTIONS) -> CompactionPlan:
    """Plan how to make a transcript smaller."""
    with open_transcript(source.path) as file:
        return PlanDraft(source, file, options).plan()


@contextmanager
def view_of(path: Path, options: PlanOptions = SHORT) -> Iterator[TranscriptView]:
    """What strategies see of a transcript."""
    with open_transcript(path) as file:
        yield read_transcript_view(source_of(path), file, file.scan(), options)


def found_by(strategy: str, session: Session, folder: Path) -> list[Operation]:
    """What one strategy finds in a session; each of its operations frees what it says."""
    path = session.write(folder / "session.jsonl")
    [chosen] = [each for each in STRATEGIES if each.name == strategy]
    with view_of(path) as view:
        found = list(chosen.find_operations(view))
    for operation in found:
        assert operation.strategy == strategy
        assert operation.level is chosen.level
        assert operation.edits
        assert "\n" not in operation.what + operation.why
        after = carried_out([operation], path.read_bytes())
        assert path.stat().st_size - len(after) == operation.bytes_saved
        freed = tokens_of(path.read_bytes(), folder) - tokens_of(after, folder)
        assert freed == freed_by([operation])
    after = carried_out(found, path.read_bytes())
    again = folder / "again.jsonl"
    again.write_bytes(after)
    with view_of(again) as view:
        assert list(chosen.find_operations(view)) == []
    return found


def plan_of(path: Path, options: PlanOptions = SHORT, live: str | None = None) -> CompactionPlan:
    """A plan for a transcript."""
    return plan_transcript(source_of(path, live), options)


def tokens_of(data: bytes, folder: Path) -> int:
    """The tokens of a transcript's pieces, counted anew; those of thoughts are left out.

    Of a thought it is known only what its answer's output has beyond its words and calls: an
    answer whose call was stubbed would seem to have thought more.
    """
    path = folder / "counted.jsonl"
    path.write_bytes(data)
    # Not by a view: what older answers saw is no measure of lines that were edited since.
    sent = visible_entries(read_entries(path))
    counter = COUNTERS.for_model(newest_model(sent))
    parts = (part for entry in sent for part in entry.parts)
    return sum(counter.tokens(part) for part in parts if part.kind is not PartKind.THINKING)


def freed_by(operations: Iterable[Operation]) -> int:
    """What operations free, without thoughts."""
    return sum(each.tokens_saved for each in operations if each.level is not Severity.REASONING)


def carried_out(operations: Iterable[Operation], data: bytes) -> bytes:
    """The bytes of a transcript after some operations, in the plainest way."""
    lines = data.split(b"\n")
    for operation in operations:
        for edit in operation.edits:
            if isinstance(edit, ReplaceValue):
                number = edit.line - 1
                lines[number] = replace_value(lines[number], edit.pointer, edit.value.encode())
    gone = {
        edit.line - 1
        for operation in operations
        for edit in operation.edits
        if isinstance(edit, RemoveLine)
    }
    return b"\n".join(line for number, line in enumerate(lines) if number not in gone)
