"""Whatever call fails, whenever the process ends, whoever writes: no line is lost or altered."""

from __future__ import annotations

import json
import random
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.core.compaction.append_boundary import Envelope, Kept, summary_lines
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.image import after, image
from ctxtop.core.compaction.plan import Harm, Operation, Remove, Replace
from ctxtop.core.compaction.receipts import Mode, Receipts, State
from ctxtop.core.compaction.refused import NotAppliedError, Stop
from ctxtop.core.compaction.settle import settle
from ctxtop.core.compaction.undo import undo

from ..faults import Faults, KilledError
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
from ..transcripts import SESSION, user

if TYPE_CHECKING:
    from ctxtop.core.compaction.plan import Plan

SEEDS: Final = 2
CASES: Final = 500
"""Of each seed and mode: over 10,000 in all."""

LAST_CALL: Final = 135
"""Few changes take more calls than that."""

SESSIONS: Final = [turns(count, 60) for count in (2, 3, 4)]
TAILS: Final = (b"", b"", b'{"type":"user","uuid":"ha', b'\n{"type":"new","x":"\xff"}\r\n')


class Case:
    """A random session, a plan for it, and what befalls it."""

    def __init__(self, seed: int, mode: Mode, root: Path) -> None:
        self.random = random.Random(seed)
        self.mode = mode
        self.root = root
        self.lines = self.random.choice(SESSIONS)
        self.data = encoded(self.lines) + self.random.choice(TAILS)
        shutil.rmtree(root, ignore_errors=True)
        self.subject = at_rest(root, self.data)
        self.plan = self._plan()
        if self.random.random() < 0.3:
            self._put_sidecars()
        self.written: list[bytes] = []

    @property
    def path(self) -> Path:
        return self.subject.transcript

    @property
    def changed(self) -> bytes:
        lines = (line + b"\n" for line in self.data.split(b"\n"))
        return b"".join(after(image(_unended(lines, self.data), self.plan.operations)))

    def _plan(self) -> Plan:
        leaf = self.lines[-1]["leafUuid"]
        envelope = Envelope(SESSION, leaf, "2026-11-20T12:00:00.000Z")
        appended = summary_lines(envelope, Kept("SUMMARY", [leaf], 9, 1), "boundary", "summary")
        done = [operation(*appended, level=Harm.SUMMARY)]
        if self.mode is not Mode.APPEND:
            numbers = result_lines(self.lines)
            chosen = self.random.sample(numbers, self.random.randint(1, len(numbers)))
            done = masks(self.data, sorted(chosen), self.random.choice(["[m]", 'ü\n"']))
            if self.random.random() < 0.3:
                done.append(self._without_a_thought())
        return plan_of(self.data, done)

    def _without_a_thought(self) -> Operation:
        thought, call = 3, 4
        parent = json.dumps(self.lines[thought - 1]["parentUuid"])
        return operation(
            Remove(*place(self.data, thought)),
            Replace(*place(self.data, call), "/parentUuid", parent),
            level=Harm.REASONING,
        )

    def _put_sidecars(self) -> None:
        for name, data in (("subagents/agent-a.jsonl", self.data), ("tool-results/t.txt", b"x")):
            path = self.path.with_suffix("") / name
            path.parent.mkdir(parents=True)
            path.write_bytes(data)
            rest(path)

    def client_writes(self) -> None:
        """Append a line as the client does: by the transcript's name."""
        line = encoded([user(f"late {len(self.written)}", 900)])
        with self.path.open("ab", buffering=0) as file:
            file.write(line)
        self.written.append(line)

    def require_whole(self) -> None:
        """Every byte is there: of the session before or after, and of what was written."""
        found = self.path.read_bytes()
        starts = [each for each in (self.data, self.changed) if found.startswith(each)]
        assert starts, "neither before nor after"
        tail = found[max(map(len, starts)) :]
        for line in self.written:
            assert line in tail, "a line of the client's is lost"
        assert len(tail) <= 2 * sum(map(len, self.written)) + 1
        others = {p.name for p in self.path.parent.iterdir()} - {self.path.name}
        assert not [name for name in others if name.endswith(".ctxtop")]

    def require_undo(self) -> None:
        """What is done can be taken back, and then everything is as it was."""
        tail = self.path.read_bytes()
        for receipt in Receipts(self.subject.state).all():
            assert receipt.state is State.DONE
            target = Path(receipt.target)
            if target.stat().st_size != (receipt.now and receipt.now.size):
                rest(target)
            undo(receipt.receipt_id, None, subject_of(target, self.root))
            if receipt.mode is Mode.FORK:
                assert said(target) == said(self.path)[: len(said(target))]
        found = self.path.read_bytes()
        assert found.startswith(self.data)
        assert all(line in found for line in self.written), tail


