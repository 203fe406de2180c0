"""Random stories of one session: plans carried out and taken back, a client that writes, faults.

After every act the transcript must be what it was or what it was to be, with every line that the
client wrote; and the next command must work.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

from ctxtop.core.compaction.apply import apply_plan, recover_interrupted
from ctxtop.core.compaction.compaction_target import session_lock
from ctxtop.core.compaction.plan import CompactionRefusedError, RemoveLine, ReplaceValue, Severity
from ctxtop.core.compaction.receipts import (
    BACKUPS_PER_SESSION,
    ApplyMode,
    BackupStore,
    CompactionReceipt,
    MtimeHandling,
    ReceiptStore,
    WrittenVersion,
)
from ctxtop.core.compaction.rewritten_lines import (
    NO_TRANSFORM,
    date_appended_lines,
    fork_transform,
    lines_after,
    rewrite_lines,
)
from ctxtop.core.compaction.strategies.summary_and_cut import BoundarySizes, make_boundary_lines
from ctxtop.core.compaction.undo import undo
from ctxtop.core.files.json_spans import replace_value

from .engine_lines import TAILS, as_line, line_with, lines_of, results_of, session, uuid_of
from .faults import Faults, KilledError
from .sessions_on_disk import (
    at_rest,
    encoded,
    masks,
    operation,
    place,
    plan_of,
    rest,
    subject_of,
)
from .transcripts import SESSION, encode, user

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctxtop.core.compaction.plan import CompactionPlan, Operation

Act = str

LAST_CALL: Final = 220
"""No act takes more calls than that, wherever the test's folder is."""


SOON_S: Final = 0.02
"""A write that takes longer waits for us."""

LOST: Final = "a line of the client's is lost"


class CorruptedError(AssertionError):
    """A transcript is neither what it was nor what it was to be, or a line is lost."""


@dataclass
class Layer:
    """One plan, and what of it stands."""

    plan: CompactionPlan
    mode: ApplyMode
    undone: set[int] = field(default_factory=set)
    target: Path | None = None
    """The fork's file."""
    uuids: tuple[str, ...] = ()
    """Of the lines that a second plan masks, wherever they stand by now."""
    title: str | None = None
    """Of the fork."""

    def operations(self) -> list[Operation]:
        return [each for n, each in enumerate(self.plan.operations) if n not in self.undone]


