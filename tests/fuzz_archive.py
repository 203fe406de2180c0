"""Mutated archives: what is restored from them, and what every command says of the others."""

from __future__ import annotations

import json
import os
import random
import shutil
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from ctxtop.core.files.blob_store import MANIFEST_START

from .fuzz_lines import OF_BYTES, change_a_field, story
from .fuzz_reader import (
    EVIL,
    LISTS,
    FoundError,
    Said,
    away_from_home,
    call,
    faults,
    listed,
    make_sound,
    require_equal,
    sound_rows,
    unseen_in,
)
from .transcripts import encode

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD: Final = "cccccccc-1111-4111-8111-111111111111"
"""Archived and deleted: it comes back byte for byte, whatever is beside it."""

ODD: Final = "dddddddd-1111-4111-8111-111111111111"
"""Archived and deleted, and its copy is mutated."""

OPEN: Final = "eeeeeeee-1111-4111-8111-111111111111"
"""Still there, with odd files in its folder: it is archived."""

_COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    ("archive", OPEN),
    ("archive", "list"),
    ("archive", "list", "--json"),
    ("sessions",),
    ("doctor",),
    ("archive", "restore", ODD),
)
_CODES: Final = frozenset({0, 1, 2, 4})


def _make_session(root: Path, session: str) -> None:
    path = root / "projects" / EVIL / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    chance = random.Random(session)
    lines = [line | {"sessionId": session} for line in story(chance)]
    path.write_bytes(encode(lines))
    for name in ("subagents/agent-a1.jsonl", "tool-results/r.txt"):
        side = path.with_suffix("") / name
        side.parent.mkdir(parents=True, exist_ok=True)
        side.write_bytes(
            encode(story(chance)) if name.endswith(".jsonl") else chance.randbytes(999)
        )


def _files(root: Path, session: str) -> dict[str, bytes]:
    found = (root / "projects" / EVIL).glob(f"{session}*/**/*")
    paths = [root / "projects" / EVIL / f"{session}.jsonl", *found]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if path.is_file()}


class Template:
    """An archive of two deleted sessions, beside the sound ones."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder / "trial"
        self._saved: Final = folder / "template"
        self.root: Final = self._folder / "claude"
        self.store: Final = self._folder / "state" / "ctxtop.db"
        make_sound(self.root)
        for session in (GOOD, ODD, OPEN):
            _make_session(self.root, session)
        said = call(("archive", GOOD, ODD), self.root, self.store)
        if said.code:
            raise FoundError(f"the template was not archived: {said.told}")
        self.files: Final = _files(self.root, GOOD)
        for session in (GOOD, ODD):
            (self.root / "projects" / EVIL / f"{session}.jsonl").unlink()
            shutil.rmtree(self.root / "projects" / EVIL / session)
        call(("scan",), self.root, self.store)
        self.rows: Final = sound_rows(self.store)
        self.lists: Final = listed(self.root, self.store)

        shutil.copytree(self._folder, self._saved, symlinks=True)

    def restore(self) -> None:
        """Put everything back in its place: a store belongs to one folder."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._saved, self._folder, symlinks=True)


def _odd_entry(chance: random.Random, state: Path) -> None:
    path = state / "archive" / "sessions" / f"{ODD}.json"
    try:
        records = [json.loads(path.read_bytes())]
    except ValueError:
        return
    for _ in range(chance.randint(1, 3)):
        change_a_field(chance, records)
    path.write_bytes(json.dumps(records[0]).encode("utf-8", "surrogatepass"))


def _odd_bytes(chance: random.Random, state: Path) -> None:
    path = chance.choice(_own_files(state))
    data = path.read_bytes()
    if data:
        path.write_bytes(chance.choice(OF_BYTES)(chance, data))


def _own_files(state: Path) -> list[Path]:
    """The entry, manifests and chunks of the odd session alone."""
    paths = [state / "archive" / "sessions" / f"{ODD}.json"]
    theirs = _blobs(state, GOOD)
    return paths + [path for path in _blobs(state, ODD) if path not in theirs]


def _blobs(state: Path, session: str) -> list[Path]:
    paths: list[Path] = []
    try:
        entry = json.loads((state / "archive" / "sessions" / f"{session}.json").read_bytes())
        names = [str(part["blob"]) for part in entry["parts"]]
    except (OSError, ValueError, KeyError, TypeError):
        return paths
    for name in names:
        path = state / "archive" / "files" / f"{name[:64]}.z"
        if path.is_file():
            paths += [path, *_chunks(state, path)]
    return paths


def _chunks(state: Path, manifest: Path) -> list[Path]:
    try:
        fields = msgspec.msgpack.decode(
            zlib.decompress(manifest.read_bytes()[len(MANIFEST_START) :])
        )
        names = [chunk[0].hex() for chunk in fields[2]]
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, zlib.error):
        return []
    found = (state / "blobs" / f"{name}.z" for name in names)
    return [path for path in found if path.is_file()]


