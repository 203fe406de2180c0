"""Faults planted in our own code: whatever it raises about one session, no other must notice."""

from __future__ import annotations

import random
import re
import sqlite3
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

import msgspec
from ctxtop.collectors.claude_code import cache_ledger_reader, reader_pool, search_jobs
from ctxtop.collectors.claude_code.transcripts import left_context, line_indexer
from ctxtop.collectors.claude_code.transcripts.fact_builder import FactBuilder
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.post_scan_jobs import CompactionReportJob
from ctxtop.core.readers import fleet_reader, warning_evaluation
from ctxtop.core.readers.compliance_reader import ComplianceReader
from ctxtop.core.store.writer import Writer
from ctxtop.core.transcript import entry_decoder
from ctxtop.tui.cli import json_records, result_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator


class OddError(Exception):
    """An error that no handler names."""


def _odd_errors(chance: random.Random) -> Exception:
    return chance.choice(
        [
            OddError("planted \x1b[31m\u202e\ud800"),
            OddError("sk-ant-api03-" + "x" * 95),
            AssertionError(),
            AttributeError("'NoneType' object has no attribute 'planted'"),
            IndexError("index out of range"),
            KeyError("planted"),
            MemoryError(),
            NotImplementedError("planted " * 500),
            OSError(5, "Input/output error"),
            OverflowError("Python int too large to convert to SQLite INTEGER"),
            RecursionError("maximum recursion depth exceeded"),
            RuntimeError("generator raised StopIteration"),
            TypeError("planted() takes 1 positional argument but 2 were given"),
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
            UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
            ValueError("planted"),
            ZeroDivisionError("division by zero"),
            msgspec.ValidationError("Number out of range"),
            sqlite3.IntegrityError("UNIQUE constraint failed: planted"),
            sqlite3.InterfaceError("Error binding parameter 3: type 'planted' is not supported"),
        ]
    )


class Site(NamedTuple):
    """A function of ours that works on one session at a time."""

    owner: Any
    name: str
    is_reading: bool = True  # if it fails, the session's file is not read


SITES: Final = (
    # Reading a file.
    Site(reader_pool, "read_tail"),
    Site(reader_pool, "index_block"),
    Site(line_indexer, "_index_line"),
    Site(line_indexer, "decode_line"),
    Site(line_indexer, "_index_user_line"),
    Site(FactBuilder, "build"),
    Site(Writer, "append"),
    Site(Collector, "_task"),
    Site(Collector, "_store"),
    # The jobs after it.
    Site(entry_decoder, "decode_entry", is_reading=False),
    Site(search_jobs, "decode_entry", is_reading=False),
    Site(left_context, "estimate_left", is_reading=False),
    Site(CompactionReportJob, "_read", is_reading=False),
    Site(warning_evaluation, "_evaluate_context", is_reading=False),
    # Measuring a session, and its agents.
    Site(fleet_reader, "make_session", is_reading=False),
    Site(fleet_reader, "make_agent", is_reading=False),
    Site(fleet_reader, "attention_order", is_reading=False),
    Site(ComplianceReader, "check_agent", is_reading=False),
    Site(cache_ledger_reader, "find_rewrites", is_reading=False),
    Site(cache_ledger_reader, "judge_miss", is_reading=False),
    # Showing them.
    Site(json_records, "_session_record", is_reading=False),
    Site(json_records, "_agent_record", is_reading=False),
    Site(result_tables, "_session_title", is_reading=False),
    Site(result_tables, "_result_size", is_reading=False),
    Site(result_tables, "_summary_lines", is_reading=False),
)

SESSION: Final = re.compile(r"(\d{8})-2222-4333-8444-555555555555")
"""The id of a mutated session: its seed is the first part."""

_SESSION_BYTES: Final = re.compile(SESSION.pattern.encode())
_NAMES: Final = ("session_id", "source", "found", "path", "request", "current")


class PlantedFaults:
    """What is raised at which site about which session, and where it was."""

    def __init__(self, seeds: Collection[int]) -> None:
        self._errors: Final = {seed: _odd_errors(random.Random(seed)) for seed in seeds}
        self.met: Final[dict[int, Site]] = {}

    def site(self, seed: int) -> Site:
        return SITES[seed % len(SITES)]

    def is_unreadable(self, seed: int) -> bool:
        """Whether the error says that the file cannot be read, which is no fault of ours."""
        return isinstance(self._errors[seed], OSError)

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for site in SITES:
                real = getattr(site.owner, site.name)
                stack.enter_context(patch.object(site.owner, site.name, self._wrap(site, real)))
            yield

    def _wrap(self, site: Site, real: Callable[..., Any]) -> Callable[..., Any]:
        def raises_for_some(*given: Any, **named: Any) -> Any:  # noqa: ANN401
            seed = next((found for each in given if (found := seed_in(each)) is not None), None)
            if seed in self._errors and self.site(seed) is site:
                self.met[seed] = site
                raise self._errors[seed].with_traceback(None)
            return real(*given, **named)

        return raises_for_some


def seed_in(value: object, depth: int = 2) -> int | None:
    """Find the seed of the mutated session that an argument is about."""
    if isinstance(value, (bytes, memoryview)):
        found = _SESSION_BYTES.search(value)
        return int(found[1]) if found else None
    if isinstance(value, (str, Path)):
        named = SESSION.search(str(value))
        return int(named[1]) if named else None
    if isinstance(value, (list, tuple)):
        return next((seed for each in value[:2] if (seed := seed_in(each)) is not None), None)
    if depth == 0:
        return None
    attributes = (getattr(value, name, None) for name in _NAMES)
    return next(
        (seed for each in attributes if (seed := seed_in(each, depth - 1)) is not None), None
    )
