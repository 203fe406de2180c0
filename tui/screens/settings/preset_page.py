"""What a preset does, step by step, beside the default."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from textual.content import Content

from ....core.actions.preset_steps import PresetStep, preset_steps
from ....core.policy.schema import DEFAULT_PRESET
from ...page_kit.page import ReadingScreen, text_width
from ...text.text_lines import labeled_lines

DEFAULT_LABEL: Final = f"  {DEFAULT_PRESET}"


class PresetScreen(ReadingScreen):
    def __init__(self, preset: str) -> None:
        super().__init__("settings", f"preset {preset}", content=Content(""))
        self._steps: Final = preset_steps(preset)

    def on_resize(self) -> None:
        self.show(step_content(self._steps, text_width(self.size.width)))


def step_content(steps: Iterable[PresetStep], width: int) -> Content:
    return Content("\n").join(line for step in steps for line in _step_lines(step, width))


def _step_lines(step: PresetStep, width: int) -> Iterator[Content]:
    yield from labeled_lines([(step.step, step.text)], width)
    if step.text != step.default_text:
        yield from labeled_lines([(DEFAULT_LABEL, step.default_text, "$quiet")], width)
