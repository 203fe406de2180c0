"""A plan is carried out in every mode, verified, and taken back byte for byte."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.compaction_target import session_lock
from ctxtop.core.compaction.plan import (
    CompactionRefusedError,
    Operation,
    RefusalKind,
    RemoveLine,
    ReplaceValue,
    Severity,
)
from ctxtop.core.compaction.receipts import ApplyMode, ReceiptState, ReceiptStore
from ctxtop.core.compaction.strategies.summary_and_cut import BoundarySizes, make_boundary_lines
from ctxtop.core.compaction.undo import undo
from ctxtop.core.files.file_operations import user_lock

from ..sessions_on_disk import (
    at_rest,
    encoded,
    masks,
    operation,
    place,
    plan_of,
    rest,
    result_lines,
    said,
    subject_of,
    turns,
)
from ..transcripts import SESSION, assistant, user

LINES = turns(6)
DATA = encoded(LINES)
RESULTS = result_lines(LINES)
MASKS = masks(DATA, RESULTS[:3])


def leaf() -> str:
    """The last line that has children."""
    return str(LINES[-1]["leafUuid"])


def goes_on(parent: str) -> bytes:
    """What a client appends when the session goes on."""
    return encoded([user("And now?", 900, parentUuid=parent)])


def summary(kept: list[str]) -> Operation:
    """A boundary of ours, and its summary."""
    envelope = {"sessionId": SESSION, "uuid": leaf(), "timestamp": "2026-11-20T12:00:00.000Z"}
    sizes = BoundarySizes(1000, 100, 120)
    return operation(
        *make_boundary_lines(envelope, "boundary", "summary", "SUMMARY", kept, sizes),
        level=Severity.SUMMARY,
    )


def masked_texts(path: Path) -> int:
    return sum("[masked]" in texts for _, texts in said(path))


def test_in_place_and_back(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    before = said(subject.transcript)
    receipt = apply_plan(plan_of(DATA, MASKS), ApplyMode.IN_PLACE, subject)
    assert masked_texts(subject.transcript) == 3
    assert [uuid for uuid, _ in said(subject.transcript)] == [uuid for uuid, _ in before]
    changed = subject.transcript.read_bytes().split(b"\n")
    different = [n for n, line in enumerate(DATA.split(b"\n"), 1) if line != changed[n - 1]]
    assert different == RESULTS[:3]
    undone = undo(receipt.receipt_id, None, subject)
    assert subject.transcript.read_bytes() == DATA
    assert undone.sha256 == receipt.plan.base_sha256
    assert ReceiptStore(subject.state_folder).all()[0].state is ReceiptState.UNDONE
    assert [path.name for path in subject.transcript.parent.iterdir()] == [f"{SESSION}.jsonl"]


def test_one_operation_back_after_the_session_went_on(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    receipt = apply_plan(plan_of(DATA, MASKS), ApplyMode.IN_PLACE, subject)
    tail = goes_on(leaf())
    with subject.transcript.open("ab") as file:
        file.write(tail)
    rest(subject.transcript)
    undo(receipt.receipt_id, 1, subject)
    assert masked_texts(subject.transcript) == 2
    undo(receipt.receipt_id, None, subject)
    assert subject.transcript.read_bytes() == DATA + tail


def test_two_receipts_in_one_file(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    first = apply_plan(plan_of(DATA, MASKS), ApplyMode.IN_PLACE, subject)
    now = subject.transcript.read_bytes()
    second = apply_plan(
        plan_of(now, masks(now, RESULTS[3:4], "[later]")), ApplyMode.IN_PLACE, subject
    )
    undo(first.receipt_id, 0, subject)
    undo(first.receipt_id, None, subject)
    assert masked_texts(subject.transcript) == 0
    undo(second.receipt_id, None, subject)
    assert subject.transcript.read_bytes() == DATA


def test_the_same_value_twice_is_taken_back_in_order(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    first = apply_plan(plan_of(DATA, MASKS), ApplyMode.IN_PLACE, subject)
    now = subject.transcript.read_bytes()
    second = apply_plan(plan_of(now, masks(now, RESULTS[:1], "[m]")), ApplyMode.IN_PLACE, subject)
    with pytest.raises(CompactionRefusedError, match="later receipts first"):
        undo(first.receipt_id, None, subject)
    undo(second.receipt_id, None, subject)
    undo(first.receipt_id, None, subject)
    assert subject.transcript.read_bytes() == DATA


def test_a_fork(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    agents = subject.transcript.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    agent = encoded([user("Build", 1, isSidechain=True)])
    (agents / "agent-a1.jsonl").write_bytes(agent)
    results = subject.transcript.with_suffix("") / "tool-results"
    results.mkdir()
    (results / "t.txt").write_bytes(b"long")
    receipt = apply_plan(plan_of(DATA, MASKS), ApplyMode.FORK, subject)
    fork = Path(receipt.target)
    assert subject.transcript.read_bytes() == DATA
    assert receipt.new_session_id == fork.stem
    assert receipt.resume_command == f"cd /home/dev/proj && claude --resume {fork.stem}"
    assert masked_texts(fork) == 3
    assert [uuid for uuid, _ in said(fork)] == [uuid for uuid, _ in said(subject.transcript)]
    lines = [json.loads(line) for line in fork.read_text(encoding="utf-8").split("\n")[:-1]]
    assert {line["sessionId"] for line in lines} == {fork.stem}
    origins = {(line["forkedFrom"]["sessionId"], line["forkedFrom"]["messageUuid"] == line["uuid"])
               for line in lines if "uuid" in line}  # fmt: skip
    assert origins == {(SESSION, True)}
    copied = fork.with_suffix("") / "subagents" / "agent-a1.jsonl"
    assert json.loads(copied.read_bytes())["sessionId"] == fork.stem
    assert (fork.with_suffix("") / "tool-results" / "t.txt").read_bytes() == b"long"
    assert (agents / "agent-a1.jsonl").read_bytes() == agent
    tail = goes_on(leaf())
    with fork.open("ab") as file:
        file.write(tail)
    rest(fork)
    rest(copied)
    undo(receipt.receipt_id, None, subject_of(fork, tmp_path))
    assert said(fork)[:-1] == said(subject.transcript)
    assert fork.read_bytes().endswith(tail)


@pytest.mark.parametrize("torn", [b"", b'{"type":"user","uuid":"ha'])
@pytest.mark.parametrize("tail", [b"", goes_on("summary")])
def test_a_summary_is_appended_and_cut(tmp_path: Path, torn: bytes, tail: bytes) -> None:
    data = DATA + torn
    subject = at_rest(tmp_path, data)
    before = said(subject.transcript)
    kept = [uuid for uuid, _ in before[-5:] if uuid]
    receipt = apply_plan(plan_of(data, [summary(kept)]), ApplyMode.APPEND, subject)
    assert receipt.backup is None
    assert subject.transcript.read_bytes().startswith(data)
    assert [uuid for uuid, _ in said(subject.transcript)] == ["summary", *kept]
    if tail:
        with subject.transcript.open("ab") as file:
            file.write(tail)
    rest(subject.transcript)
    undo(receipt.receipt_id, None, subject)
    if tail:
        assert subject.transcript.read_bytes().startswith(data)
        assert said(subject.transcript)[:-1] == before
    else:
        assert subject.transcript.read_bytes() == data


def test_a_kept_result_needs_its_call(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    kept = [uuid for uuid, _ in said(subject.transcript)[-2:] if uuid]
    with pytest.raises(CompactionRefusedError, match="V5: 1 lines that should stay"):
        apply_plan(plan_of(DATA, [summary(kept)]), ApplyMode.APPEND, subject)
    assert subject.transcript.read_bytes() == DATA


def line_with(text: bytes) -> int:
    return next(n for n, line in enumerate(DATA.split(b"\n"), 1) if text in line)


def edit(number: int, pointer: str, value: str, level: Severity = Severity.MASKED) -> Operation:
    return operation(ReplaceValue(*place(DATA, number), pointer, value), line=number, level=level)


THOUGHT = line_with(b'"thinking":"Hm 1"')
CALL = line_with(b'"command":"ls 1"')
TEXT = line_with(b"Done 1.")
NEWEST_CALL = line_with(b'"command":"ls 5"')

WRONG: dict[str, tuple[Operation, str]] = {
    "uuid": (edit(CALL, "/uuid", '"other"'), "V4"),
    "id of a call": (edit(CALL, "/message/content/0/id", '"other"'), "V4"),
    "parent": (edit(CALL, "/parentUuid", "null"), "V5"),
    "orphan": (edit(CALL, "/parentUuid", '"nowhere"'), "V6"),
    "empty content": (edit(RESULTS[0], "/message/content", "[]"), "V4"),
    "empty text": (edit(TEXT, "/message/content/0/text", '""', Severity.PROSE), "V9"),
    "another type": (edit(RESULTS[0], "/message/content/0/content", "[]"), "V9"),
    "no input": (edit(CALL, "/message/content/0/input", "{}"), "V9"),
    "thinking cut": (
        edit(THOUGHT, "/message/content/0/thinking", '"H"', Severity.REASONING),
        "V10",
    ),
    "prompt": (edit(2, "/message/content", '"Hi"'), "V14"),
    "half a character": (edit(RESULTS[0], "/message/content/0/content", '"\\ud83d"'), "V18"),
    "only the file": (
        edit(RESULTS[0], "/message/content/0/content", '"x"', Severity.FILE_ONLY), "V16"),
    "larger": (edit(RESULTS[0], "/message/content/0/content", json.dumps("y" * 2000)), "V16"),
    "a call gone": (operation(RemoveLine(*place(DATA, CALL)), line=CALL), "V5"),
    "mode gone": (operation(RemoveLine(*place(DATA, 1)), line=1), "V12"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("mode", [ApplyMode.FORK, ApplyMode.IN_PLACE])
def test_what_breaks_an_invariant_is_not_done(tmp_path: Path, what: str, mode: ApplyMode) -> None:
    wrong, code = WRONG[what]
    subject = at_rest(tmp_path, DATA)
    with pytest.raises(CompactionRefusedError) as found:
        apply_plan(plan_of(DATA, [wrong]), mode, subject)
    assert found.value.kind is RefusalKind.UNVERIFIED
    assert code in {each.check for each in found.value.refusals}
    assert subject.transcript.read_bytes() == DATA
    assert len(list(subject.transcript.parent.iterdir())) == 1
    assert ReceiptStore(subject.state_folder).all() == []


def test_a_thinking_line_goes_with_its_children_hung_elsewhere(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    parent = LINES[THOUGHT - 1]["parentUuid"]
    away = operation(
        RemoveLine(*place(DATA, THOUGHT)),
        ReplaceValue(*place(DATA, CALL), "/parentUuid", json.dumps(parent)),
        level=Severity.REASONING,
    )
    receipt = apply_plan(plan_of(DATA, [away]), ApplyMode.IN_PLACE, subject)
    assert LINES[THOUGHT - 1]["uuid"] not in dict(said(subject.transcript))
    undo(receipt.receipt_id, 0, subject)
    assert subject.transcript.read_bytes() == DATA


def open_call() -> bytes:
    return encoded(LINES[:NEWEST_CALL])


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("open", {"find_holder": lambda _: "process 7"}),
        ("idle", {}),
        ("changed", {}),
        ("session", {"session_id": "other"}),
    ],
)
def test_refusals(tmp_path: Path, check: str, change: dict[str, Any]) -> None:
    subject = replace(at_rest(tmp_path, DATA), **change)
    plan = plan_of(DATA, MASKS)
    if check == "idle":
        subject.transcript.touch()
    if check == "changed":
        plan = plan_of(DATA[:-1], MASKS)
    with pytest.raises(CompactionRefusedError) as found:
        apply_plan(plan, ApplyMode.IN_PLACE, subject)
    assert [each.check for each in found.value.refusals] == [check]
    assert all(each.why and each.what_to_do for each in found.value.refusals)
    assert subject.transcript.read_bytes() == DATA


def test_an_open_call_is_left_alone_in_place_only(tmp_path: Path) -> None:
    data = open_call()
    subject = at_rest(tmp_path, data)
    plan = plan_of(data, masks(data, RESULTS[:2]))
    with pytest.raises(CompactionRefusedError, match="open-call"):
        apply_plan(plan, ApplyMode.IN_PLACE, subject)
    assert masked_texts(Path(apply_plan(plan, ApplyMode.FORK, subject).target)) == 2


def test_a_fork_of_an_open_call_can_be_taken_back(tmp_path: Path) -> None:
    data = open_call()
    subject = at_rest(tmp_path, data)
    listed = said(subject.transcript)
    receipt = apply_plan(plan_of(data, masks(data, RESULTS[:2])), ApplyMode.FORK, subject)
    fork = Path(receipt.target)
    of_fork = replace(subject, session_id=fork.stem, transcript=fork)
    undo(receipt.receipt_id, 0, of_fork)
    assert masked_texts(fork) == 1
    undo(receipt.receipt_id, None, of_fork)
    assert said(fork) == listed


def test_a_call_that_came_since_is_waited_for(tmp_path: Path) -> None:
    data = open_call()
    subject = at_rest(tmp_path, data)
    receipt = apply_plan(plan_of(data, masks(data, RESULTS[:2])), ApplyMode.FORK, subject)
    fork = Path(receipt.target)
    # The client gives the open call a result, and the model calls again.
    with fork.open("ab") as file:
        file.write(encoded(LINES[NEWEST_CALL : NEWEST_CALL + 1]))
        call = {"type": "tool_use", "id": "toolu_new", "name": "Bash", "input": {}}
        last = LINES[NEWEST_CALL]["uuid"]
        file.write(encoded([assistant("msg_new", content=[call], at=99, parentUuid=last)]))
    rest(fork)
    before = fork.read_bytes()
    with pytest.raises(CompactionRefusedError, match="open-call"):
        undo(receipt.receipt_id, None, replace(subject, session_id=fork.stem, transcript=fork))
    assert fork.read_bytes() == before


def test_an_agent_at_work(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    agents = subject.transcript.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-a1.jsonl").touch()
    with pytest.raises(CompactionRefusedError, match="agent-a1 was active"):
        apply_plan(plan_of(DATA, MASKS), ApplyMode.IN_PLACE, subject)


def test_files_are_for_the_user_alone_and_keep_their_mode(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    subject.transcript.chmod(0o640)
    apply_plan(plan_of(DATA, MASKS), ApplyMode.IN_PLACE, subject)
    assert subject.transcript.stat().st_mode & 0o777 == 0o640
    for path in subject.state_folder.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_what_was_written_since_hangs_behind_the_turns_that_come_back(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    whole = said(subject.transcript)
    start = max(n for n, line in enumerate(LINES, 1) if "Please do" in str(line.get("message")))
    numbers = range(start, len(LINES) + 1)
    cut = operation(*(RemoveLine(*place(DATA, n)) for n in numbers), level=Severity.CUT)
    receipt = apply_plan(plan_of(DATA, [cut]), ApplyMode.IN_PLACE, subject)
    left = said(subject.transcript)
    assert len(left) < len(whole)
    newest = str([line["uuid"] for line in LINES[: start - 1] if "uuid" in line][-1])
    with subject.transcript.open("ab") as file:
        file.write(goes_on(newest))
    rest(subject.transcript)
    undo(receipt.receipt_id, None, subject)
    assert subject.transcript.read_bytes()[: len(DATA)] == DATA
    assert said(subject.transcript)[:-1] == whole
    assert len(said(subject.transcript)) == len(whole) + 1


def test_a_summary_is_taken_back_when_what_stands_before_it_was_taken_back_first(
    tmp_path: Path,
) -> None:
    subject = at_rest(tmp_path, DATA)
    first = apply_plan(plan_of(DATA, MASKS), ApplyMode.IN_PLACE, subject)
    now = subject.transcript.read_bytes()
    second = apply_plan(plan_of(now, [summary([])]), ApplyMode.APPEND, subject)
    tail = goes_on("summary")
    with subject.transcript.open("ab") as file:
        file.write(tail)
    rest(subject.transcript)
    undo(first.receipt_id, None, subject)
    rest(subject.transcript)
    undo(second.receipt_id, None, subject)
    assert subject.transcript.read_bytes()[: len(DATA)] == DATA
    assert [each for each, _ in said(subject.transcript)][-1] == json.loads(tail)["uuid"]
    assert masked_texts(subject.transcript) == 0


def test_two_stores_exclude_each_other_at_a_session(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    other = replace(subject, state_folder=tmp_path / "another store")
    with session_lock(other, SESSION):
        with pytest.raises(CompactionRefusedError) as caught:
            apply_plan(plan_of(DATA, MASKS), ApplyMode.IN_PLACE, subject)
        assert caught.value.refusals[0].check == "locked"
        assert subject.transcript.read_bytes() == DATA
        with session_lock(other, "another session"):
            pass

    receipt = apply_plan(plan_of(DATA, MASKS), ApplyMode.IN_PLACE, subject)
    with session_lock(other, SESSION), pytest.raises(CompactionRefusedError) as caught:
        undo(receipt.receipt_id, None, subject)
    assert caught.value.refusals[0].check == "locked"
    undo(receipt.receipt_id, None, subject)
    assert subject.transcript.read_bytes() == DATA
    assert list(subject.transcript.parent.glob("*lock*")) == []


def test_a_link_to_the_folder_names_the_same_session(tmp_path: Path) -> None:
    subject = at_rest(tmp_path / "real", DATA)
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    relative = subject.transcript.relative_to(tmp_path / "real")
    other = replace(subject, state_folder=tmp_path / "b", transcript=tmp_path / "link" / relative)

    with (
        session_lock(other, SESSION),
        pytest.raises(CompactionRefusedError),
        session_lock(subject, SESSION),
    ):
        pass


def test_a_process_that_ends_lets_go_of_the_lock(tmp_path: Path, child_env: dict[str, str]) -> None:
    code = (
        "import os, sys; from pathlib import Path; from ctxtop.core.files.file_operations import"
        " user_lock\n"
        "with user_lock('session', Path(sys.argv[1]), 'x'): os.kill(os.getpid(), 9)"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    ended = subprocess.run(words, env=child_env, check=False)
    assert ended.returncode == -9

    with user_lock("session", tmp_path, "x"):
        pass
