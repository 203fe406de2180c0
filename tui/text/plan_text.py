"""The text of plans and recoveries for screens and commands, and what an operation changes."""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ...core.compaction.plan import (
    CONDENSE,
    AppendLine,
    CompactionPlan,
    Edit,
    Operation,
    PlanTarget,
    Refusal,
    RemoveLine,
    ReplaceValue,
)
from ...core.compaction.recovery.limit_errors import LimitErrorType
from ...core.compaction.recovery.recovery_run import RecoveryStep
from ...core.compaction.rewritten_lines import decode_appended_lines
from ...core.files.file_operations import open_regular_file
from ...core.files.json_spans import JsonPointerError, read_value
from ...core.transcript.line_decoder import decode_string
from ...core.transcript.raw_lines import MAX_LINE_BYTES
from ...core.transcript.sanitize import sanitize_text
from .formats import percent, plural, reduction_text, reduction_with_flag, text_bar, tokens

if TYPE_CHECKING:
    from ...core.actions.session_recovery import Recovery
    from ...core.compaction.compression_level import DueCompression
    from ...core.compaction.recovery.recovery_steps import StepProposal


LIMIT_BAR_CELLS: Final = 30
_LIMIT_GRADES: Final = (
    (0.75, "High", "bad", "$level-emergency"),
    (0.50, "Medium", "warning", "$level-warning"),
    (0.0, "Good", "ok", "$level-calm"),
)
"""From which share on, its name, and its color in a command and on a screen (R001-06)."""


class LimitGauge(NamedTuple):
    bar: str  # is full at the limit; the share is not capped
    text: str
    color: str  # of a command's output
    style: str  # of a screen


def limit_gauge(due: DueCompression) -> LimitGauge | None:
    """Draw a context by the limit that its policy sets; None if that is its window."""
    if due.limit_share is None:
        return None
    _, grade, color, style = next(each for each in _LIMIT_GRADES if due.limit_share >= each[0])
    text = f"{percent(due.limit_share)} of {tokens(due.limit_tokens)}, {grade}"
    return LimitGauge(text_bar(due.limit_share, LIMIT_BAR_CELLS), text, color, style)


def break_even_after(requests: float) -> str:
    """Format after how many requests a plan breaks even, assuming a warm cache."""
    count = ceil(requests)
    if count <= 0:
        return "at once"
    return f"after {count} requests" if count > 1 else "after 1 request"


# Each level of harm, and what it takes from the model; level 1 is an old name of level 2.
_HARM: Final = (
    ("file only", "the model sees the same as before"),
    *2 * (("superseded", "removes what the context repeats or something newer replaces"),),
    ("masked", "keeps a digest of old results"),
    ("inputs", "keeps a digest of tool inputs"),
    ("reasoning", "removes thinking"),
    ("prose", "shortens the model's answers and long pastes"),
    ("summary", "replaces the past with a summary"),
    ("cut", "removes turns"),
)
HARM_NAMES: Final = tuple(name for name, _ in _HARM)
HARM_DESCRIPTIONS: Final = tuple(description for _, description in _HARM)
NOTHING_TO_GAIN: Final = frozenset({"nothing", "target", "too_few"})  # checks without a gain

# What to do on a screen, where a command would name its options.
_SCREEN_ADVICE: Final = {
    "target": "lower the target",
    "live": "a fork can be made at any time",
    "changed": "it will be planned again once the session is idle",
    "file-size": "`ctxtop compact --force` plans it anyway",
    "open": "close it there, or write a fork",
    "agent": "wait until it is idle, or write a fork",
    "no_prompt": "choose another prompt",
}
_OPTION_HINT: Final = re.compile(r" \((?:a smaller )?--[^)]*\)")


def screen_advice(refusal: Refusal) -> str:
    """Return what to do about a refusal, without the options of a command."""
    return _SCREEN_ADVICE.get(refusal.check, _OPTION_HINT.sub("", refusal.what_to_do))


def refusal_line(refusal: Refusal) -> str:
    label = "nothing to do" if refusal.check in NOTHING_TO_GAIN else refusal.check
    return f"{label}: {refusal.why}; {refusal.what_to_do}"