class Story:
    """A session, and what befell it; the seed says all of it."""

    def __init__(self, seed: int, mode: ApplyMode, root: Path) -> None:
        self.random: Final = random.Random(seed)
        self.mode: Final = mode
        self.root: Final = root
        self.lines: Final = session(self.random)
        self.data = encode(self.lines) + self.random.choice(TAILS)
        shutil.rmtree(root, ignore_errors=True)
        self.subject = at_rest(root, self.data)
        self.layers: dict[str, Layer] = {}
        """By their receipts' ids, in their order."""
        self.written: defaultdict[Path, list[bytes]] = defaultdict(list)
        """By the client since `data` was all there was."""
        self._waiting: list[Thread] = []
        self.calls = 0
        """Of the system's, in the act under faults."""
        self.end = ""
        """Of that act."""
        self.ends: Counter[str] = Counter()
        self.needed: Final[list[str]] = []
        """Copies that are the only way back, or among the newest of their session."""
        self._masked_second: tuple[str, ...] = ()
        if self.random.random() < 0.3:
            self._put_sidecars()
        if self.random.random() < 0.15:
            self._put_old_receipts()

    @property
    def path(self) -> Path:
        return self.subject.transcript

    @property
    def target(self) -> Path:
        """The file that the story goes on in."""
        forks = [each.target for each in self.layers.values() if each.target]
        return forks[-1] if forks else self.path

    # What happens

    def tell(
        self, acts: Sequence[Act], faulty: int, befall: Callable[[Faults], None], *, soon: bool
    ) -> None:
        """Run the acts, the one numbered `faulty` under faults, then undo everything.

        If `soon` is set, the acts after the faulty one are skipped.
        """
        for number, act in enumerate(acts):
            if act == "go on":
                self.client_writes()
            elif self._can(act):
                faults = Faults()
                if number == faulty:
                    befall(faults)
                end = self._do(act, faults)
                if number == faulty:
                    self.end, self.calls = end, faults.count
                    if soon:
                        break
        self._finish()

    def client_writes(self) -> None:
        """Append a line as the client does: by the transcript's name; it may have to wait."""
        target = self.target
        line = encoded([user(f"late {len(self.written[target])}", 900)])
        writer = Thread(target=_append, args=(target, line))
        writer.start()
        writer.join(SOON_S)
        if writer.is_alive():
            self._waiting.append(writer)
        self.written[target].append(line)

    def apply(self, faults: Faults) -> str:
        """Carry a plan out while something happens; says how it ended."""
        return self._under(faults, lambda: apply_plan(self._plan(), self.mode, self.subject))

    def _can(self, act: Act) -> bool:
        if act == "apply":
            return not self.layers
        if act == "second":
            return len(self.layers) == 1 and self.target.read_bytes().endswith(b"\n")
        if act == "undo second":
            return len(self.layers) == 2
        return bool(self.layers)

    def _do(self, act: Act, faults: Faults, receipt_id: str = "") -> str:
        rest(self.target)
        if act in {"apply", "second"}:
            plan = self._plan() if act == "apply" else self._second_plan()
            end = self._under(faults, lambda: apply_plan(plan, self.mode, self.subject))
            self._require_one_of(act, end, plan, None, faults)
        else:
            receipt_id = receipt_id or list(self.layers)[-1 if act == "undo second" else 0]
            layer = self.layers[receipt_id]
            left = set(range(len(layer.plan.operations))) - layer.undone
            if not left:
                return "done"
            chosen = self.random.choice(sorted(left)) if act == "undo one" else None
            subject = subject_of(self.target, self.root)
            end = self._under(faults, lambda: undo(receipt_id, chosen, subject))
            going = left if chosen is None else {chosen}
            self._require_one_of(act, end, None, (receipt_id, going), faults)
        return end

    def _under(self, faults: Faults, act: Callable[[], object]) -> str:
        end = self._ended(faults, act)
        while self._waiting:
            self._waiting.pop().join()
        return end

    def _ended(self, faults: Faults, act: Callable[[], object]) -> str:
        with faults.armed():
            try:
                act()
            except KilledError:
                # All that it tries afterwards has no effect.
                name, _ = faults.log[(faults.kill_at or 0) - 1]
                return f"crashed at {name}"
            except CompactionRefusedError as error:
                return f"refused: {error.refusals[0].check}"
            except OSError as error:
                known = error.filename if error.strerror == "fault" else error.strerror
                return f"failed at {known}"
        return "done"

    # What must be true then

    def _require_one_of(
        self,
        act: Act,
        end: str,
        plan: CompactionPlan | None,
        undone: tuple[str, set[int]] | None,
        faults: Faults,
    ) -> None:
        name = act if plan else "undo one" if act == "undo one" else "undo"
        self.ends[f"{name} {self.mode.value}, {end}"] += 1
        before = self._states()
        intended = dict(before)
        if undone:
            intended[undone[0]] = frozenset(before[undone[0]] | undone[1])
        if end.startswith("crashed"):
            self._require_a_head(plan, undone)
            self._settle_after_a_crash()
        elif faults.fail_at is not None:
            # What could not be cleared up is cleared up by the next command.
            self._under(Faults(), self._settle)
        with Faults().armed():
            receipts = self._own_receipts()
        new = [each for each in receipts if each.receipt_id not in before]
        if plan and new:
            (receipt,) = new
            self._require(_undated(receipt.plan) == _undated(plan), f"{act}: another plan")
            target = Path(receipt.target)
            fork = target if self.mode is ApplyMode.FORK else None
            uuids = self._masked_second if act == "second" else ()
            self.layers[receipt.receipt_id] = Layer(
                receipt.plan, self.mode, target=fork, uuids=uuids, title=receipt.title
            )
            intended[receipt.receipt_id] = frozenset()
        now = {each.receipt_id: frozenset(each.now.undone if each.now else ()) for each in receipts}
        self._require(now in (before, intended), f"{act}: {end}: the receipts say {now}")
        self._require((end == "done") <= (now == intended), f"{act}: done, but {now}")
        self._require(not end.startswith("refused") or now == before, f"{act}: {end}, but {now}")
        self._require(all(each.pending is None for each in receipts), f"{act}: {end}: open")
        for receipt_id, each in now.items():
            self.layers[receipt_id].undone = set(each)
        self.require_whole(f"{act}: {end}")

    def require_whole(self, when: str) -> None:
        """Every byte is there that should be, nothing else, and nothing is left over."""
        for path in {self.target, self.path}:
            found = path.read_bytes()
            head = self._head(path)
            self._require(found.startswith(head), f"{when}: neither before nor after")
            self._require_lines(found[len(head) :], self.written[path], when)
        left = [*self.path.parent.glob(".*"), *self.subject.state_folder.rglob(".*")]
        self._require(not left, f"{when}: left over: {left}")
        names = {path.stem for path in self.path.parent.iterdir()}
        mine = {self.path.stem, self.target.stem}
        self._require(names <= mine, f"{when}: {names - mine} left over")
        backups = BackupStore(self.subject.state_folder)
        self._require(all(map(backups.is_intact, self.needed)), f"{when}: a way back is gone")

    def _require_lines(self, tail: bytes, written: list[bytes], when: str) -> None:
        for line in written:
            if line not in tail:
                raise CorruptedError(f"{when}: {LOST}")
        most = 2 * sum(map(len, written)) + 1
        self._require(len(tail) <= most, f"{when}: {len(tail)} bytes too many")

    def _require_a_head(
        self, plan: CompactionPlan | None, undone: tuple[str, set[int]] | None
    ) -> None:
        """Before anything is settled: a client that starts now reads one of the two."""
        heads = [self._head(self.target)]
        if plan and self.mode is ApplyMode.IN_PLACE:
            uuids = self._masked_second if self.layers else ()
            heads.append(self._head(self.target, Layer(plan, self.mode, uuids=uuids)))
        if undone:
            layer = self.layers[undone[0]]
            was, layer.undone = layer.undone, layer.undone | undone[1]
            heads.append(self._head(self.target))
            layer.undone = was
        found = self.target.read_bytes()
        self._require(any(map(found.startswith, heads)), "crashed between before and after")

    def _settle_after_a_crash(self) -> None:
        """Settle as the next command does; it may be killed itself."""
        if self.random.random() < 0.3:
            faults = Faults()
            faults.kill_at = self.random.randint(1, 40)
            end = self._under(faults, self._settle)
            self.ends[f"settle {self.mode.value}, {end}"] += 1
        with Faults().armed():
            self._settle()

    def _settle(self) -> None:
        with session_lock(self.subject, SESSION):
            recover_interrupted(self.subject.state_folder, SESSION, self.path, self.target)

    def _finish(self) -> None:
        """The next command works, and in the end everything is as it was."""
        if not self.layers:
            self.data = self.path.read_bytes()
            self.written.clear()
            end = self._do("apply", Faults())
            self._require(end == "done", f"the next command: {end}")
        for receipt_id, layer in reversed(self.layers.items()):
            if len(layer.undone) < len(layer.plan.operations):
                end = self._do("undo", Faults(), receipt_id)
                self._require(end == "done", f"the last undo: {end}")

    @staticmethod
    def _require(truth: bool, why: str) -> None:
        if not truth:
            raise CorruptedError(why)

    # What it should be

    def _states(self) -> dict[str, frozenset[int]]:
        return {key: frozenset(each.undone) for key, each in self.layers.items()}

    def _own_receipts(self) -> list[CompactionReceipt]:
        found = ReceiptStore(self.subject.state_folder).all()
        return [each for each in found if each.session_id == SESSION]

    def _head(self, target: Path, more: Layer | None = None) -> bytes:
        """What of a file is not the client's, as the layers stand."""
        data = self.data
        for layer in (*self.layers.values(), *([more] if more else [])):
            if layer.uuids:
                data = _with_masks(data, layer)
            elif layer.target in {None, target}:
                fork = fork_transform(SESSION, target.stem, layer.title)
                written = fork if layer.target else NO_TRANSFORM
                data = b"".join(
                    lines_after(rewrite_lines(lines_of(data), layer.operations(), written))
                )
        return data

    # What there is in the beginning

    def _plan(self) -> CompactionPlan:
        leaf = as_line(self.lines[-1])["leafUuid"]
        envelope = {"sessionId": SESSION, "uuid": leaf, "timestamp": "2026-11-20T12:00:00.000Z"}
        appended = make_boundary_lines(
            envelope, "boundary", "summary", "SUMMARY", [leaf], BoundarySizes(9, 1, 1)
        )
        done = [operation(*appended, level=Severity.SUMMARY)]
        if self.mode is not ApplyMode.APPEND:
            numbers = results_of(self.lines)
            chosen = self.random.sample(numbers, self.random.randint(1, len(numbers) - 1))
            done = masks(self.data, sorted(chosen), self.random.choice(["[m]", 'ü\n"']))
            if self.random.random() < 0.3:
                done.append(self._without_a_thought())
        return plan_of(self.data, done)

    def _second_plan(self) -> CompactionPlan:
        """Mask what is not masked yet, in the file as it is now."""
        data = self.path.read_bytes()
        (first,) = self.layers.values()
        touched = {each.line for each in first.plan.operations}
        uuids = [
            as_line(self.lines[n - 1])["uuid"] for n in results_of(self.lines) if n not in touched
        ]
        found = [(n, uuid_of(line)) for n, line in enumerate(data.split(b"\n"), 1)]
        self._masked_second = tuple(uuid for _, uuid in found if uuid in uuids)
        numbers = [n for n, uuid in found if uuid in uuids]
        return plan_of(data, masks(data, numbers, "[second]"))

    def _without_a_thought(self) -> Operation:
        call = line_with(self.lines, '"tool_use"', results_of(self.lines)[0] - 3)
        thought = line_with(self.lines, '"thinking"', call - 3)
        parent = json.dumps(as_line(self.lines[thought - 1])["parentUuid"])
        return operation(
            RemoveLine(*place(self.data, thought)),
            ReplaceValue(*place(self.data, call), "/parentUuid", parent),
            level=Severity.REASONING,
        )

    def _put_sidecars(self) -> None:
        for name, data in (
            ("subagents/agent-a.jsonl", self.data[:900]),
            ("tool-results/t.txt", b"x"),
        ):
            path = self.path.with_suffix("") / name
            path.parent.mkdir(parents=True)
            path.write_bytes(data)
            rest(path)

    def _put_old_receipts(self) -> None:
        """Changes of another session, long ago: of one the copy is the only way back."""
        backups, receipts = (
            BackupStore(self.subject.state_folder),
            ReceiptStore(self.subject.state_folder),
        )
        with Faults().armed():
            for number in range(BACKUPS_PER_SESSION + 3):
                data = b'{"old":%d}\n' % number
                name = backups.put([data], "other")
                done = plan_of(data, [operation(line=1)], "other")
                is_needed = number == 1
                version = WrittenVersion("0" * 64, 1, () if is_needed else (0,))
                receipts.write(
                    CompactionReceipt(
                        receipt_id=f"00{number:06}",
                        session_id="other",
                        new_session_id=None,
                        mode=ApplyMode.IN_PLACE,
                        at=number,
                        transcript="/gone",
                        target="/gone",
                        backup=name,
                        verified=(),
                        resume_command="",
                        mtime=MtimeHandling.KEPT,
                        plan=done,
                        now=version,
                    )
                )
                if is_needed or number >= 3:
                    self.needed.append(name)


def _undated(plan: CompactionPlan) -> tuple[Operation, ...]:
    """What a plan does, without when: its lines are dated when they are written."""
    return date_appended_lines(plan.operations, 0, "manual")


def _append(path: Path, line: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(line)


def _with_masks(data: bytes, layer: Layer) -> bytes:
    """Mask lines by their uuids, wherever they stand now."""
    edits = dict(zip(layer.uuids, layer.plan.operations, strict=True))
    left = {id(each) for each in layer.operations()}
    lines: list[bytes] = []
    for line in lines_of(data):
        done = edits.get(uuid_of(line))
        edit = done.edits[0] if done and id(done) in left else None
        if isinstance(edit, ReplaceValue):
            lines.append(replace_value(line, edit.pointer, edit.value.encode()))
        else:
            lines.append(line)
    return b"".join(lines)
