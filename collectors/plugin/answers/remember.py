"""Feature `remember`: repeat once, with the next prompt, what a compaction's summary left out.

What the user wrote comes first, word for word; all else is data, lines of memory files too.
"""

from __future__ import annotations

from ...plugin_files import state_files
from ..hook_answer import session_of, text_field, transcript_path

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Final

    from ..hook_answer import HookCall, HookReply


MAX_NOTED_RULES: Final = 80  # a note holds as many of the longest; the budget repeats fewer

_NOTE: Final = "lost-"  # and the session's id
_ANALYSIS: Final = r"(?s)<analysis>.*?</analysis>"  # not sent to the model


def answer(call: HookCall) -> HookReply | None:
    """Check a summary at PostCompact; repeat at the next UserPromptSubmit what it left out."""
    transcript = transcript_path(call.fields)
    if transcript is None or text_field(call.fields, "agent_id"):
        return None
    if call.event == "PostCompact":
        _check_summary(call, transcript)
    elif call.event == "UserPromptSubmit":
        return _remind(call, transcript)
    return None


def _check_summary(call: HookCall, path: str) -> None:
    call.begin_slow()
    import re
    from pathlib import Path

    import msgspec

    from ....core.store.database import state_folder
    from ....core.summaries.rule_choices import read_rule_choices
    from ....core.summaries.steering import (
        RULE_KINDS,
        find_missing_essentials,
        rule_essentials,
    )
    from ...claude_code.current_context import clean_essentials, read_essentials, read_rules

    transcript = Path(path)
    try:
        rules = read_rules(transcript, read_rule_choices(state_folder(Path(call.store))))
        items = read_essentials(transcript, rules, call.now_ms)
    except FileNotFoundError:
        # The session is not kept on disk.
        return
    summary = re.sub(_ANALYSIS, "", text_field(call.fields, "compact_summary"))
    # Every rule is checked: the list of essentials has room for some of them.
    others = (item for item in items if item.kind not in RULE_KINDS)
    lost_rules = find_missing_essentials(clean_essentials(rule_essentials(rules)), [summary])
    lost = (*lost_rules[:MAX_NOTED_RULES], *find_missing_essentials(others, [summary]))
    note = f"{_NOTE}{session_of(path)}"
    if lost:
        state_files.leave_note(call.store, note, msgspec.json.encode(lost))
    else:
        state_files.take_note(call.store, note)


def _remind(call: HookCall, path: str) -> HookReply | None:
    name = f"{_NOTE}{session_of(path)}"
    # Most prompts end here: the slow imports come after it.
    if not state_files.has_note(call.store, name):
        return None
    call.begin_slow()
    from ....core.transcript.authorship import CLIENT_TEXT

    if CLIENT_TEXT.match(text_field(call.fields, "prompt")):
        # No person typed it: the reminder waits for a person's prompt.
        return None
    left = state_files.take_note(call.store, name)
    if left is None:
        return None
    from pathlib import Path

    import msgspec

    from ....core.summaries.steering import (
        Essential,
        essential_tokens,
        find_missing_essentials,
        fit_reminder,
        render_reminder,
    )
    from ...claude_code.current_context import texts_since_compaction
    from ..hook_answer import HookReply
    from ..hook_inputs import resolve_hook_policy

    items = msgspec.json.decode(left, type=tuple[Essential, ...])
    sent = texts_since_compaction(Path(path))
    if not sent:
        # Nothing was compacted after all.
        return None
    # What the compaction kept word for word, and what other hooks repeated, is still there.
    lost = find_missing_essentials(items, [*sent, text_field(call.fields, "prompt")])
    budget = resolve_hook_policy(call.fields).count("steering.again")
    given = fit_reminder(lost, budget)
    for item in given:
        state_files.record_answer(
            call.store,
            "remember",
            session_id=session_of(path),
            kind=item.kind.value,
            text=item.text,
            tokens=essential_tokens(item),
        )
    return HookReply(context=render_reminder(given)) if given else None
