"""The proof of a strategy on a session: planned alone, carried out, gone on with, taken back."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.plan import CompactionPlan, PlanOptions, ResultCaps, Severity
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.rewritten_lines import title_lines
from ctxtop.core.compaction.strategies.masked import OVERSIZED
from ctxtop.core.compaction.transcript_reading import PlanSource
from ctxtop.core.compaction.undo import undo
from ctxtop.core.measure.tokens import estimate_tokens
from ctxtop.core.model.conversation import PartKind, drops_thinking
from ctxtop.core.transcript.entry_decoder import iter_entries, read_entries
from ctxtop.core.transcript.visible_messages import visible_entries
from msgspec.structs import replace

from ..planned import plan_transcript
from .acts import TOOLS
from .compacting import ApiCounter, resume, subject_of
from .counting import MEDIA_TOKENS, count_request
from .days import DAYS
from .talks import path_of
from .validator import blocks_of
from .ways import LISTED_NEAR, PROMPT_TOKENS, Sizes
from .wire import blocks_sent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctxtop.core.compaction.compaction_target import CompactionTarget
    from ctxtop.core.compaction.receipts import CompactionReceipt
    from ctxtop.core.model.conversation import Entry, MessagePart

    from .lab import Lab

Json = dict[str, Any]

NEWEST: Final = PlanOptions(keep=1, min_tail_tokens=0, max_task_tokens=0)
"""So little that the work of a few prompts may be taken out."""

SMALL_CAPS: Final = ResultCaps(max_tokens=1_000)
"""Below the results of the lab: none has the 50,000 tokens from which they are cut."""

_JOINT: Final = re.compile("\n\n(?=<system-reminder>)")
"""Where the client writes an attachment into the text before it: each is a piece of its own."""

WITH: Final = {"thinking-after": ("old-results",)}
"""What another strategy has to change before this one finds anything."""

_COMPACTED: Final = ("compacted", "kept tail", "compacted twice")
_BOUND: Final = ("side by side", "with thoughts", "kept tail")
_ONLY: Final = {
    "before-boundary": _COMPACTED,
    "thinking-after": _BOUND,
    "all-thinking": _BOUND,
}


LEVELS: Final = {f"up to {level}": Severity(level) for level in (2, 4, 6)}
"""What a person asks for: all of some levels together."""


def days_of(strategy: str) -> tuple[str, ...]:
    """Name the sessions in which a strategy has to find something."""
    return _ONLY.get(strategy, tuple(DAYS))


def aim_of(strategy: str) -> PlanOptions:
    """Ask for one strategy alone, or for all of some levels."""
    if strategy in LEVELS:
        return replace(NEWEST, level=LEVELS[strategy].value)
    caps = SMALL_CAPS if strategy == OVERSIZED else NEWEST.result_caps
    return replace(NEWEST, strategies=(strategy, *WITH.get(strategy, ())), result_caps=caps)


class Counter:
    """Counts as the scripted API does, but without its factor: no sum is rounded."""

    def tokens(self, part: MessagePart) -> int:
        """Count one piece."""
        text = f"{part.name}\n{part.text}" if part.kind is PartKind.TOOL_INPUT else part.text
        return _said(text) + part.media * MEDIA_TOKENS


def tokens_sent(body: Json) -> int:
    """Count a request's messages as `Counter` counts their pieces."""
    messages: list[Json] = body["messages"]
    prompts = [place for place, one in enumerate(messages) if _asks(one)]
    unseen = prompts[-1] if drops_thinking(body["model"]) else 0
    return sum(
        _tokens_of(block, seen=place >= unseen)
        for place, message in enumerate(messages)
        for block in blocks_of(message["content"])
    )


def _asks(message: Json) -> bool:
    kinds = {block["type"] for block in blocks_of(message["content"])}
    return message["role"] == "user" and "tool_result" not in kinds


def _tokens_of(block: Json, *, seen: bool) -> int:
    kind = block["type"]
    if kind == "thinking":
        return estimate_tokens(block["thinking"]) if seen else 0
    if kind == "tool_use":
        given = json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))
        return estimate_tokens(f"{block['name']}\n{given}")
    parts = blocks_of(block["content"]) if kind == "tool_result" else [block]
    media = sum(part["type"] in {"image", "document"} for part in parts)
    said = "\n".join(part.get("text", "") for part in parts)
    return sum(map(_said, _JOINT.split(said))) + media * MEDIA_TOKENS


def _said(text: str) -> int:
    """Count a text without the blanks around it, which the client takes off where it joins two."""
    return estimate_tokens(text.strip())


def _without_usage(path: Path, start: int = 0, /) -> Iterator[Entry]:
    return (replace(entry, context_tokens=None) for entry in iter_entries(path, start))


class Day:
    """A session that was made once: whatever is done to it, it can be put back as it was."""

    def __init__(self, name: str, lab: Lab, session_id: str) -> None:
        self.name: Final = name
        self.lab: Final = lab
        self.session_id: Final = session_id
        self.path: Final = path_of(lab, session_id)
        self.made: Final = self.path.read_bytes()
        self._before: Json | None = None
        self._states = 0

    def before(self) -> Json:
        """Return the request that the client sends for the unedited session (cached)."""
        if self._before is None:
            self._before = self.resume(self.path, "before")
            self.put_back()
        return self._before

    def resume(self, path: Path, what: str) -> Json:
        """Go on with the session or a fork of it, and give the request that the client sends."""
        asked = resume(self.lab, path.stem, f"{self.name}: {what}", more=TOOLS)
        assert asked["unbound"] == asked["missing"] == [], what
        return asked

    def put_back(self) -> None:
        """Restore the transcript as it was first written."""
        self.path.write_bytes(self.made)

    def plan(self, strategy: str, source: PlanSource) -> CompactionPlan:
        """Plan what is asked for; what is too little to pay off is done all the same."""
        plan = plan_transcript(source, aim_of(strategy))
        refused = tuple(each for each in plan.refused if each.check != "futile")
        assert not refused, (self.name, strategy, refused)
        return msgspec.structs.replace(plan, refused=())

    @property
    def source(self) -> PlanSource:
        return PlanSource(self.session_id, self.path, lambda _model: ApiCounter())

    @property
    def unmeasured(self) -> PlanSource:
        """The session as if no answer had said what it saw: all is as large as it is counted."""
        return PlanSource(
            self.session_id, self.path, lambda _model: Counter(), read_entries=_without_usage
        )

    def subject(self, path: Path) -> CompactionTarget:
        return subject_of(self.lab, path)


