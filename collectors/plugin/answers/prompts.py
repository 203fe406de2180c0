"""What the model is told when its context fills: at 70 % that there is room, at 80 % to save it.

Each once a session, and again after a compaction, as the policy says (002-20 to 002-36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..fields import text_of, transcript_of
from ..quiet import NO_END, is_quiet, keep_quiet, rough_fill

if TYPE_CHECKING:
    from pathlib import Path

    from ....core.context import Context
    from ....core.policy.policy import Policy
    from ...transcripts.newest import Newest
    from ..call import Call, Reply

EVENTS: Final = frozenset({"UserPromptSubmit", "PostToolUse"})


def answer(call: Call) -> Reply | None:
    """Say what the thresholds say that the session has newly reached."""
    transcript = transcript_of(call.fields)
    # In an agent the client names the session's transcript: that is another context.
    if call.event not in EVENTS or transcript is None or text_of(call.fields, "agent_id"):
        return None
    session_id = transcript.stem.lower()
    fill = rough_fill(transcript)
    if is_quiet(call.store, session_id, fill):
        return None
    reply, left = _look(call, transcript, session_id)
    keep_quiet(call.store, session_id, fill, left)
    return reply


def _look(call: Call, transcript: Path, session_id: str) -> tuple[Reply | None, int]:
    """Say what is due, and how many tokens are left until something else may be."""
    # Most calls end before: nothing that takes long is imported there.
    from ...transcripts.ends import tail_lines
    from ...transcripts.newest import newest
    from ..at_once import policy_at_once

    try:
        end = newest(tail_lines(transcript))
    except FileNotFoundError:
        # The session's first prompt.
        return None, 0
    cwd = text_of(call.fields, "cwd")
    policy = policy_at_once(call.fields)
    context = None
    if end.tokens is not None:
        from ...context_now import context_now

        context = context_now(transcript, cwd, call.store, policy, end, call.now_ms)
    return _say(call, session_id, policy, context, end), _left(context)


def _left(context: Context | None) -> int:
    if context is None or context.ratio is None or context.tokens is None:
        return NO_END
    ahead = [line.at for line in context.thresholds if not line.is_reached(context.ratio)]
    if not ahead:
        return NO_END
    return max(1, int(min(ahead) * context.window.tokens) - context.tokens)


def _say(
    call: Call, session_id: str, policy: Policy, context: Context | None, end: Newest
) -> Reply | None:
    from ....core import prompting
    from ..call import Reply
    from ..kept import keep
    from ..said import Said, forget_old

    thresholds = prompting.telling(policy)
    due = prompting.reached(context, thresholds) if context else {}
    said = []
    for each in thresholds:
        record = Said(call.store, session_id, each.name)
        before = record.announced_at()
        if before is not None and _is_rearmed(call, policy, each.name, context, end, before):
            record.rearm()
            before = None
        if each.name in due and before is None and record.claim():
            said.append(due[each.name])
    text = prompting.words(said, policy)
    if not text:
        return None
    forget_old(call.store)
    keep(call.store, "prompts", session_id=session_id, kind=" ".join(said), text=text)
    return Reply(context=text)


def _is_rearmed(
    call: Call, policy: Policy, name: str, context: Context | None, end: Newest, said_at: int
) -> bool:
    from ....core import prompting

    lines = {line.name: line.at for line in context.thresholds} if context else {}
    return prompting.is_rearmed(
        policy.rearm,
        lines.get(name),
        context.ratio if context else None,
        prompted_at=said_at,
        compacted_at=end.compacted_at,
        now_ms=call.now_ms,
    )
