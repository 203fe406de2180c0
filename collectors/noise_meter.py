"""Measuring what saves put into their sessions: from the block's line on, after it was scanned."""

from __future__ import annotations

import time
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from ..core.store.noise_writer import NoiseWriter
from .folder import unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.conversation import Piece
    from ..core.saves.noise import Noise
    from ..core.store.noise_writer import Unmeasured
    from ..core.store.writer import Writer
    from .folder import ClaudeFolder
    from .surroundings.tell import Tell

MEASURE_S: Final = 0.1
"""Between two looks at what has changed: after that long no further block is begun."""


class NoiseMeter:
    """Measures the saves that the store knows of; it belongs to the collector's thread."""

    def __init__(
        self,
        folder: ClaudeFolder,
        writer: Writer,
        tell: Tell,
        tokens: Callable[[Piece, str | None], int],
    ) -> None:
        self._folder: Final = folder
        self._writer: Final = NoiseWriter(writer)
        self._problems: Final = tell
        self._tokens: Final = tokens

    def run(self, seconds: float) -> frozenset[str]:
        """Measure the newest saves first, for about so long; name the sessions that have more.

        A file that cannot be read is a trouble, and is tried again at the next look.
        """
        from ..core.saves.noise import ENGINE  # with all the rules: not before the first paint

        until = time.monotonic() + seconds
        sessions = set()
        for block in self._writer.pending(ENGINE):
            if self._measure_and_save(block, ENGINE):
                sessions.add(block.session_id)
            if time.monotonic() >= until:
                break
        return frozenset(sessions)

    def _measure_and_save(self, block: Unmeasured, engine: int) -> bool:
        from ..core.saves.noise import pack

        try:
            noise = self._measure(block)
        except (FileNotFoundError, NotADirectoryError):
            # The scan notes that it is gone.
            return False
        except OSError as error:
            self._problems.report(unreadable(block.path, error))
            return False
        self._problems.resolve(block.path)
        # What another Stop hook said is nobody's save, for good.
        kept, closed = (pack(noise), noise.closed) if noise else (None, True)
        self._writer.save(block, engine, kept, is_final=closed)
        return noise is not None

    def _measure(self, block: Unmeasured) -> Noise | None:
        from ..core.saves.noise import measure
        from .transcripts.conversation import entries_from

        entries = entries_from(self._folder.projects / block.path, block.offset)
        # Only what the store has read: the rest is measured with the next look.
        known = takewhile(lambda each: each.offset < block.read_to, entries)
        return measure(known, lambda piece: self._tokens(piece, block.model), block.before_tokens)
