"""The whole text of one step of a conversation, read from its transcript line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.widget import Widget

from ....collectors.claude_code.transcripts.transcript_pages import ConversationFile, read_line
from ....core.measure.conversation_turns import Step, StepKind, part_text
from ....core.model.problem import Problem, reading_problem
from ....core.transcript.sanitize import sanitize_text
from ...keymap import bind, bind_hidden
from ...text.markdown_text import markdown_lines
from ...text.text_lines import HIT_STYLE, WrappedText, expand_tabs, quiet, wrap_text
from ...widgets.text_pane import TextPane, next_place
from ..page import Page

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
        self._text = ""
        self._wrapped = WrappedText(())
        self._at = -1

    def compose_page(self) -> Iterable[Widget]:
        yield TextPane(id="page")

    def on_mount(self) -> None:
        self.query_one(TextPane).focus()

    @on(TextPane.Resized)
    def _wrap(self) -> None:
        width = max(1, self.query_one(TextPane).line_width - 1)
        source, step, pattern, known = self._source, self._step, self._pattern, self._text

        def work() -> tuple[str, WrappedText] | Problem:
            # It is read once, however often it is wrapped for another width.
            text = known or read_step_text(source, step)
            if isinstance(text, Problem):
                return text
            shown = expand_tabs(text)
            if pattern is None and step.kind in MARKDOWN_KINDS:
                return text, WrappedText(markdown_lines(text, width))
            hits = [match.span() for match in pattern.finditer(shown)] if pattern else []
            return text, wrap_text(shown, width, hits, HIT_STYLE)

        self.work_out(work, self._take)

    def _take(self, found: tuple[str, WrappedText] | Problem) -> None:
        pane = self.query_one(TextPane)
        if isinstance(found, Problem):
            pane.show((quiet(str(found)),))
            return
        self._text, self._wrapped = found
        pane.show(self._wrapped.lines)
        if self._wrapped.passages and self._at < 0:
            pane.go_to_line(self._wrapped.passages[0].line)

    def action_hit(self, by: int) -> None:
        if passages := self._wrapped.passages:
            self._at = next_place(self._at, by, len(passages))
            self.query_one(TextPane).go_to(passages[self._at])

    def action_copy(self) -> None:
        self.app.copy(self._text, "the full text")
