"""The rows of a conversation: prompts, answers, folded tool calls, compactions, context sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ...core.measure.conversation_steps import Step, StepKind, StepText
from ...core.model.conversation import MessagePart, PartKind
from ...core.model.levels import DEFAULT_PLACED_THRESHOLDS, PlacedThreshold, reached_level
from ...core.summaries.key_messages import DEFAULT_IMPORTANCE, ImportanceSettings
from ..text.formats import (
    fit_right,
    percent,
    plural,
    shorten,
    time_of_day,
    tokens,
    tokens_before_and_after,
)
from ..text.gauge import LEVEL_STYLES
from ..text.markdown_text import markdown_lines
from ..text.text_lines import FOLD_SIGNS, expand_tabs, quiet, wrap_text

if TYPE_CHECKING:
    from ...core.model.context import Context
    from ..text.formats import CompactionSizes

MAX_READING_CELLS: Final = 120  # of a line of text: longer ones are hard to read
INDENT: Final = "  "
PROMPT_SIGN: Final = "❯ "
BODY_PREFIX: Final = "    "  # of what a fold shows
MAX_UNFOLDED_LINES: Final = 400  # of one fold: `o` opens the whole text
MARGIN_CELLS: Final = 14  # of the context size: "≈163 k    82 %"
NARROW_MARGIN_CELLS: Final = 6  # of its percentage alone
NARROW_WIDTH: Final = 90  # cells below which only the percentage is shown
SUBJECT_MIN_CELLS: Final = 12

StepKey = tuple[int, int]
_RowsKey = tuple[StepKey, bool, bool, StepKey | None]
"""A step, whether its first row shows the context's size, whether it is unfolded, its result."""

FOLDABLE: Final = frozenset(
    {
        StepKind.CALL,
        StepKind.RESULT,
        StepKind.THINKING,
        StepKind.AGENT_RESULT,
        StepKind.NOTE,
        StepKind.SUMMARY,
    }
)
_MARKDOWN_BODIES: Final = frozenset({StepKind.AGENT_RESULT, StepKind.SUMMARY})
_MARKDOWN_TOOLS: Final = frozenset({"Agent", "Task"})  # whose results an agent wrote
_NAMES: Final = {
    StepKind.THINKING: "Thinking",
    StepKind.RESULT: "Result",
    StepKind.AGENT_RESULT: "Agent result",
    StepKind.NOTE: "Claude Code",
    StepKind.SUMMARY: "Summary",
}


@dataclass(frozen=True, slots=True)
class ConversationSizes:
    """What is known of a conversation's sizes; of a compaction, by its line's byte offset."""

    parts: Mapping[StepKey, int] = field(default_factory=dict[StepKey, int])  # tokens in context
    compactions: Mapping[int, CompactionSizes] = field(default_factory=dict[int, "CompactionSizes"])

    def miss(self, steps: Iterable[Step]) -> bool:
        """Return whether a step is newer, or the last compaction had no answer yet."""
        newest = max(self.parts, default=(-1, 0))
        compactions = []
        for step in steps:
            if step.key > newest:
                return True
            if step.kind is StepKind.COMPACTION:
                compactions.append(self.compactions.get(step.offset))
        return bool(compactions) and (
            compactions[-1] is None or compactions[-1].next_tokens is None
        )


NO_SIZES: Final = ConversationSizes()


@dataclass(frozen=True, slots=True)
class ContextScale:
    """What context sizes are compared with."""

    window_tokens: int = 0  # 0 if it is not known
    thresholds: Sequence[PlacedThreshold] = DEFAULT_PLACED_THRESHOLDS

    @classmethod
    def of(cls, context: Context | None) -> ContextScale:
        return cls(context.window.tokens, context.thresholds) if context else cls()


@dataclass(frozen=True, slots=True)
class ConversationRow:
    step: Step
    place: int  # among the rows of its step
    content: Content

    @property
    def anchor(self) -> tuple[StepKey, int]:
        return self.step.key, self.place

    @property
    def offset(self) -> int:
        return self.step.offset


