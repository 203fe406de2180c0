"""The dialogs about sessions' clients: answer a permission prompt, resume a session, pause some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import BindingType

from ...collectors.terminal.prompt_answer import Answer
from ...collectors.terminal.session_resume import ResumePlace
from ...core.model.pause_ways import PauseWay
from ...core.transcript.sanitize import reveal_line
from ..base.keymap import bind_hidden
from ..text.formats import shorten, tokens
from ..text.pause_text import WAY_NAMES, cache_text, paused_cost_texts, preview_summary
from ..widgets.whole_text_pane import Description, StyledText
from .dialogs import ChoiceScreen, DialogChoice

if TYPE_CHECKING:
    from ...collectors.terminal.prompt_answer import ProvedPrompt
    from ...collectors.terminal.session_resume import ResumePlan
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
        choices = (
            DialogChoice(Answer.YES, "y Yes, once"),
            DialogChoice(Answer.NO, "n No", approves=False),
        )
        description = tuple(_call_texts(shown))
        super().__init__(f"Answer “{title}”", description, choices, shown.prompt.question)


def _call_texts(shown: ProvedPrompt) -> Iterator[StyledText]:
    """Describe the call in full, then what the client says of it."""
    prompt = shown.prompt
    agent = f" · from the {prompt.agent} agent" if prompt.agent else ""
    yield reveal_line(f"{shown.call.tool}{agent}"), "bold $accent"
    ordered = sorted(shown.call.request, key=lambda each: each[0] not in MAIN_INPUTS)
    for name, text in ordered:
        yield "\n\n"
        if name not in MAIN_INPUTS:
            yield f"{reveal_line(name)}\n", "$quiet"
        yield text, "bold $foreground" if name in MAIN_INPUTS else "$foreground"
    if prompt.notes:
        yield "\n\n"
        yield prompt.notes, "$level-warning"


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
        description: list[StyledText] = [(plan.command, "bold $accent")]
        if cost:
            description.append((f"\n\n{cost}", "$level-notice"))
        super().__init__(f"Resume “{title}”", description, choices)


PAUSE_TITLE_CELLS: Final = 36


def pause_description(items: Sequence[PauseItem], now_ms: int) -> Description:
    """Describe what would be done to each session, those that would be paused first."""
    ordered = sorted(items, key=lambda each: not each.acts)
    texts = (text for item in ordered for text in _item_texts(item, now_ms))
    return (*texts, f"\n{preview_summary(items)}")


def _item_texts(item: PauseItem, now_ms: int) -> Iterator[StyledText]:
    style = "bold $foreground" if item.acts else "$foreground"
    yield shorten(item.session.title, PAUSE_TITLE_CELLS), style
    size = tokens(item.session.context.tokens)
    if not item.acts:
        yield f"  {size} · left: {item.decision.why}\n", "$quiet"
        return
    costs, instead = (paused_cost_texts(item, each) for each in (item.decision.way, PauseWay.LEAVE))
    price = " instead of ".join((*costs[:1], *instead[-1:]))
    yield f"  {size}, warm until {cache_text(item, now_ms)}\n", "$quiet"
    yield f"  {WAY_NAMES[item.decision.way]}: {price}"
    yield f" · {item.decision.why}\n", "$quiet"
