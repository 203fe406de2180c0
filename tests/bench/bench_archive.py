"""What the archive takes of the recorded sessions, of their forks, and of 350 MB of such sessions.

The recorded sessions are multiplied: in a copy every id is another one, so that no line is the same
as in another session, as in real folders; in a fork only the session's id is, and a tenth of the
lines is new. Each case is archived in a process of its own, which says its largest memory, then
restored elsewhere and compared by hash.
Usage: python -m tests.bench.bench_archive [megabytes]
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
import zlib
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxtop.core.archive.archive_index import TranscriptArchive
from ctxtop.core.archive.archiving import SessionFiles, archive_in_steps
from ctxtop.core.archive.restoring import restore_session

from .recordings import recordings, shared_folder, too_few

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEGABYTE: Final = 1_000_000
PROJECT: Final = "-home-dev-bench"
FORKED_SHARE: Final = 0.9  # of a fork's lines are its origin's

_ID: Final = re.compile(
    rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:msg|toolu|req)_[0-9A-Za-z]+"
)


def put_copy(origin: Path, projects: Path, change: Callable[[bytes, bytes], bytes]) -> int:
    """Copy a session with its agents under a new id; return the bytes."""
    old, new = origin.stem, str(uuid.uuid4())
    place = projects / PROJECT
    size = 0
    sources = [origin, *sorted(path for path in origin.with_suffix("").rglob("*"))]
    for source in sources:
        if not source.is_file():
            continue
        target = place / source.relative_to(origin.parent).as_posix().replace(old, new)
        target.parent.mkdir(parents=True, exist_ok=True)
        data = change(source.read_bytes().replace(old.encode(), new.encode()), new.encode())
        target.write_bytes(data)
        size += len(data)
    return size


def with_other_ids(data: bytes, session_id: bytes) -> bytes:
    """Replace every id but the session's by another of the same form."""
    salt = session_id[:8]

    def other(found: re.Match[bytes]) -> bytes:
        if found[0] == session_id:
            return found[0]
        digits = sha256(salt + found[0]).hexdigest().encode()
        if found[0][8:9] == b"-":
            return b"-".join(
                digits[start:end] for start, end in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
            )
        kind, _, rest = found[0].partition(b"_")
        return kind + b"_" + digits[: len(rest)]

    return _ID.sub(other, data)


def forked(data: bytes, session_id: bytes) -> bytes:
    """Keep most lines as they are, and give the rest other ids."""
    lines = data.splitlines(keepends=True)
    kept = int(len(lines) * FORKED_SHARE)
    return b"".join(lines[:kept]) + with_other_ids(b"".join(lines[kept:]), session_id)


def make_corpus(corpus: Path, projects: Path) -> int:
    return sum(put_copy(path, projects, lambda data, _: data) for path in recordings(corpus))


def make_forks(corpus: Path, projects: Path) -> int:
    """Put each session and four forks of it."""
    size = 0
    for path in recordings(corpus):
        size += put_copy(path, projects, lambda data, _: data)
        size += sum(put_copy(path, projects, forked) for _ in range(4))
    return size


def make_many(corpus: Path, projects: Path, megabytes: int) -> int:
    """Put copies of all sessions, every fifth a fork, until there are so many megabytes."""
    size = number = 0
    while size < megabytes * MEGABYTE:
        for path in recordings(corpus):
            number += 1
            if number % 5:
                size += put_copy(path, projects, with_other_ids)
            else:
                newest = max(
                    (projects / PROJECT).glob("*.jsonl"), key=lambda each: each.stat().st_ino
                )
                size += put_copy(newest, projects, forked)
    return size


def sessions_in(projects: Path) -> Iterator[SessionFiles]:
    for path in sorted(projects.glob("*/*.jsonl")):
        yield SessionFiles(path.stem, path.relative_to(projects).as_posix())


def archive_all(root: Path) -> None:
    """Archive everything in `root`, in this process, and print what it took as JSON."""
    archive, projects = TranscriptArchive(root / "state"), root / "projects"
    began, cpu, longest = time.monotonic(), time.process_time(), 0.0
    for session in sessions_in(projects):
        before = time.monotonic()
        for _ in archive_in_steps(archive, projects, session, 0):
            longest, before = max(longest, time.monotonic() - before), time.monotonic()
    print(
        json.dumps(
            {
                "seconds": time.monotonic() - began,
                "cpu_s": time.process_time() - cpu,
                "longest_step_s": longest,
                "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000,
                "stored": archive.total_bytes(),
            }
        )
    )


def restore_all(root: Path) -> float:
    """Restore everything elsewhere, compare it, and return the seconds."""
    archive, projects, again = TranscriptArchive(root / "state"), root / "projects", root / "again"
    began = time.monotonic()
    for session_id in archive.sessions():
        restore_session(archive, again, session_id)
    seconds = time.monotonic() - began
    for path in projects.rglob("*"):
        if path.is_file():
            copy = again / path.relative_to(projects)
            assert copy.read_bytes() == path.read_bytes(), path
    return seconds


def files_alone(projects: Path) -> int:
    """What the files would take if each were compressed by itself with zlib."""
    paths = (path for path in projects.rglob("*") if path.is_file())
    return sum(len(zlib.compress(path.read_bytes(), 6)) for path in paths)


def report(name: str, make: Callable[[Path], int]) -> None:
    root = Path(tempfile.mkdtemp(prefix="ctxtop-archive-"))
    try:
        size = make(root / "projects")
        argv = [sys.executable, "-m", "tests.bench.bench_archive", "--archive", str(root)]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        took = json.loads(done.stdout)
        seconds = restore_all(root)
        stored, alone = took["stored"], files_alone(root / "projects")
        print(
            f"{name:<34} {size / MEGABYTE:7.1f} MB -> {stored / MEGABYTE:6.2f} MB, "
            f"{size / stored:5.1f} : 1 (each file by zlib alone {size / alone:4.1f} : 1); "
            f"{took['seconds']:.1f} s ({took['cpu_s']:.1f} s of processor), "
            f"longest step {took['longest_step_s'] * 1000:.0f} ms, {took['memory_mb']:.0f} MB of "
            f"memory; restored in {seconds:.1f} s, all equal",
            flush=True,
        )
    finally:
        shutil.rmtree(root)


def main() -> None:
    if sys.argv[1:2] == ["--archive"]:
        archive_all(Path(sys.argv[2]))
        return
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 350
    corpus = shared_folder()
    if not (found := recordings(corpus)):
        print(too_few(corpus, "recorded sessions", len(found)))
        return
    report("the recorded sessions", lambda projects: make_corpus(corpus, projects))
    report("each with four forks", lambda projects: make_forks(corpus, projects))
    report(
        "many sessions, every fifth a fork",
        lambda projects: make_many(corpus, projects, megabytes),
    )


if __name__ == "__main__":
    main()