def step_texts(plan: CompactionPlan) -> Iterator[str]:
    """Describe each step of a plan that condenses: what it frees, and which names it costs."""
    for step in plan.steps:
        gone = f"{step.names_lost:,} of {step.names_known:,} names are gone"
        level = f"level {int(step.level)}, {HARM_NAMES[step.level]}"
        yield f"{level}: frees ≈ {tokens(step.tokens_saved)}; after it {gone}"


def target_text(plan: CompactionPlan) -> str:
    """Return whether a plan reaches its target, or what keeps it from it; empty if it has none."""
    condensed = next((each for each in plan.operations if each.strategy == CONDENSE), None)
    if condensed is not None:
        return condensed.why
    if plan.target is None or plan.refused:
        return ""
    aim = f"{percent(plan.target.share)} of the window ({tokens(plan.target.tokens)})"
    if not plan.misses_target:
        return f"{aim} is reached" + (": nothing is condensed" if plan.steps else "")
    above = plan.after_tokens - plan.target.tokens
    why = "".join(
        f": ≈ {tokens(each.tokens)} are protected ({each.why})" for each in plan.protected[:1]
    )
    return f"≈ {tokens(above)} above {aim}{why}"


def plan_reduction_text(plan: CompactionPlan) -> str:
    """Write how much smaller a plan makes a context; one with a target is judged by that alone."""
    if plan.target is not None:
        return reduction_text(plan.saved_share)
    return reduction_with_flag(plan.saved_share, plan.target_reduction)


def trigger_text(target: PlanTarget | None) -> str:
    """Warn of a target at which Claude Code would compact all the same; empty if it is below."""
    if target is None or not target.passes_trigger:
        return ""
    trigger = target.trigger_tokens or 0
    share = percent(trigger / target.window_tokens)
    return (
        f"Claude Code auto-compacts at {share} of the window ({tokens(trigger)}), below this"
        f" target: choose a smaller one"
    )


def appended_texts(operation: Operation) -> Iterator[str]:
    for line in decode_appended_lines(operation):
        if line.message:
            yield decode_string(line.message.content)


def recovery_cause_lines(recovery: Recovery) -> Iterator[str]:
    found = recovery.found
    is_empty = found.error_type is LimitErrorType.NON_EMPTY_CONTENT
    cause = "an empty message, which the API refuses" if is_empty else "a prompt that is too long"
    yield f"session {found.session_id[:8]} ended in {cause}"
    if found.line is not None:
        yield f"  line {found.line} of its transcript"
    if found.current_tokens is not None and found.max_tokens is not None:
        over = tokens(found.current_tokens - found.max_tokens)
        sizes = f"{tokens(found.current_tokens)} of {tokens(found.max_tokens)}, {over} too many"
        room = f"; with room for an answer it fits at {tokens(recovery.fits_at)}"
        yield f"  {sizes}{room}"
    elif found.message_index is not None:
        yield f"  the API names message {found.message_index}"
    if recovery.earlier is not None:
        earlier = recovery.earlier
        yield f"  recovered already in session {earlier.fork_id}, by {earlier.receipt_id}:"
        yield f"    {earlier.resume_command}"


def step_hint(proposal: StepProposal) -> str:
    """Return what else to do if a step is insufficient, as a suffix; empty if nothing."""
    missing = proposal.insufficient
    return f": {missing.what_to_do}" if missing and missing.what_to_do != "go on" else ""


def step_effect(recovery: Recovery, proposal: StepProposal) -> str:
    """Format what the chosen step does and the resulting sizes; empty if none was chosen."""
    plan = recovery.choice.plan
    if plan is None:
        return ""
    count = len(proposal.operations)
    results = "result" if count == 1 else f"{count} results"
    effect = {
        RecoveryStep.FIX_EMPTY: f"fills {plural(count, 'empty message')}",
        RecoveryStep.TRUNCATE: f"truncates the largest {results}",
        RecoveryStep.AGGRESSIVE: f"truncates {plural(count, 'result')}",
        RecoveryStep.SUMMARIZE: "replaces the past with a summary",
        RecoveryStep.REVERT: "goes back to before your last prompt",
    }.get(proposal.step, f"leaves out {plural(count, 'thing')} duplicated or superseded")
    sizes = f"≈ {tokens(plan.before_tokens)} → ≈ {tokens(plan.after_tokens)}"
    return f"{effect}: {sizes}"


