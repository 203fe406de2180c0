"""Damaged stores: after one line that says so every command works again."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from .fuzz_reader import (
    LISTS,
    SOUND,
    FoundError,
    away_from_home,
    call,
    listed,
    make_sound,
    sound_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .fuzz_reader import Said

COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    *((name, "--json") for name in LISTS),
    *((name, "--no-scan") for name in LISTS),
    ("context", SOUND[0], "--no-scan"),
    ("timeline", SOUND[0], "--no-scan"),
    ("inject", "--session", SOUND[0], "--agent-type", "reviewer"),
    ("export", "--format", "json"),
    ("export", "--format", "csv", "--what", "summaries"),
    ("doctor",),
    ("totals", "--no-scan"),
    ("findings",),
    ("log",),
    ("receipts",),
    ("evidence", SOUND[0]),
)
"""What a person may do first with a damaged store."""


def damage(store: Path, seed: int) -> str:
    """Damage a store in one way; say which."""
    chance = random.Random(seed)
    way = _WAYS[seed % len(_WAYS)]
    for suffix in ("-wal", "-shm"):
        store.with_name(store.name + suffix).unlink(missing_ok=True)
    way(chance, store)
    return way.__name__.strip("_")


def _flip(chance: random.Random, store: Path) -> None:
    data = bytearray(store.read_bytes())
    for _ in range(chance.choice([1, 8, 200, 3_000])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    store.write_bytes(data)


def _flip_text(chance: random.Random, store: Path) -> None:
    data = bytearray(store.read_bytes())
    places = [n for n in range(100, len(data)) if 0x61 <= data[n] <= 0x7A]
    for place in chance.sample(places, chance.choice([1, 20, 400])):
        data[place] |= 0x80
    store.write_bytes(data)


def _pages(chance: random.Random, store: Path) -> None:
    data = bytearray(store.read_bytes())
    size = 4096
    for _ in range(chance.choice([1, 3, 20])):
        page = chance.randrange(len(data) // size)
        what = chance.choice([bytes(size), os.urandom(size), b"\xa5" * size, data[:size]])
        data[page * size : (page + 1) * size] = what
    store.write_bytes(data)


def _cut(chance: random.Random, store: Path) -> None:
    data = store.read_bytes()
    store.write_bytes(data[: chance.choice([0, 1, 50, 100, 4096, chance.randrange(len(data))])])


def _head(chance: random.Random, store: Path) -> None:
    data = bytearray(store.read_bytes())
    for _ in range(chance.choice([1, 4])):
        data[chance.randrange(100)] = chance.randrange(256)
    store.write_bytes(data)


def _journal(chance: random.Random, store: Path) -> None:
    store.with_name(f"{store.name}-wal").write_bytes(os.urandom(chance.choice([1, 32, 9_000])))
    store.with_name(f"{store.name}-shm").write_bytes(os.urandom(32_768))


def _not_one(chance: random.Random, store: Path) -> None:
    store.write_bytes(chance.choice([b"not SQLite\n" * 99, b"\0" * 9_000, b"\x80" * 100, b"{}"]))


def _foreign(chance: random.Random, store: Path) -> None:
    with closing(sqlite3.connect(store)) as db, db:
        db.execute(chance.choice(_STATEMENTS))


def _foreign_store(chance: random.Random, store: Path) -> None:
    store.unlink()
    with closing(sqlite3.connect(store)) as db, db:
        db.execute(chance.choice(["CREATE TABLE file (a)", "CREATE VIEW file AS SELECT 1 AS x"]))
        db.execute("CREATE TABLE session (a, b)")


def _rows(chance: random.Random, store: Path) -> None:
    with closing(sqlite3.connect(store)) as db, db:
        for _ in range(4):
            table = chance.choice(["file", "session", "boundary", "summary", "launch", "reply"])
            names = [row[0] for row in db.execute("SELECT name FROM pragma_table_info(?)", [table])]
            value = chance.choice(["NULL", "'text'", "x'ff00'", "CAST(x'ff' AS TEXT)", "-1", "''"])
            with suppress(sqlite3.IntegrityError):
                db.execute(f"UPDATE {table} SET {chance.choice(names)} = {value}")


_STATEMENTS: Final = (
    "DROP TABLE boundary",
    "DROP TABLE about",
    "DROP INDEX file_session",
    "ALTER TABLE session RENAME COLUMN cwd TO place",
    "ALTER TABLE summary RENAME TO summaries",
    "PRAGMA user_version = 0",
    "PRAGMA user_version = 999",
    "PRAGMA user_version = -1",
    "UPDATE about SET value = CAST(x'80ff' AS TEXT)",
    "UPDATE session SET cwd = CAST(x'80ff' AS TEXT), first_prompt = CAST(x'fe' AS TEXT)",
    "UPDATE file SET kind = 'of tomorrow'",
    "UPDATE summary SET text = CAST(x'c328' AS TEXT)",
    "CREATE TABLE other (a)",
    "PRAGMA user_version = 77",
)

_WAYS: Final[tuple[Callable[[random.Random, Path], None], ...]] = (
    _flip,
    _flip_text,
    _pages,
    _cut,
    _head,
    _journal,
    _not_one,
    _foreign,
    _foreign_store,
    _rows,
)


def look(seed: int, folder: Path, sound: Path, commands: int) -> None:
    """Damage a copy of a sound store, and see so many commands through. Raises FoundError."""
    root, store = folder / "claude", folder / "damaged" / "ctxtop.db"
    shutil.rmtree(store.parent, ignore_errors=True)
    store.parent.mkdir()
    shutil.copy(sound, store)
    way = damage(store, seed)
    store.chmod(0o666)
    tried = random.Random(seed).sample(COMMANDS, commands)
    try:
        for words in tried:
            _check(words, call(words, root, store))
        for words in tried:
            if "rebuilt" in call(words, root, store).told:
                raise FoundError(f"ctxtop {' '.join(words)} makes the store again and again")
        kept = [each for each in store.parent.iterdir() if ".aside-" in each.name]
        if len([each for each in kept if not each.name.endswith(("-wal", "-shm"))]) > 2:
            raise FoundError(f"{kept} are kept")
        if store.stat().st_mode & 0o077:
            raise FoundError("others can read the store")
    except FoundError as error:
        raise FoundError(f"{error}\n(store {seed}: {way}; first {' '.join(tried[0])})") from error


def _check(words: tuple[str, ...], said: Said) -> None:
    name = " ".join(words)
    made = [line for line in said.told.splitlines() if "rebuilt" in line]
    if len(made) > 1:
        raise FoundError(f"ctxtop {name} said it {len(made)} times: {said.told}")
    # A doctor may have found something of the machine.
    if said.code and words[0] != "doctor":
        raise FoundError(f"ctxtop {name} ended with {said.code}: {said.told}")


def try_all(
    seeds: range, folder: Path, report: Callable[[str], object], commands: int = len(COMMANDS)
) -> list[str]:
    """Try damaged stores; give what was found, one text a store."""
    found = []
    root, sound = folder / "claude", folder / "sound" / "ctxtop.db"
    with away_from_home(folder):
        make_sound(root)
        call(("compactions",), root, sound)
        call(("agents",), root, sound)
        with closing(sqlite3.connect(sound)) as db:
            db.execute("PRAGMA journal_mode = DELETE")
        assert listed(root, sound)["sessions"]
        assert sound_rows(sound)["file"]
        for seed in seeds:
            try:
                look(seed, folder, sound, commands)
            except FoundError as error:
                found.append(str(error))
                report(str(error))
    return found
