"""Mutated inputs of the status line: the line that is printed, and what the store takes of them."""

from __future__ import annotations

import json
import random
import re
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ctxtop.collectors.plugin import statusline
from ctxtop.collectors.plugin_files import plugin_log

from .fuzz_lines import OF_BYTES, change_a_field
from .fuzz_reader import (
    LISTS,
    FoundError,
    Reference,
    away_from_home,
    call,
    faults,
    listed,
    make_sound,
    read_all,
    reference,
    require_equal,
    session_of,
    sound_rows,
    unseen_in,
    write_mutated,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW_S: Final = 1_795_200_000

LONGEST: Final = 200
"""Characters of the line, of which the longest right one has about 150."""

_COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    *((name,) for name in LISTS),
    ("limits",),
    ("limits", "--json"),
    ("scan", "--bad"),
    ("doctor",),
    ("export", "--format", "prometheus"),
)
_CODES: Final = frozenset({0, 1, 2, 4})

_LONG_NUMBER: Final = re.compile(r"\d{6}")
"""More digits than any right number of the line: 1000M tokens, 1000%, $1,000.00."""


def _told(session: str) -> dict[str, Any]:
    """All that the client's status line says (2.1.329)."""
    return {
        "session_id": session,
        "model": {"id": "claude-opus-4-6[1m]", "display_name": "Opus"},
        "version": "2.1.329",
        "effort": {"level": "high"},
        "thinking": {"enabled": True},
        "fast_mode": False,
        "cost": {"total_cost_usd": 0.5, "total_duration_ms": 4_500, "total_lines_added": 3},
        "context_window": {
            "context_window_size": 1_000_000,
            "current_usage": {
                "input_tokens": 10,
                "output_tokens": 8,
                "cache_creation_input_tokens": 5_190,
                "cache_read_input_tokens": 46_800,
            },
            "used_percentage": 5,
        },
        "prompt_cache": {
            "warm": True,
            "expires_at": NOW_S + 300,
            "recache_tokens_if_cold": 52_000,
            "hit_ratio": 0.9,
            "miss_causes": {"tools_changed": 2},
        },
        "rate_limits": {
            "five_hour": {"used_percentage": 62.5, "resets_at": NOW_S + 3_600},
            "seven_day": {"used_percentage": 91, "resets_at": NOW_S + 90_000},
        },
    }


def mutated(seed: int) -> bytes:
    """The input of one status line with one to four faults; a seed gives the same bytes again."""
    chance = random.Random(f"status {seed}")
    records = [_told(session_of(seed))]
    for _ in range(chance.randint(1, 3)):
        change_a_field(chance, records)
    text = json.dumps(records[0])
    if chance.random() < 0.2:
        numbers = re.findall(r"(?<=: )\d+(?:\.\d+)?", text)
        odd = chance.choice(["1e308", "1e999", "NaN", "-Infinity", "1795822069", "9" * 400, "-0"])
        text = text.replace(f": {chance.choice(numbers or ['x'])}", f": {odd}", 1)
    data = text.encode("utf-8", "replace")
    return chance.choice(OF_BYTES)(chance, data) if chance.random() < 0.3 else data


def look(seeds: range, folder: Path, wanted: Reference) -> None:
    """Print mutated lines, read them beside the sound sessions. Raises FoundError."""
    root, store = folder / "claude", folder / "store" / "ctxtop.db"
    for place in (root, store.parent):
        shutil.rmtree(place, ignore_errors=True)
    make_sound(root)
    try:
        for seed in seeds:
            data = mutated(seed)
            _look_at_line(data)
            write_mutated(root, seed) if seed % 9 == 0 else None
            plugin_log.append_record(
                plugin_log.log_path(str(store), plugin_log.STATUS_LINE_LOG), "StatusLine", data
            )
        read_all(root, store)
        require_equal(wanted.rows, sound_rows(store), "row")
        require_equal(wanted.lists, listed(root, store), "record")
        for words in _COMMANDS:
            said = call(words, root, store)
            if said.code not in _CODES or (said.code and words[0] in LISTS):
                raise FoundError(f"ctxtop {' '.join(words)} ended with {said.code}: {said.told}")
            if odd := unseen_in(said.out):
                raise FoundError(f"ctxtop {' '.join(words)} printed {sorted(map(ascii, odd))}")
    except FoundError as error:
        raise FoundError(f"{error}\n(seeds {seeds.start} to {seeds.stop - 1})") from error


def _look_at_line(data: bytes) -> None:
    snapshot = plugin_log.decode_object(data.decode("utf-8", "replace").strip())
    try:
        line = statusline.render_status_line(snapshot or {}, {}, NOW_S)
    except Exception as error:
        raise FoundError(f"the status line of {data[:2_000]!r}: {error!r}") from error
    if _LONG_NUMBER.search(line) or len(line) > LONGEST or unseen_in(line) or "\n" in line:
        raise FoundError(f"the status line of {data[:2_000]!r} is {line!r}")


def try_all(seeds: range, folder: Path, at_once: int, report: Callable[[str], object]) -> list[str]:
    """Try mutated inputs, `at_once` in one log; return what was found."""
    found = []
    with away_from_home(folder):
        wanted = reference(folder)
        for first in range(seeds.start, seeds.stop, at_once):
            batch = range(first, min(seeds.stop, first + at_once))
            for each in faults(batch, partial(look, folder=folder, wanted=wanted)):
                found.append(each)
                report(each)
    return found
