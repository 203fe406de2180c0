"""Letting go what Textual still holds of widgets that are gone."""

from __future__ import annotations

from textual._styles_cache import StylesCache


def forget_gone() -> None:
    """Drop what was drawn of every widget but those on the screen, which draw on.

    A cache of 1,024 calls holds each widget's drawn lines as long as the call is in it (seen in
    Textual 8.2.8): an open dashboard would grow by what every page has shown.
    """
    # Where another version has no such cache there is nothing to let go.
    clear = getattr(StylesCache.get_inner_outer, "cache_clear", None)
    if clear is not None:
        clear()
