"""What is asked of a plan: the strategy, and the sliders that go with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from textual import on
from textual.containers import Horizontal, Vertical
from textual.message import Message

from ...core.compaction.target import target_tokens
from ..aiming import BY_LEVEL, STRATEGIES, Aims
from ..formats import plural, tokens
from ..plan_words import LEVELS
from ..planning import CUT, REVERT, SUMMARISE
from ..sliding import Scale
from .choice import Choice
from .slider import Slider

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from ..aiming import Prompt

MOST_KEPT: Final = 40
MOST_TURNS: Final = 60
"""Who wants to keep more makes nothing smaller."""

_SLIDERS: Final = {
    BY_LEVEL: ("level", "target", "keep"),
    SUMMARISE: ("keep",),
    CUT: ("turns",),
    REVERT: ("back",),
}


class AimsBar(Vertical):
    """Tells of every change of what is wanted."""

    @dataclass
    class Changed(Message):
        """A person wants something else."""

        sliders: Aims

    def __init__(self, sliders: Aims, window_tokens: int) -> None:
        super().__init__()
        self._window: Final = window_tokens
        self._prompts: tuple[Prompt, ...] = ()
        self._sliders = sliders

    def compose(self) -> ComposeResult:
        """Lay out the strategies above the sliders."""
        aims = self._sliders
        yield Choice(STRATEGIES, id="strategy", name="strategy")
        with Horizontal(id="sliders"):
            yield Slider(Scale(0, 6), aims.level, _level, id="level", name="level")
            yield Slider(
                Scale(0, 95, 5), aims.target, self._target_label, id="target", name="target"
            )
            kept, turns = Scale(0, MOST_KEPT), Scale(1, MOST_TURNS)
            yield Slider(kept, aims.keep, self._keep_label, id="keep", name="keep last")
            yield Slider(turns, aims.keep_turns, _turns, id="turns", name="keep last")
            yield Slider(
                Scale(1, 2), aims.prompts_back, self._back_label, id="back", name="go back"
            )

    def on_mount(self) -> None:
        """Show the sliders of the first strategy."""
        self._show_sliders()

    def move_slider(self, name: str, steps: int) -> None:
        """Move a slider by some steps, where it is shown."""
        slider = self.query_one(f"#{name}", Slider)
        if slider.display:
            slider.action_slide(steps)

    def show_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Take the prompts that can be gone back to, oldest first; none where nobody looked."""
        if prompts:
            self._prompts = tuple(prompts)
            # Before the first prompt nothing would be left, and with all turns nothing would go.
            fewer = max(1, len(prompts) - 1)
            self.query_one("#back", Slider).rescale(Scale(1, fewer))
            self.query_one("#turns", Slider).rescale(Scale(1, min(fewer, MOST_TURNS)))

    @on(Choice.Changed)
    def _choose(self, event: Choice.Changed) -> None:
        event.stop()
        self._sliders = replace(self._sliders, strategy=event.value)
        self._show_sliders()
        self.post_message(self.Changed(self._sliders))

    @on(Slider.Changed)
    def _slide(self, event: Slider.Changed) -> None:
        event.stop()
        values = {each.id: each.value for each in self.query(Slider)}
        self._sliders = Aims(
            strategy=self._sliders.strategy,
            level=values["level"],
            target=values["target"],
            keep=values["keep"],
            keep_turns=values["turns"],
            prompts_back=values["back"],
        )
        self.post_message(self.Changed(self._sliders))

    def _show_sliders(self) -> None:
        shown = _SLIDERS.get(self._sliders.strategy, ())
        for slider in self.query(Slider):
            slider.display = slider.id in shown
            slider.refresh()
        self.query_one("#sliders").display = bool(shown)

    def _target_label(self, share: int) -> str:
        if not share:
            return "all it allows"
        return f"{share} % ≈ {tokens(target_tokens(self._window, share / 100))}"

    def _keep_label(self, count: int) -> str:
        return plural(count, "message" if self._sliders.strategy == SUMMARISE else "turn")

    def _back_label(self, count: int) -> str:
        known = self._prompts[-count:][:1] if count <= len(self._prompts) else ()
        said = "".join(f", before “{each.text}”" for each in known)
        return f"{plural(count, 'prompt')}{said}"


def _level(level: int) -> str:
    return f"{level} {LEVELS[level]}"


def _turns(count: int) -> str:
    return plural(count, "turn")
