"""A store on a disk that is read-only or that fills up, seen by a person at the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from ..dump import FILE_STATE, dump
from ..transcripts import MODEL, PROJECT, append, assistant, encode, user, write

if TYPE_CHECKING:
    from pathlib import Path

SESSIONS: Final = 12
ANSWERS: Final = 600

# A disk of its own, which no other process sees and which goes with the last that does. What
# is on it is copied out, because only this shell can look.
DISK: Final = """
set -u
disk=$1; out=$2; python=$3; shift 3
mount -t tmpfs -o size=16m,mode=700 ctxtop "$disk" || exit 99
run() { "$python" -P -m ctxtop "$@" --db "$disk/ctxtop.db"; echo "code $?"; }
keep() { mkdir "$out/$1" && cp "$disk"/ctxtop.db* "$out/$1"; }
"""


def namespace() -> list[str]:
    """Begin a command that may mount what only it sees."""
    return ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]


@pytest.fixture(scope="module", autouse=True)
def mounting() -> None:
    """Skip where the machine gives nobody a disk of his own."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no `unshare`")
    script = "mount -t tmpfs none /mnt"
    tried = subprocess.run(
        [*namespace(), "sh", "-c", script], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"no disk of its own: {tried.stderr.strip()}")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / ".claude"
    for number in range(SESSIONS):
        # No two are alike in anything, so that each takes its place.
        answers = [
            assistant(f"m{number}_{each}", 1000 + each, model=f"{MODEL}-{each}")
            for each in range(ANSWERS)
        ]
        write(folder / "projects" / PROJECT / f"s{number}.jsonl", [user(), *answers])
    return folder


class Disk:
    """Runs lines of shell beside a small disk, with `run` for ctxtop, and keeps what it holds."""

    def __init__(self, place: Path) -> None:
        self.mount = place / "disk"
        self.out = place / "out"
        self.mount.mkdir()
        self.out.mkdir()

    def shell(self, script: str) -> tuple[list[str], list[str]]:
        """Run a script in the disk's namespace; return its lines of stdout and stderr."""
        places = [str(self.mount), str(self.out), sys.executable]
        paths = os.pathsep.join(path for path in sys.path if path)
        ended = subprocess.run(
            [*namespace(), "sh", "-c", DISK + script, "sh", *places],
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return ended.stdout.splitlines(), ended.stderr.splitlines()

    def rows(self, name: str) -> dict[str, list[tuple[object, ...]]]:
        return dump(self.out / name / "ctxtop.db", FILE_STATE)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_a_store_on_a_disk_that_is_read_only(config: Path, disk: Disk) -> None:
    out, err = disk.shell("""
run scan --json > /dev/null; mount -o remount,ro "$disk"
run sessions; run scan; run totals --no-scan --json
""")

    assert config.exists()
    codes = [line for line in out if line.startswith("code")]
    assert codes == ["code 1", "code 1", "code 0"]
    assert len(err) == 2
    for line in err:
        assert line.startswith("ctxtop: ")
        assert str(disk.mount / "ctxtop.db") in line
        assert line.endswith("choose another file with --db")


def test_no_store_can_be_made_on_a_disk_that_is_read_only(config: Path, disk: Disk) -> None:
    out, err = disk.shell("""mount -o remount,ro "$disk"; run scan""")

    assert config.exists()
    assert out == ["code 1"]
    assert len(err) == 1
    assert err[0].endswith("choose another file with --db")


def test_doctor_says_that_the_disk_is_read_only(config: Path, disk: Disk) -> None:
    out, err = disk.shell("""
run scan > /dev/null; mount -o remount,ro "$disk"; run doctor; run doctor --no-scan
""")

    assert config.exists()
    told = [line for line in out if line.startswith("✗ store ")]
    assert len(told) == 2
    assert all("choose another file with --db" in line for line in told)
    assert [line for line in out if line.startswith("code")] == ["code 1", "code 1"]
    assert all("checks failed" in line for line in err)


def test_a_disk_that_fills_in_the_middle_of_a_batch(config: Path, disk: Disk) -> None:
    grown = config / "projects" / PROJECT / "s0.jsonl"
    more = encode([assistant(f"more{each}", 2000 + each, model=f"m{each}") for each in range(9000)])
    (disk.out / "more").write_bytes(more)
    out, err = disk.shell(f"""
run scan > /dev/null; keep before
cat "$out/more" >> {grown}
dd if=/dev/zero of="$disk/filler" bs=4096 2> /dev/null; truncate -s -300K "$disk/filler"
run scan; keep full
rm "$disk/filler"
run scan > /dev/null; keep after
""")
    first = disk.mount.parent / "first.db"
    subprocess.run(
        [sys.executable, "-P", "-m", "ctxtop", "scan", "--db", str(first)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        check=True,
        timeout=60,
    )

    assert out == ["code 1"]
    assert len(err) == 1
    assert "the disk is full; free some space; nothing is lost" in err[0]
    assert disk.rows("full") == disk.rows("before"), "half a batch was stored"
    assert disk.rows("after") == dump(first, FILE_STATE)


def test_a_disk_that_is_full_from_the_start(config: Path, disk: Disk) -> None:
    append(config / "projects" / PROJECT / "s0.jsonl", [user("once more")])
    out, err = disk.shell("""
dd if=/dev/zero of="$disk/filler" bs=4096 2> /dev/null
run scan
rm "$disk/filler"
run scan | tail -n 1
""")

    assert (out[0], out[-1]) == ("code 1", "code 0")
    assert len(err) == 1
    assert "the disk is full; free some space; nothing is lost" in err[0]
