"""Lines that no answer has counted yet: they are measured, and all others only passed by."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ...core.counter import EXACT_OUTPUT_FROM, client_estimate
from ...core.keys import text_key
from ...core.models import parse_version
from ...core.store.facts import AdditionFact
from .conversation import read_entry

if TYPE_CHECKING:
    from .pieces import Call


class Pending:
    """Lines of one run since its last answer began, and those before each boundary."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, memoryview | None, str | None]] = []
        self._message_id: str | None = None
        self._from_file_start = False
        self._answer_offset = 0
        self._ended_earlier: AdditionFact | None = None
        self._facts: list[AdditionFact] = []

    def mark_file_start(self) -> None:
        """Hear that the run is a file's first: nothing stands before it."""
        self._from_file_start = True

    def add(self, offset: int, line: memoryview) -> None:
        """Take in a line that the next request may hold."""
        self._lines.append((offset, line, None))

    def add_answer(self, offset: int, line: memoryview | None, message_id: str | None) -> None:
        """Take in an answer's line: what stands before another answer is counted in this one.

        No line is given where the API's count of the output is exact. Whether the first
        answer that is met goes on from an earlier run only the store knows.
        """
        who = message_id or f"at {offset}"
        if self._message_id != who and (self._message_id or self._from_file_start):
            if self._message_id and not self._from_file_start:
                # What the store has of an earlier run is over as well.
                self._ended_earlier = AdditionFact(
                    self._answer_offset, text_key(self._message_id), 0
                )
            self._lines.clear()
        self._answer_offset = offset
        self._message_id = who
        self._lines.append((offset, line, who))

    def measure_at_boundary(self) -> None:
        """Measure what stands before a boundary; the next answer begins anew."""
        self._measure()
        # A boundary that is appended again is none to the store.
        self._message_id, self._from_file_start = None, False

    def to_facts(self) -> tuple[AdditionFact, ...]:
        """Measure what is left, and hand over what was found."""
        self._measure()
        return tuple(self._facts)

    def _measure(self) -> None:
        if self._ended_earlier:
            self._facts.append(self._ended_earlier)
            self._ended_earlier = None
        calls: dict[str, Call] = {}
        for offset, line, who in self._lines:
            tokens = 0 if line is None else _tokens(offset, line, calls)
            if tokens or who is not None:
                message = None if who is None else text_key(who)
                self._facts.append(AdditionFact(offset, message, tokens))
        self._lines.clear()


@lru_cache(maxsize=64)
def has_exact_output(version: str | None) -> bool:
    """Say whether clients of a version write the whole output of an answer into each line."""
    parsed = parse_version(version)
    return parsed is not None and parsed >= EXACT_OUTPUT_FROM


def _tokens(offset: int, line: memoryview, calls: dict[str, Call]) -> int:
    entry = read_entry(offset, bytes(line), calls)
    return 0 if entry is None or entry.hidden else sum(map(client_estimate, entry.parts))
