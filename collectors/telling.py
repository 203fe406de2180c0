"""Telling of compactions: their files are read whole, once, after they were scanned."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..core.store.facts import FileKind
from ..core.store.told_writer import ToldRow, ToldWriter
from .clean import clean_text
from .folder import unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.store.told_writer import Untold
    from ..core.store.writer import Writer
    from ..core.told import Told
    from .folder import ClaudeFolder
    from .surroundings.tell import Tell

TELL_S: Final = 0.25
"""Between two looks at what has changed: after that long no further file is begun."""


class Telling:
    """Tells of the compactions that the store knows; it belongs to the collector's thread."""

    def __init__(self, folder: ClaudeFolder, writer: Writer, tell: Tell) -> None:
        self._folder: Final = folder
        self._writer: Final = ToldWriter(writer)
        self._problems: Final = tell
        # Files that did not hold what the store says: they are looked at when read further.
        self._incomplete: dict[str, int] = {}

    def run(self, seconds: float) -> frozenset[str]:
        """Tell of the newest compactions first, for about so long; name the sessions told of.

        A file that cannot be read is a trouble, and is tried again at the next look.
        """
        from ..core.told import ENGINE  # with all the rules: not before the first paint

        until = time.monotonic() + seconds
        sessions = set()
        for untold in self._writer.pending(ENGINE):
            if self._incomplete.get(untold.path) == untold.read_to:
                continue
            if self._report_file(untold, ENGINE):
                sessions.add(untold.session_id)
            if time.monotonic() >= until:
                break
        return frozenset(sessions)

    def _report_file(self, untold: Untold, engine: int) -> bool:
        try:
            rows = self._read(untold)
        except (FileNotFoundError, NotADirectoryError):
            # The scan notes that it is gone.
            return False
        except OSError as error:
            self._problems.report(unreadable(untold.path, error))
            return False
        self._problems.resolve(untold.path)
        self._writer.save(untold.file_id, engine, rows)
        if len(rows) < len(untold.boundaries):
            self._incomplete[untold.path] = untold.read_to
        return bool(rows)

    def _read(self, untold: Untold) -> list[ToldRow]:
        from ..core.told import Told, pack, tell
        from .transcripts.cleared import read_shown
        from .transcripts.conversation import read_conversation

        path = self._folder.projects / untold.path
        entries = read_conversation(path)
        aside = {
            entry.offset
            for entry in entries
            if entry.boundary and entry.sidechain and untold.kind is FileKind.SESSION
        }
        # A session's sidechains are agents' (clients up to 2.0), not of its own context.
        own = [each for each in entries if untold.kind is FileKind.AGENT or not each.sidechain]
        told = {entry.offset: each for entry, each in tell(own, read_shown(path))}
        told |= dict.fromkeys(aside, Told())
        return [
            ToldRow(offset, uuid, pack(_cleaned(told[offset])))
            for offset, uuid in untold.boundaries
            if offset in told
        ]


def _cleaned(told: Told) -> Told:
    """Take out of what was said what a terminal could obey."""
    return msgspec.convert(_each_text(clean_text, msgspec.to_builtins(told)), type(told))


def _each_text(clean: Callable[[str], str], value: Any) -> Any:  # noqa: ANN401 -- any JSON
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {name: _each_text(clean, each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_each_text(clean, each) for each in value]
    return value
