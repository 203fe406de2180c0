"""What is kept to take changes back: by content, for us alone, and never less than is needed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.plan import CompactionRefusedError, make_plan
from ctxtop.core.compaction.receipts import (
    BACKUPS_PER_SESSION,
    DAY_MS,
    ApplyMode,
    BackupRetention,
    BackupStore,
    CompactionReceipt,
    MtimeHandling,
    ReceiptStore,
    WrittenVersion,
    backup_retention,
)
from ctxtop.core.compaction.undo import find_undo_obstacle, undo
from ctxtop.core.files.chunk_store import ORPHAN_AGE_MS
from ctxtop.core.policy.policy import Policy, PolicyOrigin
from ctxtop.core.policy.resolve import RawValue, resolve_policy

from ..sessions_on_disk import (
    at_rest,
    encoded,
    masks,
    operation,
    plan_of,
    rest,
    result_lines,
    subject_of,
    turns,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.compaction.compaction_target import CompactionTarget

LINES: Final = turns(8)
DATA: Final = encoded(LINES)
RESULTS: Final = result_lines(LINES)
KEPT_MS: Final = BackupRetention().keep_ms
FULL: Final = BackupRetention(max_bytes=10)
NOW: Final = 10 * KEPT_MS
OLD: Final = NOW - KEPT_MS - 1

DONE: Final = WrittenVersion("0" * 64, 1)
UNDONE: Final = WrittenVersion("0" * 64, 1, (0,))


def policy_with(*values: tuple[str, object]) -> Policy:
    return resolve_policy(RawValue(*each, PolicyOrigin.USER_FILE, "here") for each in values)


class Shelf:
    """Copies of made-up sessions, and the receipts that name them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.backups = BackupStore(root / "state")
        self.receipts: list[CompactionReceipt] = []

    def put(self, version: WrittenVersion, at: int = OLD, **fields: Any) -> str:  # noqa: ANN401 -- any field
        """Keep a copy for one more receipt; gives the copy's name."""
        number = len(self.receipts)
        name = self.backups.put([b"copy %d " % number * 100], "s")
        base: dict[str, Any] = {
            "receipt_id": f"{number:08}", "session_id": "s", "new_session_id": None,
            "mode": ApplyMode.IN_PLACE, "at": at, "transcript": "/gone", "target": "/gone",
            "backup": name, "verified": (), "resume_command": "", "mtime": MtimeHandling.KEPT,
            "plan": make_plan("s", name, 1, [operation()], before_tokens=1), "now": version,
        }  # fmt: skip
        self.receipts.append(CompactionReceipt(**(base | fields)))
        return name

    def left(self, retention: BackupRetention = BackupRetention()) -> set[str]:  # noqa: B008
        """Clear up, and name the copies that are left."""
        self.backups.remove_old(self.receipts, set(), NOW, retention)
        return {path.stem for path in self.backups.folder.glob("*.z")}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def test_old_copies_of_what_is_undone_go_but_for_the_newest(shelf: Shelf) -> None:
    names = [shelf.put(UNDONE, OLD + number) for number in range(-9, 0)]
    assert shelf.left() == set(names[-BACKUPS_PER_SESSION:])


def test_thirty_days_every_copy_stays(shelf: Shelf) -> None:
    names = [shelf.put(UNDONE, NOW - KEPT_MS) for _ in range(BACKUPS_PER_SESSION + 3)]
    assert shelf.left() == set(names)


def test_each_session_has_its_newest(shelf: Shelf) -> None:
    names = [
        shelf.put(UNDONE, OLD, session_id=session)
        for session in "ab"
        for _ in range(BACKUPS_PER_SESSION)
    ]
    assert shelf.left() == set(names)


def test_receipts_that_stack_on_one_session_keep_each_their_copy(shelf: Shelf) -> None:
    """Every one of them is needed for its own step back, however many and however old."""
    names = [shelf.put(DONE, number) for number in range(4 * BACKUPS_PER_SESSION)]
    assert shelf.left() == set(names)


def test_a_copy_that_two_receipts_name_stays_for_the_one_that_needs_it(shelf: Shelf) -> None:
    name = shelf.put(DONE, 1)
    shelf.receipts.append(msgspec.structs.replace(shelf.receipts[0], receipt_id="x", now=UNDONE))
    for number in range(BACKUPS_PER_SESSION):
        shelf.put(UNDONE, OLD + number - 100)
    assert name in shelf.left()


