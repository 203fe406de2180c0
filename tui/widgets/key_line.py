"""The line of keys at the foot of every screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Footer

from ..forgetting import forget_gone

if TYPE_CHECKING:
    from textual.screen import Screen

    Shown = list[tuple[str, str, bool, str]]


class KeyLine(Footer):
    """Textual's footer, made anew only when it would say something else."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)
        self._said: Shown | None = None

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Make it anew where other keys can be pressed: the focus may move with none changed."""
        said = [
            (binding.key, binding.description, enabled, tooltip)
            for _, binding, enabled, tooltip in screen.active_bindings.values()
            if binding.show
        ]
        if said == self._said:
            return
        if self.is_attached and screen.app.app_focus:
            self._said = said
        super().bindings_changed(screen)

    async def recompose(self) -> None:
        """Let the keys go that were shown before."""
        await super().recompose()
        # Watchers are dropped only when what they watch changes (Textual #6666, seen in 8.2):
        # an open dashboard would keep every key that it ever showed.
        self.mutate_reactive(Footer.compact)
        forget_gone()
