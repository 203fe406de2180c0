"""Putting a summary in the place of what does not fit (002-86 to 002-91)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..plan import Refusal
from ..strategies.summarise import summarise

if TYPE_CHECKING:
    from ...summaries.settings import SummarySettings
    from ..plan import Operation
    from ..whole import Whole
    from .ground import Ground


def summarise_until_it_fits(
    context: Ground, conversation: Whole, keep_messages: int, settings: SummarySettings
) -> Operation | Refusal:
    """Sum up by rules with the last `keep` messages word for word, or with fewer of them.

    What stays may hold the very result that is too large: half as many are tried, down to one.
    """
    said = settings.template, settings.budget, settings.selection
    made = summarise(conversation, keep_messages, *said)
    while keep_messages > 1 and (isinstance(made, Refusal) or not context.fits_after([made])):
        keep_messages //= 2
        made = summarise(conversation, keep_messages, *said)
    return made