def test_a_partly_undone_change_and_an_open_one_need_their_copies(shelf: Shelf) -> None:
    two = make_plan("s", "0", 1, [operation(), operation()], before_tokens=1)
    partly = shelf.put(UNDONE, 1, plan=two)
    started = shelf.put(DONE, 2, now=None, pending=DONE)
    taking_back = shelf.put(DONE, 3, pending=UNDONE)
    for number in range(BACKUPS_PER_SESSION):
        shelf.put(UNDONE, OLD + number - 100)
    assert {partly, started, taking_back} <= shelf.left()


@pytest.mark.parametrize("origin", ["gone", "changed", "there"])
@pytest.mark.parametrize("full", [False, True])
def test_a_forks_copy_stays_while_its_origin_is_not_what_it_was(
    shelf: Shelf, origin: str, full: bool
) -> None:
    path = shelf.root / "origin.jsonl"
    name = shelf.put(DONE, 1)
    content = b"copy 0 " * 100
    if origin != "gone":
        path.write_bytes(content if origin == "there" else content[::-1])
    plan = make_plan("s", name, len(content), [operation()], before_tokens=1)
    fork = {"mode": ApplyMode.FORK, "transcript": str(path), "plan": plan}
    shelf.receipts[0] = msgspec.structs.replace(shelf.receipts[0], **fork)
    for number in range(BACKUPS_PER_SESSION):
        shelf.put(UNDONE, OLD + number - 100)
    left = shelf.left(FULL if full else BackupRetention())
    assert (name in left) is not (origin == "there" and full)


def test_where_room_is_short_only_what_is_needed_stays(shelf: Shelf) -> None:
    needed, new = shelf.put(DONE, 1), shelf.put(UNDONE, NOW)
    shelf.put(UNDONE)
    assert shelf.left(FULL) == {needed, new}


@pytest.mark.parametrize("days", [0, 3, 365])
def test_however_short_the_retention_what_an_undo_needs_stays(shelf: Shelf, days: int) -> None:
    needed, recent = shelf.put(DONE, 1), shelf.put(UNDONE, NOW - 5 * DAY_MS)
    newest = {shelf.put(UNDONE, NOW - DAY_MS - each) for each in range(BACKUPS_PER_SESSION)}
    retention = backup_retention(policy_with(("backup.keep_days", days)))
    assert shelf.left(retention) == {needed, *newest} | ({recent} if days > 5 else set())


def test_what_nothing_names_goes_after_a_day(shelf: Shelf) -> None:
    """A plan that was refused leaves its copy behind; another process may be about to name it."""
    name = shelf.backups.put([b"refused"], "s")
    written = shelf.backups.path(name).stat().st_mtime_ns // 1_000_000
    shelf.backups.remove_unreferenced(set(), written + ORPHAN_AGE_MS)
    assert shelf.backups.is_intact(name)
    shelf.backups.remove_unreferenced({name}, written + ORPHAN_AGE_MS + 1)
    assert shelf.backups.is_intact(name)
    shelf.backups.remove_unreferenced(set(), written + ORPHAN_AGE_MS + 1)
    assert not shelf.backups.is_intact(name)


def test_in_place_is_refused_where_there_is_no_room(tmp_path: Path) -> None:
    subject = replace(at_rest(tmp_path, DATA), retention=FULL)
    with pytest.raises(CompactionRefusedError, match=r"backup-room: .*raise backup.max_mib, undo"):
        apply_plan(plan_of(DATA, masks(DATA, RESULTS[:1])), ApplyMode.IN_PLACE, subject)
    assert subject.transcript.read_bytes() == DATA


def _stack(subject: CompactionTarget, count: int) -> list[CompactionReceipt]:
    """Carry out plans on one session, one after the other, each long ago."""
    done = []
    for number in range(count):
        now = subject.transcript.read_bytes()
        plan = plan_of(now, masks(now, [RESULTS[number]]))
        receipt = apply_plan(plan, ApplyMode.IN_PLACE, subject)
        done.append(msgspec.structs.replace(receipt, at=number))
        ReceiptStore(subject.state_folder).write(done[-1])
        rest(subject.transcript)
    return done


