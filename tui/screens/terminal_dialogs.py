"""The dialogs about sessions' clients: answer a permission prompt, resume a session, pause some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import BindingType
from textual.content import Content

from ...collectors.client_terminal.prompt_answer import Answer
from ...collectors.client_terminal.session_resume import ResumePlace
from ...core.measure.pause_costs import PauseWay
from ...core.transcript.sanitize import one_line, sanitize_text
from ..keymap import bind_hidden
from ..text.formats import shorten, tokens
from ..text.pause_text import WAY_NAMES, cache_text, paused_cost_texts, preview_summary
from ..text.text_lines import join_lines, quiet
from .dialogs import ChoiceScreen, DialogChoice

if TYPE_CHECKING:
    from ...collectors.client_terminal.prompt_answer import ProvedPrompt
    from ...collectors.client_terminal.session_resume import ResumePlan
    from ...core.actions.pause_rules import PauseItem


MAIN_INPUTS: Final = (
    "command",
    "url",
    "query",
    "skill",
    "file_path",
    "notebook_path",
)  # what a call does, before how it is described


class AnswerScreen(ChoiceScreen):
    """Shows all that a call asks for; returns an `Answer`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("y", f"choose('{Answer.YES}')", "Yes", "answer Yes, this once", "answer_yes"),
        bind_hidden("n", f"choose('{Answer.NO}')", "No", "answer No", "answer_no"),
    ]

    def __init__(self, title: str, shown: ProvedPrompt) -> None:
        choices = (DialogChoice(Answer.YES, "y Yes, once"), DialogChoice(Answer.NO, "n No"))
        super().__init__(one_line(f"Answer “{title}”"), request_content(shown), choices)


def request_content(shown: ProvedPrompt) -> Content:
    """Show the call in full, then what the client says of it, and its question."""
    return Content("\n").join(_request_lines(shown))


def _request_lines(shown: ProvedPrompt) -> Iterator[Content]:
    prompt = shown.prompt
    agent = f" · from the {prompt.agent} agent" if prompt.agent else ""
    yield Content.styled(one_line(f"{shown.call.tool}{agent}"), "bold $accent")
    ordered = sorted(shown.call.request, key=lambda each: each[0] not in MAIN_INPUTS)
    for name, text in ordered:
        yield Content("")
        if name not in MAIN_INPUTS:
            yield Content.styled(one_line(name), "$quiet")
        style = "bold $foreground" if name in MAIN_INPUTS else "$foreground"
        yield Content.styled(sanitize_text(text).expandtabs(4), style)
    if prompt.notes:
        yield Content("")
        yield Content.styled(sanitize_text(prompt.notes), "$level-warning")
    yield Content("")
    yield Content.styled(one_line(prompt.question), "$foreground")


COPY: Final = "copy"


class ResumeScreen(ChoiceScreen):
    """Returns COPY or a `ResumePlace`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("y", f"choose('{COPY}')", "Copy", "copy the command", "copy"),
        bind_hidden(
            "w", f"choose('{ResumePlace.WINDOW}')", "Window", "in a new tmux window", "new_window"
        ),
        bind_hidden(
            "s", f"choose('{ResumePlace.SPLIT}')", "Split", "in a pane beside this one", "split"
        ),
    ]

    def __init__(self, title: str, plan: ResumePlan, cost: str, *, in_tmux: bool) -> None:
        """`cost` says what the first prompt rewrites; it may be empty."""
        choices = [DialogChoice(COPY, "y Copy")]
        if in_tmux:
            choices += [DialogChoice(ResumePlace.WINDOW, "w New window")]
            choices += [DialogChoice(ResumePlace.SPLIT, "s Split")]
        shown = Content.styled(one_line(plan.command), "bold $accent")
        if cost:
            shown = Content.assemble(shown, "\n\n", (cost, "$level-notice"))
        super().__init__(one_line(f"Resume “{title}”"), shown, choices)


PAUSE_TITLE_CELLS: Final = 36


def pause_content(items: Sequence[PauseItem], now_ms: int) -> Content:
    """Show what would be done to each session, those that would be paused first."""
    ordered = sorted(items, key=lambda each: not each.acts)
    lines = [line for item in ordered for line in _item_lines(item, now_ms)]
    return join_lines(*lines, Content(""), Content(preview_summary(items)))


def _item_lines(item: PauseItem, now_ms: int) -> Iterator[Content]:
    style = "bold $foreground" if item.acts else "$foreground"
    title = Content.styled(shorten(item.session.title, PAUSE_TITLE_CELLS), style)
    size = tokens(item.session.context.tokens)
    if not item.acts:
        yield title + quiet(f"  {size} · left: {item.decision.why}")
        return
    costs, instead = (paused_cost_texts(item, each) for each in (item.decision.way, PauseWay.LEAVE))
    price = " instead of ".join((*costs[:1], *instead[-1:]))
    way = WAY_NAMES[item.decision.way]
    yield title + quiet(f"  {size}, warm until {cache_text(item, now_ms)}")
    yield Content(f"  {way}: {price}") + quiet(f" · {item.decision.why}")
