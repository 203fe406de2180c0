"""Mutated transcripts beside sound ones: what every command says of them, and of the others."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sys
import traceback
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.session_queries import problems
from ctxtop.tui.base.command_errors import run_guarded
from ctxtop.tui.cli.commands import run

from .dump import FILE_STATE, dump
from .fuzz_faults import PlantedFaults
from .fuzz_lines import mutated, story
from .transcripts import (
    MODEL,
    assistant,
    boundary,
    encode,
    summary,
    tool,
    tool_result,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PROJECT: Final = "-home-dev-proj"
EVIL: Final = "-home-dev-evil"
SOUND: Final = ("aaaaaaaa-1111-4111-8111-111111111111", "bbbbbbbb-1111-4111-8111-111111111111")

WRITTEN_NS: Final = 1_795_200_000_000_000_000

WIDEST: Final = 200
"""Columns of a table's line where no terminal says how many there are: 160, and what cannot
be cut."""

LISTS: Final = ("sessions", "agents", "compactions", "warnings", "summaries")
"""Commands that list the rows of all sessions."""

_OF_ALL: Final = frozenset(
    {
        *("turns_left", "minutes_left", "next_threshold", "tokens", "result_tokens", "id"),
        *("window_tokens", "window_source", "used_ratio", "level", "contradictions"),
        *("limit_tokens", "limit_ratio"),
        *("trigger_tokens", "trigger_source", "trigger_left", "trigger_armed"),
        "trigger_reason",
    }
)
"""Fields that depend on the other sessions by their nature: estimates and windows that are learnt
from all of them, and the number of a summary in the store."""

ONE: Final[tuple[tuple[str, ...], ...]] = (
    ("context", "@"),
    ("timeline", "@"),
    ("inject", "--session", "@", "--agent-type", "reviewer"),
    ("compactions", "--session", "@"),
    ("evidence", "@"),
    ("agents", "--session", "@"),
    ("context", "@", "--json"),
    ("timeline", "@", "--json"),
    ("inject", "--session", "@", "--agent-type", "reviewer", "--json"),
    ("lens", "@"),
    ("compact", "@"),
)
"""Commands about one session; @ stands for its id."""

ALL: Final[tuple[tuple[str, ...], ...]] = (
    *((name,) for name in LISTS),
    ("totals",),
    ("findings",),
    ("doctor",),
    ("scan", "--bad"),
    ("export", "--format", "markdown"),
    ("export", "--format", "json"),
    ("export", "--format", "csv", "--what", "compactions"),
    ("export", "--format", "csv", "--what", "summaries"),
    ("export", "--format", "prometheus"),
    ("export", "--format", "otlp"),
)


class FoundError(Exception):
    """Something that must not happen; the message says how to repeat it."""


class Said(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    told: str


def call(words: tuple[str, ...], root: Path, store: Path) -> Said:
    """Run one command in this process; whatever it does not expect is a FoundError."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    told = io.StringIO()
    given = [*words, "--config-dir", str(root), "--db", str(store)]
    with patch.object(sys, "stdout", out), patch.object(sys, "stderr", told):
        try:
            code = run_guarded(lambda: run(given))
        except Exception as error:
            where = "".join(traceback.format_exception(error)[-4:])
            raise FoundError(f"ctxtop {' '.join(words)}: {where}") from error
        out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    said = Said(code, out.buffer.getvalue().decode("utf-8"), told.getvalue())
    if "Traceback" in said.out + said.told and words[0] != "log":
        raise FoundError(f"ctxtop {' '.join(words)} printed a traceback: {said.told}")
    return said