def test_a_stack_is_taken_back_after_every_clearing_up(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    for receipt in reversed(_stack(subject, BACKUPS_PER_SESSION + 2)):
        backups = BackupStore(subject.state_folder)
        backups.remove_old(ReceiptStore(subject.state_folder).all(), set(), NOW)
        rest(subject.transcript)
        undo(receipt.receipt_id, None, subject)
    assert subject.transcript.read_bytes() == DATA


def test_nothing_goes_while_a_receipt_cannot_be_read(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    first, *_ = _stack(subject, 1)
    rest(subject.transcript)
    undo(first.receipt_id, None, subject)
    receipts = ReceiptStore(subject.state_folder)
    old = BackupStore(subject.state_folder).put([b"of a receipt that is damaged"], "x")
    path = BackupStore(subject.state_folder).path(old)
    rest(path)
    (receipts.folder / "bad.json").write_bytes(b"{")
    assert [path.stem for path in receipts.unreadable()] == ["bad"]
    apply_plan(plan_of(DATA, masks(DATA, RESULTS[:2])), ApplyMode.FORK, subject)
    assert path.exists()
    (receipts.folder / "bad.json").unlink()
    apply_plan(plan_of(DATA, masks(DATA, RESULTS[:3])), ApplyMode.FORK, subject)
    assert not path.exists()


def test_receipts_say_nothing_of_what_a_session_says(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    done = masks(DATA, RESULTS[:2], "a stub about the secret")
    receipt = apply_plan(plan_of(DATA, done), ApplyMode.IN_PLACE, subject)
    state = ReceiptStore(subject.state_folder)
    assert state.all() == [receipt]
    (path,) = state.folder.iterdir()
    kept = path.read_text(encoding="utf-8")
    for text in ("secret", "Bash", "ls 0", "Done", "Please", "/message"):
        assert text not in kept, text
    assert isinstance(json.loads(kept)["plan"], str)
    for each in subject.state_folder.rglob("*"):
        assert each.stat().st_mode & 0o077 == 0, each
        assert each.is_dir() or b"secret" not in each.read_bytes()


def test_one_plan_of_two_receipts_is_kept_once(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    plan = plan_of(DATA, masks(DATA, RESULTS[:2]))
    for _ in range(2):
        apply_plan(plan, ApplyMode.FORK, subject)
    receipts = ReceiptStore(subject.state_folder)
    assert [each.plan for each in receipts.all()] == [plan, plan]
    assert len([*receipts.plan_blobs.folder.iterdir()]) == 1
    assert len([*BackupStore(subject.state_folder).folder.iterdir()]) == 1


def _codes(receipt: CompactionReceipt, subject: CompactionTarget) -> list[str]:
    error = find_undo_obstacle(receipt, subject.state_folder)
    assert error is None or all(each.what_to_do for each in error.refusals)
    return [each.check for each in error.refusals] if error else []


@pytest.mark.parametrize("mode", [ApplyMode.FORK, ApplyMode.IN_PLACE])
def test_what_can_be_taken_back_is_said(tmp_path: Path, mode: ApplyMode) -> None:
    subject = at_rest(tmp_path, DATA)
    receipt = apply_plan(plan_of(DATA, masks(DATA, RESULTS[:2])), mode, subject)
    target = subject_of(subject.transcript.with_name(receipt.target.rpartition("/")[2]), tmp_path)
    before = target.transcript.read_bytes()
    assert _codes(receipt, subject) == []
    backup = BackupStore(subject.state_folder).path(str(receipt.backup))
    whole = backup.read_bytes()
    backup.write_bytes(whole[:-9])
    # A fork's origin is what it was.
    assert _codes(receipt, subject) == ([] if mode is ApplyMode.FORK else ["backup"])
    backup.write_bytes(whole)
    target.transcript.write_bytes(before.replace(b"[masked]", b"[MASKED]", 1))
    assert _codes(receipt, subject) == ["changed"]
    target.transcript.unlink()
    assert _codes(receipt, subject) == ["gone"]
    target.transcript.write_bytes(before)
    rest(target.transcript)
    undo(receipt.receipt_id, None, target)
    assert _codes(ReceiptStore(subject.state_folder).all()[0], subject) == ["undone"]


def test_a_receipt_that_is_not_there(tmp_path: Path) -> None:
    subject = replace(at_rest(tmp_path, DATA))
    with pytest.raises(CompactionRefusedError, match="receipt: receipt beef cannot be read: see"):
        undo("beef", None, subject)