@dataclass(frozen=True, slots=True)
class Pair:
    """A strategy, a session and a mode."""

    strategy: str
    """Or one of LEVELS."""
    day: str
    mode: ApplyMode

    def __str__(self) -> str:
        return f"{self.strategy}, {self.day}, {self.mode.value}"


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved of a pair."""

    operations: int
    tokens: int
    bytes: int
    sizes: Sizes


def prove_pair(pair: Pair, day: Day, *, asked_again: bool) -> Proof:
    """Prove one pair; `asked_again` asks the client once more after all was taken back."""
    before = day.before()["body"]
    try:
        return _prove(pair, day, before, asked_again=asked_again)
    finally:
        day.put_back()


def _prove(pair: Pair, day: Day, before: Json, *, asked_again: bool) -> Proof:
    plan, counted = (day.plan(pair.strategy, each) for each in (day.source, day.unmeasured))
    if pair.strategy != OVERSIZED:
        changes = [each.edits for each in plan.operations if each.strategy != "usage"]
        assert changes == [each.edits for each in counted.operations], pair
    together = pair.strategy in LEVELS
    found = [each for each in plan.operations if together or each.strategy == pair.strategy]
    assert found, f"{pair}: nothing was found"
    _taken_back_at_once(pair, day, plan)
    shown = visible_entries(read_entries(day.path))
    receipt = apply_plan(plan, pair.mode, day.subject(day.path))
    edited = path_of(day.lab, receipt.new_session_id or day.session_id)
    left = edited.read_bytes()
    listed = day.lab.ctxtop().sessions[edited.stem].context.tokens or 0
    if pair.mode is ApplyMode.IN_PLACE:
        assert len(left) == plan.bytes_after, f"{pair}: another size than the plan said"
    after = day.resume(edited, f"{pair}: after")["body"]
    real = count_request(after)
    said = plan.before_tokens - plan.after_tokens
    freed = count_request(before) - real
    assert abs(said - freed) <= LISTED_NEAR * max(freed, real), (
        f"{pair}: {said} said, {freed} freed"
    )
    if pair.strategy != OVERSIZED:  # how much it cuts depends on how it is counted
        said = counted.before_tokens - counted.after_tokens
        freed = tokens_sent(before) - tokens_sent(after)
        assert freed == said, f"{pair}: {said} said, {freed} freed"
    sizes = Sizes(plan.after_tokens + PROMPT_TOKENS, listed + PROMPT_TOKENS, real)
    sizes.require_near(pair)
    if plan.harm is Severity.FILE_ONLY:
        assert said == 0, pair
        same = visible_entries(read_entries(edited))[: len(shown)]
        assert [each.parts for each in same] == [each.parts for each in shown], pair
        assert blocks_sent(after) == blocks_sent(before), pair
    tail = edited.read_bytes().removeprefix(left)
    _undo(receipt, day, edited)
    _require_taken_back(receipt, day, edited, tail)
    if asked_again:
        again = day.resume(edited, f"{pair}: taken back")
        first = blocks_sent(before)[:-1]
        assert blocks_sent(again["body"])[: len(first)] == first, f"{pair}: not what it was"
    return Proof(len(found), said, plan.bytes_before - plan.bytes_after, sizes)


def _taken_back_at_once(pair: Pair, day: Day, plan: CompactionPlan) -> None:
    receipt = apply_plan(plan, pair.mode, day.subject(day.path))
    edited = path_of(day.lab, receipt.new_session_id or day.session_id)
    _undo(receipt, day, edited)
    _require_taken_back(receipt, day, edited, b"")
    if receipt.new_session_id:
        edited.unlink()
        shutil.rmtree(edited.with_suffix(""), ignore_errors=True)


def _undo(receipt: CompactionReceipt, day: Day, edited: Path) -> None:
    undo(receipt.receipt_id, None, day.subject(edited))


def _require_taken_back(receipt: CompactionReceipt, day: Day, edited: Path, tail: bytes) -> None:
    """Compare with what was made, byte for byte; a fork has a title and says whose lines it has."""
    whole = edited.read_bytes()
    if receipt.mode is ApplyMode.IN_PLACE:
        assert whole == day.made + tail, "not taken back"
        return
    assert day.path.read_bytes() == day.made, "the session itself was changed"
    titles = b"".join(title_lines(receipt.title, edited.stem))
    assert titles
    assert whole.endswith(titles + tail), "what was appended is not kept"
    lines = [json.loads(line) for line in whole.removesuffix(titles + tail).splitlines()]
    for line in lines:
        if line.pop("forkedFrom", None) or line.get("sessionId") == edited.stem:
            line["sessionId"] = day.session_id
    assert lines == [json.loads(line) for line in day.made.splitlines()], "not taken back"