def _odd_manifest(chance: random.Random, state: Path) -> None:
    paths = [path for path in _own_files(state) if path.parent.name == "files"]
    if not paths:
        return
    path = chance.choice(paths)
    try:
        value = msgspec.msgpack.decode(zlib.decompress(path.read_bytes()[len(MANIFEST_START) :]))
    except (ValueError, zlib.error):
        return
    chunk = chance.choice(value[2]) if value[2] else value
    place = chance.randrange(len(chunk))
    odd: tuple[Any, ...] = (
        -1,
        0,
        1,
        1 << 26,
        (1 << 63) - 1,
        1.5,
        None,
        "x",
        b"",
        b"\7" * 32,
        b"\7" * 33,
        [[]],
    )
    chunk[place] = chance.choice(odd)
    value[1] = chance.choice([value[1], value[1], 0, 1 << 60, -1])
    path.write_bytes(MANIFEST_START + zlib.compress(msgspec.msgpack.encode(value)))


def _bomb(chance: random.Random, state: Path) -> None:
    path = chance.choice(_own_files(state)[1:] or _own_files(state))
    packed = zlib.compress(bytes(chance.choice([1 << 20, 80 << 20])), 1)
    path.write_bytes(chance.choice([b"", MANIFEST_START]) + packed)


def _foreign(chance: random.Random, state: Path) -> None:
    folder = state / chance.choice(["blobs", "archive/files", "archive/sessions", "backups"])
    folder.mkdir(parents=True, exist_ok=True)
    names = (
        b"notes.z",
        b"\xff\xfe.z",
        b"ab.z",
        b"x.json",
        b"\xff.json",
        b".x.ctxtop",
        b"f" * 64 + b".z",
    )
    path = Path(os.fsdecode(os.path.join(os.fsencode(folder), chance.choice(names))))  # noqa: PTH118
    if os.path.lexists(path):
        return
    match chance.randrange(4):
        case 0:
            path.mkdir()
        case 1:
            path.symlink_to("/etc/passwd")
        case 2:
            os.mkfifo(path)
        case _:
            path.write_bytes(chance.randbytes(chance.choice([0, 9, 999])))
    os.utime(path, (0, 0), follow_symlinks=False)


def _gone(chance: random.Random, state: Path) -> None:
    chance.choice(_own_files(state)).unlink(missing_ok=True)


def _odd_name(chance: random.Random, state: Path) -> None:
    folder = state.parent.parent / "claude" / "projects" / EVIL / OPEN / "tool-results"
    names = (b"\xff.txt", b"a\\b", b"\x1b[31m.txt", b"n\n.jsonl", "\u202e.txt".encode(), b"q" * 250)
    path = os.path.join(os.fsencode(folder), chance.choice(names))  # noqa: PTH118
    if not os.path.lexists(path):
        Path(os.fsdecode(path)).write_bytes(b"odd")


_MUTATIONS: Final[tuple[Callable[[random.Random, Path], None], ...]] = (
    *(_odd_entry,) * 4,
    *(_odd_bytes,) * 4,
    *(_odd_manifest,) * 3,
    _bomb,
    *(_foreign,) * 2,
    _gone,
    _odd_name,
)


def look(seeds: range, template: Template) -> None:
    """Try one mutated archive after the other. Raises FoundError."""
    for seed in seeds:
        try:
            _look(seed, template)
        except FoundError as error:
            raise FoundError(f"{error}\n(seed {seed})") from error


def _look(seed: int, template: Template) -> None:
    template.restore()
    root, store = template.root, template.store
    state = store.with_name(f"{store.name}.compaction")
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 4)):
        if (state / "archive" / "sessions" / f"{ODD}.json").is_file():
            chance.choice(_MUTATIONS)(chance, state)
    there = {path for path in state.rglob("*") if _is_foreign(path)}
    for words in _COMMANDS:
        _check(words, call(words, root, store))
    _check(("archive", "--prune"), call(("archive", "--prune"), root, store))
    for path in there:
        if not os.path.lexists(path):
            raise FoundError(f"a foreign file was removed: {path!r}")
    said = call(("archive", "restore", GOOD), root, store)
    if said.code or _files(root, GOOD) != template.files:
        raise FoundError(f"a sound copy was not restored: {said}")
    listed_ids = call(("archive", "list", "--json"), root, store).out
    if GOOD not in listed_ids or OPEN not in listed_ids:
        raise FoundError(f"the archive lists {listed_ids}")
    require_equal(template.rows, sound_rows(store), "row")
    require_equal(template.lists, listed(root, store), "record")


def _is_foreign(path: Path) -> bool:
    """Whether it has no name of ours, or is none of our files."""
    if path.parent.name not in {"blobs", "files", "backups"}:
        return False
    is_ours = len(path.name) == 66 and path.suffix == ".z" and path.is_file()
    return path.is_symlink() or not is_ours


def _check(words: tuple[str, ...], said: Said) -> None:
    name = " ".join(words)
    if said.code not in _CODES or (said.code and words[0] in LISTS):
        raise FoundError(f"ctxtop {name} ended with {said.code}: {said.told}")
    for text in (said.out, said.told):
        if odd := unseen_in(text):
            raise FoundError(f"ctxtop {name} printed {sorted(map(ascii, odd))}")


def try_all(seeds: range, folder: Path, report: Callable[[str], object]) -> list[str]:
    """Try mutated archives; return what was found."""
    found = []
    folder.mkdir(parents=True, exist_ok=True)
    with away_from_home(folder):
        template = Template(folder)
        for seed in seeds:
            for each in faults(range(seed, seed + 1), partial(look, template=template)):
                found.append(each)
                report(each)
    return found
