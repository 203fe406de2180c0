"""Ways to carry a plan out, each proved: sent as planned, as large as planned, taken back whole."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import msgspec
from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.plan import PlanOptions, Severity
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.strategies.summary_and_cut import (
    plan_cut,
    plan_revert,
    summarize_by_rules,
)
from ctxtop.core.compaction.transcript_reading import PlanSource
from ctxtop.core.compaction.undo import undo
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.token_samples import read_estimator
from ctxtop.core.summaries.summary_building import SummaryBudget, SummarySettings
from ctxtop.core.summaries.summary_facts import EIGHT_SECTIONS
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.line_decoder import SYNTHETIC_MODEL
from typing_extensions import override

from ..planned import plan_transcript
from .compacting import ApiCounter, nameless, resume, subject_of
from .counting import count_request
from .lab import Lab, Turn
from .talks import LONG_OUTPUT, TALKS, copy_of, path_of
from .wire import blocks_sent

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ctxtop.core.compaction.plan import CompactionPlan, Operation, Refusal
    from ctxtop.core.compaction.receipts import CompactionReceipt
    from ctxtop.core.compaction.strategies.summary_and_cut import Conversation
    from ctxtop.core.compaction.transcript_view import TranscriptView
    from ctxtop.core.measure.token_estimate import Estimator
    from ctxtop.core.model.conversation import MessagePart

Json = dict[str, Any]

_STEP_END: Final = re.compile(r"(?<!usage:counted)\]\]")

LATER: Final = "Next. [[say:ok]]"

PROMPT_TOKENS: Final = 20
"""Of what is asked next: no plan can know it."""

LISTED_NEAR: Final = 0.05
"""How far a size that ctxtop shows may be from what the client sends next."""

OVERCOUNT: Final = 1.4
"""By how much estimates were above what the API measured in the worst of the recorded sessions."""

NEWEST: Final = PlanOptions(keep=1, min_tail_tokens=0, max_task_tokens=0)
"""So little that a session of a few turns has something to give."""


class Counting(Lab):
    """A lab whose API says of every request how large it was, as the real one does."""

    @override
    def turn(self, prompt: str, **how: Any) -> Turn:
        return super().turn(_STEP_END.sub("&&&usage:counted]]", prompt), **how)


class Overcounting:
    """Counts more than the API does, as an estimate of a tokenizer that nobody measured may."""

    def for_model(self, _model: str | None) -> Overcounting:
        return self

    def tokens(self, part: MessagePart) -> int:
        return round(OVERCOUNT * ApiCounter().tokens(part))


@dataclass(frozen=True, slots=True)
class Talk:
    """A session, what learnt from it counts tokens, and what the client sends of it."""

    lab: Lab
    path: Path
    model: str
    store: sqlite3.Connection
    """What ctxtop knows of the lab; the estimator reads it."""
    estimator: Estimator | Overcounting
    before: tuple[str, ...]
    """Block by block, without the last prompt."""

    def copy(self) -> Path:
        """Copy the session, so that it can be edited."""
        return copy_of(self.path)

    def apply(
        self, path: Path, plan: CompactionPlan, mode: ApplyMode
    ) -> tuple[CompactionReceipt, Path]:
        """Carry a plan out; give the file that was written too."""
        receipt = apply_plan(plan, mode, subject_of(self.lab, path))
        return receipt, path_of(self.lab, receipt.new_session_id or path.stem)

    def undo(self, receipt: CompactionReceipt, written: Path, operation: int | None = None) -> None:
        """Undo a receipt, or one operation of it."""
        undo(receipt.receipt_id, operation, subject_of(self.lab, written))

    def listed_tokens(self, path: Path) -> int:
        """Return what the list of sessions says of a session that was compacted."""
        sessions = self.lab.ctxtop().sessions
        return sessions[path.stem].context.tokens or 0

    def says_what_it_said(self, path: Path) -> bool:
        """Go on, and say whether all is sent that was sent before."""
        again = said_before(resume(self.lab, path.stem, "taken back", LATER))
        return again[: len(self.before)] == self.before


def begin(lab: Lab, kind: str) -> Talk:
    """Make a session of a kind, let ctxtop learn from it, and see what is sent of a copy."""
    session_id = {**TALKS, **MORE}[kind](lab)
    path = path_of(lab, session_id)
    answered = [each.model for each in read_entries(path) if each.context_tokens]
    model = next(each for each in reversed(answered) if each and each != SYNTHETIC_MODEL)
    lab.turn("Last. [[bash:seq 1 60]] [[say:ok]]", resume=session_id, model=model)
    lab.ctxtop()
    store = open_reader(lab.store)
    talk = Talk(lab, path, model, store, read_estimator(store), ())
    copy = talk.copy()
    before = said_before(resume(lab, copy.stem, "before", LATER))
    return replace(talk, before=before)


def said_before(asked: Json) -> tuple[str, ...]:
    """List what was sent before the message with the prompt, whichever session is named in it."""
    body = asked["body"] | {"messages": asked["body"]["messages"][:-1]}
    return tuple(nameless(block) for block in blocks_sent(body))


def up_to(level: Severity) -> Callable[[Talk, Path], CompactionPlan]:
    """Plan with all strategies up to a level."""

    def plan(talk: Talk, path: Path) -> CompactionPlan:
        return worth_it(
            plan_transcript(
                PlanSource(path.stem, path, talk.estimator.for_model),
                msgspec.structs.replace(NEWEST, level=level.value),
            )
        )

    return plan


def as_whole(
    make: Callable[[Conversation, TranscriptView], Operation | Refusal],
) -> Callable[[Talk, Path], CompactionPlan]:
    """Plan with one operation on the whole conversation."""

    def plan(talk: Talk, path: Path) -> CompactionPlan:
        return plan_conversation(PlanSource(path.stem, path, talk.estimator.for_model), make)

    return plan


def worth_it(plan: CompactionPlan) -> CompactionPlan:
    """Remove the refusal of plans that free too little to break even."""
    refused = tuple(each for each in plan.refused if each.check != "futile")
    return msgspec.structs.replace(plan, refused=refused)


def _summary(whole: Conversation, _view: TranscriptView) -> Operation | Refusal:
    return summarize_by_rules(whole, SummarySettings(EIGHT_SECTIONS, SummaryBudget(2_000), 2))


def _cut(whole: Conversation, _view: TranscriptView) -> Operation | Refusal:
    return plan_cut(whole, 1)


def _back(_whole: Conversation, view: TranscriptView) -> Operation | Refusal:
    prompts = [
        slot.line
        for slot in view.blocks
        if slot.part.kind is PartKind.PROMPT and slot.entry.type == "user"
    ]
    return plan_revert(view, prompts[-1])


@dataclass(frozen=True, slots=True)
class Way:
    """What is planned, and where it is carried out."""

    plan: Callable[[Talk, Path], CompactionPlan]
    mode: ApplyMode


WAYS: Final = {
    "level 4, fork": Way(up_to(Severity.INPUTS), ApplyMode.FORK),
    "level 4, in place": Way(up_to(Severity.INPUTS), ApplyMode.IN_PLACE),
    "level 6, fork": Way(up_to(Severity.PROSE), ApplyMode.FORK),
    "level 6, in place": Way(up_to(Severity.PROSE), ApplyMode.IN_PLACE),
    "summary, appended": Way(as_whole(_summary), ApplyMode.APPEND),
    "summary, fork": Way(as_whole(_summary), ApplyMode.FORK),
    "cut, appended": Way(as_whole(_cut), ApplyMode.APPEND),
    "cut, fork": Way(as_whole(_cut), ApplyMode.FORK),
    "revert, fork": Way(as_whole(_back), ApplyMode.FORK),
    "revert, in place": Way(as_whole(_back), ApplyMode.IN_PLACE),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens of the next request: as planned, as listed until then, and as the API counted it."""

    planned: int
    listed: int
    real: int

    @property
    def ratio(self) -> float:
        """Planned for one that was sent."""
        return self.planned / self.real

    @property
    def listed_ratio(self) -> float:
        return self.listed / self.real

    def require_near(self, what: object) -> None:
        """Fail where one of both is farther from what was sent than `LISTED_NEAR`."""
        for ratio in (self.ratio, self.listed_ratio):
            assert abs(ratio - 1) <= LISTED_NEAR, (what, self)


