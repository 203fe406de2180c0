"""The whole text of one step of a conversation, read from its transcript line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.widget import Widget

from ...collectors.claude_code.transcripts.transcript_pages import ConversationFile, read_line
from ...core.measure.conversation_steps import Step, StepKind, part_text
from ...core.model.problem import Problem, reading_problem
from ...core.transcript.sanitize import sanitize_text
from ..base.keymap import bind, bind_hidden
from ..page_kit.page import Page
from ..text.markdown_text import markdown_lines
from ..text.text_lines import HIT_STYLE, Passage, WrappedText, expand_tabs, quiet, wrap_text
from ..widgets.text_pane import TextPane, next_place

if TYPE_CHECKING:
    from ..app_state.dashboard import Dashboard
    from ..base.background_queries import WorkerThread

READING: Final = "reading …"
MARKDOWN_KINDS: Final = frozenset({StepKind.ANSWER, StepKind.SUMMARY, StepKind.AGENT_RESULT})


def read_step_text(source: ConversationFile, step: Step) -> str | Problem:
    """Read a step's whole text, of a call its input and result, sanitized."""
    texts = []
    for offset, part in ((step.offset, step.part), (step.result_offset, None)):
        if offset is None:
            continue
        try:
            entry = read_line(source, offset)
        except OSError as error:
            return reading_problem(str(source.path), error, "open it again")
        parts = entry.parts if entry else ()
        texts += [
            part_text(each)
            for number, each in enumerate(parts)
            if (number == part if part is not None else each.tool_use_id == step.tool_use_id)
        ]
    return sanitize_text("\n\n".join(texts))


class StepTextPane(TextPane):
    """The whole text of a step, with the matches of a search."""

    app: Dashboard

    worker: WorkerThread | None = None  # reads the text; the app's if there is none

    def __init__(self, *, id: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self._step: tuple[ConversationFile, Step, re.Pattern[str] | None] | None = None
        self.text = ""
        self._passages: Sequence[Passage] = ()
        self._at = -1  # the current match; -1 before n or N is pressed

    def show_step(
        self, source: ConversationFile, step: Step, pattern: re.Pattern[str] | None
    ) -> None:
        if self._step != (source, step, pattern):
            self._step = (source, step, pattern)
            self.text, self._passages, self._at = "", (), -1
            self._wrap()

    @on(TextPane.Resized)
    def _wrap(self) -> None:
        if self._step is None:
            return
        shown, width, known = self._step, max(1, self.line_width - 1), self.text
        source, step, pattern = shown

        def work() -> tuple[str, WrappedText] | Problem:
            # Read once, even if it is wrapped again for another width.
            text = known or read_step_text(source, step)
            if isinstance(text, Problem):
                return text
            expanded = expand_tabs(text)
            if pattern is None and step.kind in MARKDOWN_KINDS:
                return text, WrappedText(markdown_lines(text, width))
            hits = [match.span() for match in pattern.finditer(expanded)] if pattern else []
            return text, wrap_text(expanded, width, hits, HIT_STYLE)

        def take(found: tuple[str, WrappedText] | Problem) -> None:
            if self.is_attached and shown == self._step:
                self._take(found)

        worker = self.worker or self.app.lookup_worker
        worker.submit(work, take, replaces="the text of a step")

    def _take(self, found: tuple[str, WrappedText] | Problem) -> None:
        if isinstance(found, Problem):
            self.show((quiet(str(found)),))
            return
        is_first = not self.text
        self.text, wrapped = found
        self._passages = wrapped.passages
        self.show(wrapped.lines, top=0 if is_first else None)
        if wrapped.passages and self._at < 0:
            self.go_to_line(wrapped.passages[0].line)

    def go_to_hit(self, by: int) -> None:
        if self._passages:
            self._at = next_place(self._at, by, len(self._passages))
            self.go_to(self._passages[self._at])


class StepTextScreen(Page):
    """n and N go from match to match of the search that it was opened from."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("enter", "leave", "Back", "back", "done"),
        bind_hidden("n", "hit(1)", "Next", "next match", "next"),
        bind_hidden("N", "hit(-1)", "Previous", "previous match", "before"),
        bind("y", "copy", "Copy", "copy the full text", "copy"),
    ]

    def __init__(
        self,
        source: ConversationFile,
        step: Step,
        pattern: re.Pattern[str] | None,
        *,
        crumbs: Sequence[str],
        session_id: str,
    ) -> None:
        super().__init__(*crumbs, session_id=session_id)
        self._source: Final = source
        self._step: Final = step
        self._pattern: Final = pattern

    def compose_page(self) -> Iterable[Widget]:
        yield StepTextPane(id="page")

    @property
    def _pane(self) -> StepTextPane:
        return self.query_one(StepTextPane)

    def on_mount(self) -> None:
        self._pane.focus()
        self._pane.show_step(self._source, self._step, self._pattern)

    def action_hit(self, by: int) -> None:
        self._pane.go_to_hit(by)

    def action_copy(self) -> None:
        self.app.copy(self._pane.text, "the full text")