def _unended(lines: Any, data: bytes) -> Any:  # noqa: ANN401 -- an iterator of bytes
    whole = list(lines)
    whole[-1] = whole[-1][:-1]
    return iter(whole if whole[-1] or not data else whole[:-1])


def carry_out(case: Case, faults: Faults) -> str:
    """Apply under faults; says how it ended."""
    with faults.armed():
        try:
            apply_plan(case.plan, case.mode, case.subject)
        except KilledError:
            return "killed"
        except NotAppliedError as error:
            return "refused" if error.stop in {Stop.LIVE, Stop.UNSAFE} else str(error)
        except OSError as error:
            return "failed" if error.strerror == "fault" else str(error)
    return "done"


def befall(case: Case, faults: Faults) -> None:
    choose = case.random
    what = choose.choice(["kill", "fail", "write", "kill and write"])
    if "kill" in what:
        faults.kill_at = choose.randint(1, LAST_CALL)
    if what == "fail":
        faults.fail_at = choose.randint(1, LAST_CALL)
    if "write" in what:
        for _ in range(choose.randint(1, 3)):
            faults.then[choose.randint(1, LAST_CALL)] = case.client_writes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("mode", list(Mode))
def test_faults_at_every_call(tmp_path: Path, mode: Mode, seed: int) -> None:
    ends: dict[str, int] = dict.fromkeys(("killed", "refused", "failed", "done"), 0)
    for number in range(CASES):
        case = Case(seed * CASES + number, mode, tmp_path / "c")
        faults = Faults()
        befall(case, faults)
        end = carry_out(case, faults)
        ends[end] += 1
        with Faults().armed():  # for no disk to be waited for
            if end == "killed":
                settle(case.subject.state, SESSION, case.path)
            case.require_whole()
            if end in {"refused", "failed"}:
                assert Receipts(case.subject.state).all() == [], end
            case.require_undo()
    assert all(ends.values()), ends


def test_the_fault_at_the_last_call(tmp_path: Path) -> None:
    """LAST_CALL reaches the end of a change."""
    for mode in Mode:
        case, faults = Case(1, mode, tmp_path / "c"), Faults()
        assert carry_out(case, faults) == "done"
        assert faults.count <= LAST_CALL, mode


def test_a_client_that_holds_the_file_open(tmp_path: Path) -> None:
    """Until the watch ends nothing that it writes is lost; it ends a quarter of a second late."""
    case, counted = Case(1, Mode.IN_PLACE, tmp_path / "c"), Faults()
    assert carry_out(case, counted) == "done"
    unwatched = counted.log.index(next(each for each in counted.log if ".old." in each[1])) + 1
    line = encoded([user("held", 900)])
    refused = 0
    for at in range(1, unwatched):
        case, faults = Case(1, Mode.IN_PLACE, tmp_path / "c"), Faults()
        with case.path.open("ab", buffering=0) as held:
            faults.then[at] = partial(held.write, line)  # type: ignore[assignment]
            assert carry_out(case, faults) == "refused", at
        case.written.append(line)
        case.require_whole()
        refused += 1
    assert refused > 50
