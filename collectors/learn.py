"""Learning from transcripts how far our token counts are off, a little at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ..core.calibration import sample_of
from ..core.growth import Steps
from ..core.store.growth_queries import unlearnt
from ..core.store.growth_writer import GrowthWriter, Learnt
from ..core.text_count import count_text
from .transcripts.conversation import entries_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ..core.growth import Step
    from ..core.store.growth_queries import Unlearnt
    from ..core.store.writer import Writer
    from ..core.text_count import TextCount

SLICE_S: Final = 0.03
"""Of one turn of learning: what changes meanwhile waits that long and no longer."""

SAVE_S: Final = 2.0
"""Between two times that what a file taught is stored: the screen hears of each."""

LOOK_S: Final = 10.0
"""Between two looks for files to learn from: each reads the list of all files."""

FILES_AT_ONCE: Final = 20
"""How many are listed at one look: whether an older one is worth reading changes meanwhile."""

RUN_BYTES: Final = 64 * 1024 * 1024
"""Of files that nothing was learnt from before, in one run; the rest is for the next run.
Client 2.1.329 writes up to 0.15 MB a step, so the samples of a model are in about 40 MB."""

LONGEST_STEP: Final = 400_000
"""Characters that one step may have added: counting as many takes 0.05 s."""


class Learner:
    """Learns from the newest sessions first, from each step once; it belongs to one thread."""

    def __init__(
        self,
        projects: Path,
        writer: Writer,
        report_session: Callable[[str], None],
        count: Callable[[str], TextCount] = count_text,
    ) -> None:
        self._projects: Final = projects
        self._writer: Final = writer
        self._report_session: Final = report_session
        """Hears which session was learnt from."""
        self._growth: Final = GrowthWriter(writer, count)
        self._waiting: list[Unlearnt] = []
        self._file: _File | None = None
        self._looked_at = float("-inf")
        self._changes = -1
        self._bytes_left = RUN_BYTES

    def run(self, seconds: float = SLICE_S) -> bool:
        """Learn for about as long, a line at least; False where nothing is left for now."""
        deadline = time.monotonic() + seconds
        while file := self._file or self._next():
            self._file = file if self._read(file, deadline) else None
            if time.monotonic() >= deadline:
                return True
        return False

    def _next(self) -> _File | None:
        if not self._waiting:
            self._list_files()
        while self._waiting:
            source = self._waiting.pop(0)
            if source.examined_to or self._bytes_left > 0:
                return _File(self._projects / source.path, source)
        return None

    def _list_files(self) -> None:
        changes, now = self._writer.connection.total_changes, time.monotonic()
        if changes != self._changes and now - self._looked_at >= LOOK_S:
            self._changes, self._looked_at = changes, now
            self._waiting = unlearnt(self._writer.connection, FILES_AT_ONCE)

    def _read(self, file: _File, deadline: float) -> bool:
        """Go on with a file; True where there is more of it."""
        try:
            file.samples += self._take_samples(file, deadline)
        except OSError:
            # The scan tells of a file that cannot be read; here there is nothing to learn.
            return False
        if not file.is_over and time.monotonic() < file.save_at:
            return True
        return self._save(file) and not file.is_over

    def _save(self, file: _File) -> bool:
        """Store what was found; True where more of the file may be read."""
        if not self._growth.save(file.source, file.samples, file.resume, file.seen):
            return False
        if file.is_new:
            self._bytes_left -= file.seen - file.source.examined_to
        file.mark_saved()
        self._report_session(file.source.session_id)
        return self._bytes_left > 0 or not file.is_new

    def _take_samples(self, file: _File, deadline: float) -> Iterator[Learnt]:
        for step in file.steps():
            sample = sample_of(step, self._growth.count) if step and _is_short(step) else None
            if step and sample:
                yield Learnt(step, sample)
            if time.monotonic() >= deadline:
                return


class _File:
    """A file that is learnt from, and how far that has come."""

    def __init__(self, path: Path, source: Unlearnt) -> None:
        self.source = source
        self.samples: list[Learnt] = []
        """What is still to be stored."""
        self.save_at = time.monotonic() + SAVE_S
        self.is_new: Final = source.examined_to == 0
        self.is_over = False
        self.seen = source.resume_offset
        self._entries: Final = entries_from(path, source.resume_offset)
        self._steps: Final = Steps()

    @property
    def resume(self) -> int:
        """Where the answer stands whose successor is still to come."""
        return self.seen if self._steps.resume_offset is None else self._steps.resume_offset

    def mark_saved(self) -> None:
        """Take over that everything was stored."""
        self.source = replace(self.source, resume_offset=self.resume, examined_to=self.seen)
        self.samples, self.save_at = [], time.monotonic() + SAVE_S

    def steps(self) -> Iterator[Step | None]:
        """Go on, entry by entry; raises OSError where the file cannot be read."""
        for entry in self._entries:
            self.seen = entry.offset + entry.length + 1
            yield self._steps.add(entry)
        self.seen = max(self.seen, self.source.size)
        self.is_over = True


def _is_short(step: Step) -> bool:
    return sum(len(piece.text) for piece in (*step.answer_parts, *step.added_parts)) <= LONGEST_STEP