@contextmanager
def away_from_home(folder: Path) -> Iterator[None]:
    """An environment that names nothing of this machine's user."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with patch.dict(os.environ, kept | home, clear=True):
        yield


def make_sound(root: Path) -> None:
    """Write the sessions whose rows nothing may change."""
    for number, session in enumerate(SOUND):
        path = root / "projects" / PROJECT / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = story(random.Random(f"sound {number}"))
        path.write_bytes(_of_other_model([line | {"sessionId": session} for line in lines]))
        agent = path.with_suffix("") / "subagents" / f"agent-{session[:4]}.jsonl"
        agent.parent.mkdir(parents=True, exist_ok=True)
        agent.write_bytes(_of_other_model(story(random.Random(f"agent {number}"))))
        for each in (path, agent):
            os.utime(each, ns=(WRITTEN_NS, WRITTEN_NS))


def _of_other_model(lines: list[Any]) -> bytes:
    """How large a model's window is is learnt from all sessions of that model."""
    return encode(lines).replace(MODEL.encode(), b"claude-sonnet-4-5-20250929")


MAX_SEED: Final = 90_000_000


def first_seed(run: int) -> int:
    """The first of a run's seeds: of them, a session's id has eight digits."""
    return run % MAX_SEED


def session_of(seed: int) -> str:
    """The id of a mutated session."""
    return f"{seed:08}-2222-4333-8444-555555555555"


def write_mutated(root: Path, seed: int) -> None:
    """Write one mutated session, and an agent's file of it now and then."""
    path = root / "projects" / EVIL / f"{session_of(seed)}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(mutated(seed))
    if seed % 4 == 0:
        agent = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
        agent.parent.mkdir(parents=True, exist_ok=True)
        agent.write_bytes(mutated(-seed - 1))


def write_planted(root: Path, seed: int) -> None:
    """Write a session, with an agent's file, in which every site has something to do."""
    path = root / "projects" / EVIL / f"{session_of(seed)}.jsonl"
    agent = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True, exist_ok=True)
    lines = story(random.Random(seed))
    lines += [
        user(f"look at {session_of(seed)}", at=30),
        assistant(
            f"p{seed}_1", 190_000, at=31, content=[tool("Task", f"toolu_{seed}", prompt="x")]
        ),
        tool_result(f"toolu_{seed}", "[COMPRESSED] done", {"agentId": "a1"}, at=32),
        boundary(33, postTokens=20_000),
        summary("We went on.", at=34),
        user("and now?", at=35),
        assistant(f"p{seed}_2", 21_000, at=36),
        boundary(37, postTokens=19_000),
        summary("And on.", at=38),
    ]
    own = {"sessionId": session_of(seed)}
    path.write_bytes(encode([line | own for line in lines]))
    agent.write_bytes(encode([line | own for line in story(random.Random(-seed - 1))]))


def sound_rows(store: Path) -> dict[str, list[Any]]:
    """Every row of the store that belongs to a sound session's files."""
    rows = dump(store, FILE_STATE)
    return {
        name: [row for row in found if any(_is_of_sound(value) for value in row)]
        for name, found in rows.items()
        # How turns are cut into blocks for the search depends on the time that reading them took.
        if name not in {"words", "about", "calibration", "learnt", "searched_block"}
    }


def _is_of_sound(value: object) -> bool:
    return isinstance(value, str) and value.startswith((f"{PROJECT}/", *SOUND))


def listed(root: Path, store: Path) -> dict[str, list[Any]]:
    """What the lists say of the sound sessions."""
    found = {}
    for name in LISTS:
        said = call((name, "--json", "--no-scan"), root, store)
        if said.code:
            raise FoundError(f"ctxtop {name} --json ended with {said.code}: {said.told}")
        found[name] = [
            {key: value for key, value in record.items() if key not in _OF_ALL}
            for record in json.loads(said.out)
            if record["session_id"] in SOUND
        ]
    return found


def faults_in(store: Path) -> dict[str, str]:
    """The tracebacks of faults that were contained, by their places."""
    with closing(open_reader(store)) as db:
        return {each.where: each.traceback for each in problems(db) if each.traceback}


class Reference(NamedTuple):
    """What is to be said of the sound sessions, whatever stands beside them."""

    rows: dict[str, list[Any]]
    lists: dict[str, list[Any]]


def read_all(root: Path, store: Path) -> str:
    """Read everything, do what commands leave to one another, and return what they told."""
    commands = (("compactions",), ("search", "parser"), ("scan",))
    return "".join(call(words, root, store).told for words in commands)


