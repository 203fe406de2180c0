"""What the model is told when its context fills: at 70 % that there is room, at 80 % to save it.

Each once a session, and again after a compaction, as the policy says (002-20 to 002-36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ....core import prompting
from ...clean import clean_title
from ...transcripts.ends import tail_lines
from ...transcripts.newest import newest
from ..at_once import policy_at_once
from ..call import Reply
from ..fields import text_of, transcript_of
from ..kept import keep
from ..said import Said, forget_old, was_told

if TYPE_CHECKING:
    from ....core.context import Context
    from ....core.policy.policy import Policy
    from ...transcripts.newest import Newest
    from ..call import Call

EVENTS: Final = frozenset({"UserPromptSubmit", "PostToolUse"})


def answer(call: Call) -> Reply | None:
    """Say what the thresholds say that the session has newly reached."""
    transcript = transcript_of(call.given)
    # In an agent the client names the session's transcript: that is another context.
    if call.event not in EVENTS or transcript is None or text_of(call.given, "agent_id"):
        return None
    try:
        end = newest(tail_lines(transcript))
    except FileNotFoundError:
        # The session's first prompt.
        return None
    session_id = clean_title(transcript.stem.lower())
    told = was_told(call.store, session_id)
    if end.tokens is None and not told:
        return None
    cwd = text_of(call.given, "cwd")
    policy = policy_at_once(cwd or None)
    if not policy.warns or (not told and _is_low(policy, end)):
        return None
    context = None
    if end.tokens is not None:
        from ...context_now import context_now  # with all that it needs

        context = context_now(transcript, cwd, call.store, policy, end, call.now_ms)
    return _say(call, session_id, policy, context, end)


def _is_low(policy: Policy, end: Newest) -> bool:
    floor = policy.floor
    return floor is not None and (end.tokens or 0) < floor


def _say(
    call: Call, session_id: str, policy: Policy, context: Context | None, end: Newest
) -> Reply | None:
    due = prompting.reached(context, policy.thresholds) if context else {}
    said = []
    for each in policy.thresholds:
        if each.action not in prompting.TEXTS:
            continue
        record = Said(call.store, session_id, each.name)
        before = record.at()
        if before is not None and _is_rearmed(call, policy, each.name, context, end, before):
            record.rearm()
            before = None
        if each.name in due and before is None and record.claim():
            said.append(due[each.name])
    text = prompting.words(said)
    if not text:
        return None
    forget_old(call.store)
    keep(call.store, "prompts", session_id=session_id, kind=" ".join(said), text=text)
    return Reply(context=text)


def _is_rearmed(
    call: Call, policy: Policy, name: str, context: Context | None, end: Newest, said_at: int
) -> bool:
    lines = {line.name: line.at for line in context.lines} if context else {}
    return prompting.is_rearmed(
        policy.rearm,
        lines.get(name),
        context.ratio if context else None,
        said_at=said_at,
        compacted_at=end.compacted_at,
        now_ms=call.now_ms,
    )
