"""Lines that no answer has counted yet: they are measured, and all others only passed by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.conversation import Role
from ...core.counter import client_estimate
from ...core.keys import text_key
from ...core.store.facts import AdditionFact
from .conversation import read_entry

if TYPE_CHECKING:
    from .pieces import Call


class Pending:
    """Lines of one run since its last answer began, and those before each boundary."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, memoryview]] = []
        self._message_id: str | None = None
        self._said_at = 0
        self._ended: AdditionFact | None = None
        self._found: list[AdditionFact] = []

    def add(self, offset: int, line: memoryview) -> None:
        """Take in a line that the next request may hold."""
        self._lines.append((offset, line))

    def answer(self, offset: int, line: memoryview, message_id: str | None) -> None:
        """Take in an answer's line: what stands before another answer is counted in this one.

        Whether the first one that is met goes on from an earlier run only the store knows.
        """
        if self._message_id not in {None, message_id}:
            # What the store has of an earlier run is over as well.
            self._ended = AdditionFact(self._said_at, text_key(self._message_id or ""), 0)
            self._lines.clear()
        self._said_at = offset
        self._message_id = message_id or f"at {offset}"
        self._lines.append((offset, line))

    def compacted(self) -> None:
        """Measure what stands before a boundary; the next answer begins anew."""
        self._measure()
        self._message_id = None

    def to_facts(self) -> tuple[AdditionFact, ...]:
        """Measure what is left, and hand over what was found."""
        self._measure()
        return tuple(self._found)

    def _measure(self) -> None:
        if self._ended:
            self._found.append(self._ended)
            self._ended = None
        calls: dict[str, Call] = {}
        for offset, line in self._lines:
            entry = read_entry(offset, bytes(line), calls)
            if entry is None or entry.hidden:
                continue
            tokens = sum(map(client_estimate, entry.pieces))
            message = None
            if entry.role is Role.ASSISTANT:
                message = text_key(entry.message_id or f"at {offset}")
            if tokens or message is not None:
                self._found.append(AdditionFact(offset, message, tokens))
        self._lines.clear()