class ConversationLayout:
    """Writes rows for one width, and keeps those of each step until it changes.

    A worker lays out what it has read; the screen's thread then finds the rows here.
    """

    def __init__(
        self,
        width: int,
        scale: ContextScale,
        importance: ImportanceSettings = DEFAULT_IMPORTANCE,
        sizes: ConversationSizes = NO_SIZES,
    ) -> None:
        """Until `sizes` are known none are shown."""
        self.sizes: Final = sizes
        self.width: Final = width
        self.scale: Final = scale
        self.importance: Final = importance
        self._rows: dict[_RowsKey, tuple[Content, ...]] = {}

    def rows(self, steps: Iterable[Step], unfolded: AbstractSet[StepKey]) -> list[ConversationRow]:
        rows: list[ConversationRow] = []
        used: dict[_RowsKey, tuple[Content, ...]] = {}
        answer: str | None = None
        for step in steps:
            shows_size = step.message_id is not None and step.message_id != answer
            answer = step.message_id or answer
            key = (step.key, shows_size, step.key in unfolded, step.result_key)
            lines = self._rows.get(key) or self._step_lines(step, key)
            used[key] = lines
            rows += (ConversationRow(step, n, line) for n, line in enumerate(lines))
        self._rows = used
        return rows

    def _step_lines(self, step: Step, key: _RowsKey) -> tuple[Content, ...]:
        _, shows_size, is_unfolded, _ = key
        drawn = [*self._draw_step(step, is_unfolded)]
        if shows_size:
            margin = context_margin(step.context_tokens, self.scale, self._margin_cells)
            first = 1 if step.kind is StepKind.ANSWER and len(drawn) > 1 else 0
            drawn[first] = _with_margin(drawn[first], margin, self.width)
        return tuple(drawn)

    @property
    def _margin_cells(self) -> int:
        return NARROW_MARGIN_CELLS if self.width < NARROW_WIDTH else MARGIN_CELLS

    @property
    def _room(self) -> int:
        return max(1, min(self.width - self._margin_cells - 1, MAX_READING_CELLS))

    def _draw_step(self, step: Step, is_unfolded: bool) -> Iterator[Content]:  # noqa: FBT001
        if step.kind is StepKind.PROMPT:
            yield from self._draw_prompt(step)
        elif step.kind is StepKind.ANSWER:
            yield Content("")
            for line in markdown_lines(step.body.text, self._room - len(INDENT)):
                yield Content.assemble(INDENT, line)
            yield from self._cut_note(step)
            yield from self._anchor_note(step, PartKind.TEXT)
        elif step.kind is StepKind.ERROR:
            for line in wrap_text(step.body.text, self._room - 4).lines:
                yield Content.styled(f"{INDENT}✗ {line.plain}", "$level-emergency")
        elif step.kind is StepKind.COMPACTION:
            yield Content("")
            yield self._compaction_line(step)
        else:
            yield self._fold_line(step, is_unfolded)
            if is_unfolded:
                yield from self._draw_bodies(step)

    def _draw_prompt(self, step: Step) -> Iterator[Content]:
        yield Content("")
        text = step.body.text.strip("\n") or "an image"
        time = time_of_day(step.at)
        sign = PROMPT_SIGN
        for line in wrap_text(expand_tabs(text), self._room - len(sign)).lines:
            drawn = Content.styled(f"{sign}{line.plain}", "bold $secondary")
            if sign == PROMPT_SIGN:
                time_margin = quiet(fit_right(time, self._margin_cells))
                drawn = _with_margin(drawn, time_margin, self.width)
            yield drawn
            sign = " " * len(PROMPT_SIGN)
        yield from self._cut_note(step)
        yield from self._anchor_note(step, PartKind.PROMPT)

    def _compaction_line(self, step: Step) -> Content:
        found = self.sizes.compactions.get(step.offset)
        sizes = f" {tokens_before_and_after(found)}" if found else ""
        how = f" ({step.title})" if step.title else ""
        text = f"── compacted{how}{sizes} "
        line = text + "─" * max(0, self.width - len(text) - len(INDENT))
        return Content.styled(INDENT + line, "$level-notice")

    def _fold_line(self, step: Step, is_unfolded: bool) -> Content:  # noqa: FBT001
        name = step.title or _NAMES.get(step.kind, "Tool")
        if step.kind in {StepKind.AGENT_RESULT, StepKind.SUMMARY, StepKind.RESULT}:
            name = _NAMES[step.kind]
        size = self._size_text(step)
        room = self._room - len(INDENT) - 2 - len(name) - 4 - len(size)
        subject = _subject(step, room) if room >= SUBJECT_MIN_CELLS else Content("")
        sign = FOLD_SIGNS[not is_unfolded]
        style = "$level-emergency" if step.failed else "$accent"
        return Content.assemble(
            INDENT,
            (f"{sign} ", "$quiet"),
            (shorten(name, max(1, self._room - 4)), style),
            "  " if subject else "",
            subject,
            (f"  {size}" if size else "", "$level-emergency" if step.failed else "$quiet"),
        )

    def _draw_bodies(self, step: Step) -> Iterator[Content]:
        if step.kind is not StepKind.CALL:
            is_markdown = step.kind in _MARKDOWN_BODIES
            yield from self._draw_body(step.body, step.key, is_markdown=is_markdown)
            return
        if step.body.text and step.body.text != step.subject:
            yield from self._draw_body(step.body, step.key, is_markdown=False)
        if step.result is not None and step.result.text:
            yield quiet(f"{BODY_PREFIX}── result")
            is_markdown = step.title in _MARKDOWN_TOOLS
            yield from self._draw_body(step.result, step.result_key, is_markdown=is_markdown)

    def _draw_body(
        self, body: StepText, key: StepKey | None, *, is_markdown: bool
    ) -> Iterator[Content]:
        room = max(1, self.width - len(BODY_PREFIX) - 1)
        if is_markdown:
            lines = markdown_lines(body.text, min(room, self._room))
        else:
            text = expand_tabs(body.text.removesuffix("\n"))
            lines = wrap_text(text, room, base_style="$quiet").lines
        for line in lines[:MAX_UNFOLDED_LINES]:
            yield Content.assemble(BODY_PREFIX, line)
        if body.is_cut or len(lines) > MAX_UNFOLDED_LINES:
            yield self._more_line(body, key)

    def _cut_note(self, step: Step) -> Iterator[Content]:
        if step.body.is_cut:
            yield self._more_line(step.body, step.key)

    def _anchor_note(self, step: Step, kind: PartKind) -> Iterator[Content]:
        """Label a marked message with its importance (003-05, 2.2.2)."""
        parts = [MessagePart(kind, step.body.text)]
        if self.importance.has_marker(parts):
            note = f"anchor, importance {self.importance.score(parts):.2f}: it stays word for word"
            yield Content.styled(shorten(f"{INDENT}{note}", self._room), "$level-notice")

    def _size_text(self, step: Step) -> str:
        is_call = step.kind is StepKind.CALL
        body = step.result if is_call else step.body
        if body is None:
            return "(no result)"
        parts = [
            "failed" if step.failed else "",
            plural(body.lines, "line") if body.chars else "",
            self._tokens_text(step.result_key if is_call else step.key),
            plural(step.media, "image") if step.media else "",
        ]
        return f"({', '.join(filter(None, parts)) or 'empty'})"

    def _tokens_text(self, key: StepKey | None) -> str:
        """Write what a part takes in the context; empty if it is not in it, or not yet known."""
        size = self.sizes.parts.get(key) if key else None
        return f"≈ {tokens(size)} tokens" if size else ""

    def _more_line(self, body: StepText, key: StepKey | None) -> Content:
        size = ", ".join(filter(None, [plural(body.lines, "line"), self._tokens_text(key)]))
        return Content.styled(f"{BODY_PREFIX}… o opens all of it: {size}", "$level-notice")


