"""Going back before the last prompt, whose answer did not fit (002-80 to 002-85).

A person has to confirm it, whatever the policy says (T-08). The original stays: what is cut
is cut from a fork.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...conversation import PieceKind, messages_of
from ...summaries.cues import quote
from ..chain import follow_chain
from ..changes import CONTENT, at
from ..limit_errors import LimitErrorType
from ..plan import Harm, Operation, Refusal
from ..project import project
from ..protect import SINGLETONS
from .ground import Proposal, removed
from .settings import Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...conversation import Entry
    from ..view import View
    from .ground import Ground

STANDING: Final = SINGLETONS - {"last-prompt", "summary"}
"""Lines that say how the session is set up; those two name a line, which may be cut."""

_WHAT_CHARS: Final = 120


def revert(ground: Ground) -> Proposal:
    """Cut before the last prompt, or as many prompts back as it takes and may be."""
    left = ground.settings.max_revert - ground.counters.reverted
    is_about_size = ground.found.error_type is not LimitErrorType.NON_EMPTY_CONTENT
    prompts = [entry for entry in follow_chain(ground.view.entries) if _is_prompt(entry)]
    for prompt in list(reversed(prompts))[: max(0, left)]:
        remaining = [each for each in ground.view.entries if each.line < prompt.line]
        sent = project(remaining)
        if len(messages_of(sent)) < ground.settings.min_messages:
            return _refused(
                f"fewer than {ground.settings.min_messages} messages would be left",
                "begin a new session",
            )
        done = _cut(ground, prompt, sent)
        if not is_about_size or ground.fits_after([done]):
            return Proposal(
                Step.REVERT,
                (done,),
                prompt=_words(ground.view, prompt.line),
                reverted=prompt.uuid,
            )
    return _refused(
        f"going back {max(0, min(left, len(prompts)))} prompts does not free enough",
        "compact the session with --strategy, or begin a new one",
    )


def _is_prompt(entry: Entry) -> bool:
    return entry.type == "user" and any(each.kind is PieceKind.PROMPT for each in entry.pieces)


def _cut(ground: Ground, prompt: Entry, sent: Sequence[Entry]) -> Operation:
    view = ground.view
    known: dict[int, int] = {}
    for slot in view.slots:
        known[slot.line] = known.get(slot.line, 0) + slot.tokens
    after = view.overhead + sum(
        known[entry.line]
        if entry.line in known
        else sum(view.count(piece) for piece in entry.pieces)
        for entry in sent
    )
    cut = [
        removed(view, line.number)
        for line in view.lines[prompt.line - 1 :]
        if line.type not in STANDING
    ]
    return Operation(
        strategy=Step.REVERT,
        level=Harm.CUT,
        line=prompt.line,
        kind=PieceKind.PROMPT,
        what=quote(prompt.pieces[0].text, _WHAT_CHARS),
        why=f"everything from this prompt on is left out: {len(cut)} lines",
        tokens_saved=view.tokens - after,
        bytes_saved=sum(freed for _, freed in cut),
        edits=tuple(edit for edit, _ in cut),
    )


def _words(view: View, line: int) -> str:
    content = at(view.value(line), CONTENT)
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = (each.get("text") for each in blocks if isinstance(each, dict))
    return "\n".join(each for each in texts if isinstance(each, str))


def _refused(why: str, what_to_do: str) -> Proposal:
    return Proposal(Step.REVERT, missing=Refusal(Step.REVERT, why, what_to_do))
