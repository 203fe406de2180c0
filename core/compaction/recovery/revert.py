"""Going back before the last prompt, whose answer did not fit (002-80 to 002-85).

A person has to confirm it, whatever the policy says (T-08). The original stays: what is cut
is cut from a fork.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...conversation import PieceKind, messages_of
from ..changes import CONTENT, at
from ..limit_errors import LimitErrorType
from ..plan import Refusal
from ..project import project
from ..strategies.revert import revert as cut_before
from .ground import Proposal
from .settings import Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...conversation import Entry
    from ..view import View
    from .ground import Ground


def revert(context: Ground) -> Proposal:
    """Cut before the last prompt, or as many prompts back as it takes and may be."""
    view = context.view
    is_about_size = context.refusal.error_type is not LimitErrorType.NON_EMPTY_CONTENT
    prompts = [slot.entry for slot in view.blocks if slot.part.kind is PieceKind.PROMPT]
    lines = {each.line: each for each in prompts if each.type == "user"}
    left = max(0, min(len(lines), context.settings.max_revert - context.counters.reverted))
    for line in sorted(lines, reverse=True)[:left]:
        sent = project([each for each in view.entries if each.line < line])
        if len(messages_of(sent)) < context.settings.min_messages:
            return _refused(
                f"fewer than {context.settings.min_messages} messages would be left",
                "begin a new session",
            )
        cut = cut_before(view, line)
        if isinstance(cut, Refusal):
            return Proposal(Step.REVERT, insufficient=cut)
        done = replace(cut, tokens_saved=view.tokens - _tokens(view, sent))
        if not is_about_size or context.fits_after([done]):
            words, uuid = _words(view, line), lines[line].uuid
            return Proposal(Step.REVERT, (done,), prompt=words, reverted_uuid=uuid)
    return _refused(
        f"going back {left} prompts does not free enough",
        "compact the session by hand (`ctxtop compact`), or begin a new one",
    )


def _tokens(view: View, sent: Sequence[Entry]) -> int:
    """Estimate what is sent where the conversation ends earlier: perhaps before a boundary."""
    known: dict[int, int] = {}
    for slot in view.blocks:
        known[slot.line] = known.get(slot.line, 0) + slot.tokens
    return view.overhead_tokens + sum(
        known[entry.line]
        if entry.line in known
        else sum(view.count_tokens(piece) for piece in entry.parts)
        for entry in sent
    )


def _words(view: View, line: int) -> str:
    content = at(view.decoded_line(line), CONTENT)
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = (each.get("text") for each in blocks if isinstance(each, dict))
    return "\n".join(each for each in texts if isinstance(each, str))


def _refused(why: str, what_to_do: str) -> Proposal:
    return Proposal(Step.REVERT, insufficient=Refusal(Step.REVERT, why, what_to_do))