def reference(folder: Path) -> Reference:
    """Read the sound sessions alone."""
    root, store = folder / "claude", folder / "alone" / "ctxtop.db"
    make_sound(root)
    read_all(root, store)
    made = Reference(sound_rows(store), listed(root, store))
    shutil.rmtree(root)
    return made


def look(
    seeds: range,
    folder: Path,
    wanted: Reference,
    of_all: tuple[tuple[str, ...], ...] = ALL,
    every: int = 1,
) -> None:
    """Read mutated sessions beside the sound ones, and try the commands on them.

    Those about one session are tried in turn, one on each of `every` so many. Raises FoundError.
    """
    root, store = folder / "claude", folder / "store" / "ctxtop.db"
    for place in (root, store.parent):
        shutil.rmtree(place, ignore_errors=True)
    make_sound(root)
    for seed in seeds:
        write_mutated(root, seed)
    try:
        read_all(root, store)
        require_equal(wanted.rows, sound_rows(store), "row")
        require_equal(wanted.lists, listed(root, store), "record")
        if contained := faults_in(store):
            raise FoundError(f"contained, but a fault of ours: {contained}")
        for words in of_all:
            _check(words, call((*words, "--no-scan") if words[0] != "scan" else words, root, store))
        for seed in seeds:
            if seed % every == 0:
                words = ONE[seed // every % len(ONE)]
                named = tuple(session_of(seed) if word == "@" else word for word in words)
                _check(words, call((*named, "--no-scan"), root, store))
    except FoundError as error:
        raise FoundError(f"{error}\n(seeds {seeds.start} to {seeds.stop - 1})") from error


def look_at_planted(seeds: range, folder: Path, wanted: Reference, met: set[int]) -> None:
    """Read sessions with faults planted in what works on them. Raises FoundError.

    Whatever is raised, no command ends by it, the sound sessions are unchanged, the log has the
    traceback, and a session whose file is not read is listed as that. The seeds whose faults were
    raised are added to `met`.
    """
    root, store = folder / "claude", folder / "planted" / "ctxtop.db"
    for place in (root, store.parent):
        shutil.rmtree(place, ignore_errors=True)
    make_sound(root)
    for seed in seeds:
        write_planted(root, seed)
    plants = PlantedFaults(seeds)
    try:
        with plants.planted():
            told = read_all(root, store)
            for words in ALL:
                said = call(words, root, store)
                told += said.told
                if said.code not in _CODES or (said.code and words[0] in LISTS):
                    raise FoundError(f"ctxtop {words} ended with {said.code}: {said.told}")
            require_equal(wanted.lists, listed(root, store), "record")
            for seed in seeds:
                words = ONE[seed % len(ONE)]
                named = tuple(session_of(seed) if word == "@" else word for word in words)
                call((*named, "--no-scan"), root, store)
            _check_told(plants, told, root, store)
        read_all(root, store)
        require_equal(wanted.rows, sound_rows(store), "row")
        if left := faults_in(store):
            raise FoundError(f"faults that are gone are still told: {list(left)}")
    except FoundError as error:
        sites = {seed: plants.site(seed).name for seed in seeds}
        raise FoundError(f"{error}\n(planted {sites})") from error
    met.update(plants.met)


def _check_told(plants: PlantedFaults, told: str, root: Path, store: Path) -> None:
    """Every fault is told, and one that was raised while reading is its session's problem."""
    logged = " ".join(faults_in(store))
    records = json.loads(call(("sessions", "--json", "--no-scan"), root, store).out)
    unread = {each["session_id"] for each in records if each["problem"]}
    for seed, site in plants.met.items():
        if plants.is_unreadable(seed):
            continue
        if site.is_reading and session_of(seed) not in unread:
            raise FoundError(f"seed {seed}: {site.name} failed, and the session looks as if read")
        if session_of(seed) not in told:
            raise FoundError(f"seed {seed}: {site.name} failed, and no command told it")
        if site.is_reading and session_of(seed) not in logged:
            raise FoundError(f"seed {seed}: {site.name} failed, and the log does not say so")


def faults(seeds: range, trial: Callable[[range], None]) -> list[str]:
    """What goes wrong in a trial, by seed where one alone is enough for it."""
    try:
        trial(seeds)
    except FoundError as error:
        half = len(seeds) // 2
        halves = (seeds[:half], seeds[half:]) if half else ()
        return [each for part in halves for each in faults(part, trial)] or [str(error)]
    return []


def require_equal(wanted: dict[str, list[Any]], found: dict[str, list[Any]], what: str) -> None:
    """Raise FoundError if the rows or records are others."""
    for name, rows in wanted.items():
        # Those of one moment stand in the order in which they were read.
        if sorted(map(_fields, rows)) != sorted(map(_fields, found[name])):
            odd = [_fields(row) for row in found[name] if row not in rows]
            gone = [_fields(row) for row in rows if row not in found[name]]
            more = [set(new) - set(old) for new, old in zip(odd, gone, strict=False)]
            raise FoundError(f"{what}s of {name} changed: {len(odd)} for {len(gone)}: {more[:2]}")


def _fields(row: Any) -> list[str]:  # noqa: ANN401 -- a row or a record
    """The fields of a row or a record, as texts that can be compared."""
    fields = row.items() if isinstance(row, dict) else enumerate(row)
    return [f"{name}: {value}" for name, value in fields]


_CODES: Final = frozenset({0, 1, 2, 4})

_UNKNOWN: Final = "no session id starts with"
"""A transcript without one line that can be read is no session."""


def _check(words: tuple[str, ...], said: Said) -> None:
    name = " ".join(words)
    if said.code not in _CODES:
        raise FoundError(f"ctxtop {name} ended with {said.code}: {said.told}")
    if said.code and words[0] in LISTS and not (_UNKNOWN in said.told and "--session" in words):
        raise FoundError(f"ctxtop {name} ended with {said.code}: {said.told}")
    if "--json" not in words and words[0] in LISTS:
        widest = max(map(len, said.out.splitlines()), default=0)
        if len(words) == 1 and widest > WIDEST:
            raise FoundError(f"ctxtop {name} printed a line of {widest} columns")
    odd = unseen_in(said.out)
    if odd:
        raise FoundError(f"ctxtop {name} printed {sorted(map(ascii, odd))}")


def unseen_in(said: str) -> set[str]:
    """Characters that are not seen, or that a terminal obeys, but for those that end a line."""
    import unicodedata

    odd = {each for each in said if unicodedata.category(each) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    # The last is a sign before Arabic numbers, and has a shape.
    return odd - set("\n\r\t\u0600")


def try_all(
    seeds: range, folder: Path, at_once: int, report: Callable[[str], object], every: int = 1
) -> list[str]:
    """Try mutated transcripts, `at_once` in one folder; give what was found.

    With `every` above 1 the batches share the commands out among themselves.
    """
    found = []
    shares = len(seeds) // at_once if every > 1 else 1
    with away_from_home(folder):
        wanted = reference(folder)
        for number, first in enumerate(range(seeds.start, seeds.stop, at_once)):
            share = ALL[number % shares :: shares]
            trial = partial(look, folder=folder, wanted=wanted, of_all=share, every=every)
            for each in faults(range(first, min(seeds.stop, first + at_once)), trial):
                found.append(each)
                report(each)
    return found


class PlantedTrial(NamedTuple):
    """What went wrong, and how many of the planted faults were raised."""

    found: list[str]
    raised: int


def try_planted(
    seeds: range, folder: Path, at_once: int, report: Callable[[str], object]
) -> PlantedTrial:
    """Try sessions with planted faults."""
    found: list[str] = []
    met: set[int] = set()
    with away_from_home(folder):
        wanted = reference(folder)
        trial = partial(look_at_planted, folder=folder, wanted=wanted, met=met)
        for first in range(seeds.start, seeds.stop, at_once):
            for each in faults(range(first, min(seeds.stop, first + at_once)), trial):
                found.append(each)
                report(each)
    return PlantedTrial(found, len(met))