def describe_ratios(found: Sequence[Sizes]) -> str:
    """Describe how far the sizes of some sessions were from what was sent of them."""
    spreads = {
        "planned": [each.ratio for each in found],
        "listed": [each.listed_ratio for each in found],
    }
    words = (
        f"{name} median {median(ratios):.3f}, worst {max(ratios, key=_distance):.3f}"
        for name, ratios in spreads.items()
    )
    return f"{len(found)} sessions; for one token sent, {'; '.join(words)}"


def _distance(ratio: float) -> float:
    return abs(ratio - 1)


def prove_way(talk: Talk, way: Way) -> Sizes | None:
    """Carry a plan out and take it back at once; then again, and go on in between.

    None where there is nothing to do.
    """
    path = talk.copy()
    unedited = path.read_bytes()
    plan = way.plan(talk, path)
    if plan.refused or not plan.operations:
        return None
    in_itself = way.mode is not ApplyMode.FORK
    if in_itself:
        receipt, written = talk.apply(path, plan, way.mode)
        assert path.read_bytes() != unedited
        talk.undo(receipt, written)
        assert path.read_bytes() == unedited, "taken back at once"
    receipt, written = talk.apply(path, plan, way.mode)
    listed = talk.listed_tokens(written)
    after = resume(talk.lab, written.stem, "after", LATER)
    real = count_request(after["body"])
    sizes = Sizes(plan.after_tokens + PROMPT_TOKENS, listed + PROMPT_TOKENS, real)
    sizes.require_near(way)
    talk.undo(receipt, written)
    begins = path.read_bytes()[: len(unedited)] if in_itself else path.read_bytes()
    assert begins == unedited, "taken back after the session went on"
    assert talk.says_what_it_said(written)
    return sizes


def _long_day(lab: Lab) -> str:
    """A session with more in its messages than in front of them."""
    session_id = lab.turn(
        " ".join(f"[[bash:seq {n}000 {n}900]]" for n in range(10, 22)) + " [[say:ok]]"
    ).session_id
    lab.turn(
        f"And files. [[bash:{LONG_OUTPUT}]] [[bash:seq 1 3000]] [[say:I found it.]]",
        resume=session_id,
    )
    return session_id


MORE: Final[Mapping[str, Callable[[Lab], str]]] = {"long day": _long_day}