def _with_margin(line: Content, margin: Content, width: int) -> Content:
    gap = width - line.cell_length - margin.cell_length
    return Content.assemble(line, " " * gap, margin) if gap >= 1 else line


def context_margin(size: int | None, scale: ContextScale, cells: int) -> Content:
    """Write a context's size and its share of the window, colored by its level."""
    if size is None:
        return Content("")
    if not scale.window_tokens:
        return quiet(fit_right(tokens(size), cells))
    ratio = size / scale.window_tokens
    style = LEVEL_STYLES[reached_level(ratio, scale.thresholds)]
    share = fit_right(percent(ratio), NARROW_MARGIN_CELLS)
    number = fit_right(tokens(size), cells - NARROW_MARGIN_CELLS)
    return Content.styled(f"{number}{share}", style)


def _subject(step: Step, cells: int) -> Content:
    """What tells a fold from others: its subject, else the start of its text."""
    if step.subject or step.title:
        return Content.styled(shorten(step.subject, cells), "$foreground")
    start = " ".join(step.body.text[: 2 * cells].split())
    return Content.styled(start, "$quiet").truncate(cells, ellipsis=True)


def step_text(step: Step) -> str:
    """Return the text of a step to copy: of a call its input and its result."""
    result = step.result.text if step.result else ""
    return "\n".join(filter(None, (step.body.text, result)))


def step_label(step: Step) -> str:
    name = f"{step.title} {step.subject}".strip() if step.kind is StepKind.CALL else ""
    return name or _NAMES.get(step.kind, step.kind.value)