def unused_step_text(recovery: Recovery) -> str:
    return "not needed" if recovery.choice.plan else "used up: it ran as often as allowed"


LINE_IS_GONE: Final = "(this line no longer exists)"


class OperationChange(msgspec.Struct, frozen=True):
    do: str  # `replace`, `remove` or `append`
    line: int | None  # counted from 1; None for what is appended
    pointer: str | None  # JSON pointer of the value; None for a whole line
    before: str | None
    after: str | None


def read_edit_changes(edits: Iterable[Edit], transcript: Path) -> list[OperationChange]:
    """Read what edits change in a transcript that is still unchanged. Raises OSError."""
    with open_regular_file(transcript) as file:

        def line_at(offset: int) -> bytes:
            file.seek(offset)
            return file.readline(MAX_LINE_BYTES)

        return [_change(edit, line_at) for edit in edits]


def read_backup_changes(edits: Sequence[Edit], lines: Iterable[bytes]) -> list[OperationChange]:
    """Read what edits changed, from the lines of the backup."""
    offsets = {edit.line: edit.offset for edit in edits if not isinstance(edit, AppendLine)}
    numbered = enumerate(islice(lines, max(offsets, default=0)), 1)
    old = {offsets[number]: line for number, line in numbered if number in offsets}
    return [_change(edit, lambda offset: old.get(offset, b"")) for edit in edits]


def change_heading(change: OperationChange) -> str:
    where = "at the end" if change.line is None else f"line {change.line:,}"
    place = f"{where} {change.pointer}" if change.pointer else where
    verbs = {"replace": "changed", "remove": "removed", "append": "added"}
    return f"{verbs[change.do]} {place}"


def signed_lines(sign: str, text: str, max_lines: int, width: int) -> list[str]:
    lines = wrap_first_lines(text, max_lines, width - 4)
    return [f"  {sign} {line}".rstrip() for line in lines]


MIN_WRAP_COLUMNS: Final = 20  # no text is wrapped to fewer


def wrap_first_lines(text: str, max_lines: int, width: int) -> list[str]:
    """Wrap a text to the width and keep its first lines; one more counts the rest."""
    wrapper = textwrap.TextWrapper(
        max(width, MIN_WRAP_COLUMNS), subsequent_indent="  ", replace_whitespace=False
    )
    wrapped: list[str] = []
    for line in text.split("\n"):
        if len(wrapped) > max_lines:
            break
        wrapped += wrapper.wrap(sanitize_text(line.expandtabs(4))) or [""]
    if len(wrapped) <= max_lines:
        return wrapped
    kept = wrapped[:max_lines]
    left = len(sanitize_text(text)) - sum(len(each) for each in kept)
    return [*kept, f"… {max(left, 1):,} more of {len(text):,} characters"]


def _change(edit: Edit, line_at: Callable[[int], bytes]) -> OperationChange:
    if isinstance(edit, AppendLine):
        return OperationChange("append", None, None, None, _message_text(edit.text))
    old = _old_text(line_at(edit.offset).rstrip(b"\n"), edit)
    if isinstance(edit, RemoveLine):
        return OperationChange("remove", edit.line, None, old, None)
    return OperationChange("replace", edit.line, edit.pointer, old, _value_text(edit.value))


def _old_text(line: bytes, edit: ReplaceValue | RemoveLine) -> str:
    if hashlib.sha256(line).hexdigest() != edit.sha256:
        return LINE_IS_GONE
    if isinstance(edit, RemoveLine):
        return _message_text(line.decode("utf-8", "replace"))
    try:
        return _value_text(read_value(line, edit.pointer).decode("utf-8", "replace"))
    except JsonPointerError:
        return LINE_IS_GONE


def _value_text(text: str) -> str:
    """Decode a JSON string; any other text is returned as it is."""
    try:
        decoded = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return decoded if isinstance(decoded, str) else text


def _message_text(line: str) -> str:
    """Return a line's message if its content is a single string, else the line."""
    try:
        content = msgspec.json.decode(line)["message"]["content"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return line
    return content if isinstance(content, str) else line


BOX_ON, BOX_OFF, BOX_SOME = "[x]", "[ ]", "[-]"
DEPENDENT_SIGN: Final = " + "  # of what follows from the others and cannot be switched
PROTECTED_SIGN: Final = " = "  # of what no strategy touches
