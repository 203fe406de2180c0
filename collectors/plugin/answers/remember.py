"""What a compaction's summary left out: noted after it, and said once with the next prompt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .. import notes
from ..fields import text_of, transcript_of

if TYPE_CHECKING:
    from pathlib import Path

    from ..call import Call, Reply

MACHINE: Final = "<task-notification>"
"""How a prompt begins that nobody typed (2.1.329): what was forgotten waits for a person's."""

_ANALYSIS: Final = re.compile(r"<analysis>.*?</analysis>", re.DOTALL)
"""What the summariser thought, which the model is not sent."""


def answer(call: Call) -> Reply | None:
    """Judge a summary at PostCompact; at the next UserPromptSubmit say what it left out, once."""
    transcript = transcript_of(call.fields)
    if transcript is None or text_of(call.fields, "agent_id"):
        return None
    if call.event == "PostCompact":
        _judge(call, transcript)
    elif call.event == "UserPromptSubmit":
        return _say_again(call, transcript)
    return None


def _judge(call: Call, transcript: Path) -> None:
    import msgspec

    from ....core.summaries.steering import Item, missing
    from ...standing import read_essentials
    from ..kept import keep

    session_id = transcript.stem.lower()
    steered = notes.take(call.store, f"steered-{session_id}")
    if steered is None:
        try:
            items = read_essentials(transcript, call.now_ms)
        except FileNotFoundError:
            # A session that is not kept on disk.
            return
    else:
        items = msgspec.json.decode(steered, type=tuple[Item, ...])
    lost = missing(items, [_ANALYSIS.sub("", text_of(call.fields, "compact_summary"))])
    for item in lost:
        keep(call.store, "remember", session_id=session_id, kind=item.kind.value, text=item.text)
    if lost:
        notes.leave(call.store, f"forgotten-{session_id}", msgspec.json.encode(lost))
    else:
        notes.take(call.store, f"forgotten-{session_id}")


def _say_again(call: Call, transcript: Path) -> Reply | None:
    name = f"forgotten-{transcript.stem.lower()}"
    # Most prompts end here: nothing that takes long is imported before.
    if not notes.is_left(call.store, name) or text_of(call.fields, "prompt").startswith(MACHINE):
        return None
    left = notes.take(call.store, name)
    if left is None:
        return None
    import msgspec

    from ....core.summaries.steering import AGAIN, Item, missing, within, words
    from ...standing import texts_in_context
    from ..at_once import policy_at_once
    from ..call import Reply

    items = msgspec.json.decode(left, type=tuple[Item, ...])
    sent = texts_in_context(transcript)
    if not sent:
        # Nothing was compacted after all.
        return None
    # What the compaction kept word for word, and what its own hooks said, is still there.
    lost = missing(items, [*sent, text_of(call.fields, "prompt")])
    budget = policy_at_once(call.fields).integer("steering.again") or 0
    said = words(within(lost, budget, AGAIN), AGAIN)
    return Reply(context=said) if said else None
