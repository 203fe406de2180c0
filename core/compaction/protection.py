"""What stays of a conversation: what no strategy may change and why, and what a summary keeps."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ..measure.tokens import TASK_REMINDERS
from ..model import conversation
from ..model.conversation import ConversationMessage, Entry, PartKind, newest_model
from ..summaries.artifacts import TODO_TOOLS
from ..transcript.visible_messages import (
    behind_bound_answer,
    is_call,
    is_result,
    last_bound_thinking,
    retained_uuids,
    waits_for_model,
)
from .plan import PlanOptions, ProtectedTokens
from .transcript_view import FileLine, VisibleBlock

NEWEST_TURNS: Final = "newest turns"  # only dropping bound thinking (rule T) goes past it
BOUND: Final = "before thinking that must stay"  # of a model that binds thinking to it
AGENT_RESULT: Final = "agent's result"  # older than the newest turns
PLAN_OR_TODOS: Final = "plan or todos"  # of reminders of the todos, the newest
ERROR: Final = "error"  # older than the newest turns
SHORTENED: Final = frozenset({AGENT_RESULT, ERROR})
"""Results that only strategies of their own shorten; none removes them."""
UNREAD: Final = "cannot be read"  # a field is of another type than any version wrote


def mark_protected(
    blocks: Sequence[VisibleBlock], retained_uuids: set[str], options: PlanOptions, bound_end: int
) -> list[VisibleBlock]:
    """Return the blocks with the reason why each is protected; a boundary kept `retained_uuids`.

    `bound_end` is `find_bound_end` of the blocks.
    """
    answers = (block.index for block in blocks if block.entry.role is conversation.Role.ASSISTANT)
    first_answer, tail = next(answers, len(blocks)), tail_start(blocks, options)
    todo_calls = [
        block.call_id for block in blocks if is_call(block.part) and block.part.name == "TodoWrite"
    ]
    last_todo = todo_calls[-1] if todo_calls else None
    older_reminders = _older_reminders(blocks)
    anchors = _anchor_scores(blocks)

    def reason(block: VisibleBlock) -> str | None:
        score = anchors.get(_message_id(block))
        if score is not None:
            return f"anchor, score {score:.2f}"
        if block.index < first_answer:
            return "first prompt"
        why = _protection_reason(block, retained_uuids, last_todo)
        if why == PLAN_OR_TODOS and block.line in older_reminders:
            why = None
        if why not in {None, AGENT_RESULT, ERROR}:
            return why
        if block.index < bound_end:
            return BOUND
        return NEWEST_TURNS if block.index >= tail else why

    return [replace(block, protected_reason=reason(block)) for block in blocks]


def find_bound_end(
    blocks: Sequence[VisibleBlock], model: str | None, held_lines: Collection[int]
) -> int:
    """Return the index behind the last block before which nothing may change; 0 if there is none.

    It is thinking of a model that binds it, and must stay: of a turn that is open, or in one of
    the `held_lines`, which stay for another reason.
    """
    if not conversation.binds_thinking(model):
        return 0
    open_place = last_bound_thinking([block.entry for block in blocks], model)
    held = (
        block.index
        for block in blocks
        if block.line in held_lines
        and block.part.kind is PartKind.THINKING
        and not conversation.is_from_other_model(block.entry, model)
    )
    return 1 + max(-1 if open_place is None else open_place, *held, -1)


def _older_reminders(blocks: Iterable[VisibleBlock]) -> set[int]:
    """Return the lines of reminders of the todos that a newer one of their kind follows."""
    lines = [(each.part.name, each.line) for each in blocks if each.part.name in TASK_REMINDERS]
    newest = dict(lines)
    return {line for name, line in lines if newest[name] != line}


def _anchor_scores(blocks: Iterable[VisibleBlock]) -> dict[str | int, float]:
    """Return the scores of messages that contain a marker; each is kept whole (2.2.2)."""
    return {
        _message_id(block): block.anchor_score for block in blocks if block.anchor_score is not None
    }


def _message_id(block: VisibleBlock) -> str | int:
    return block.entry.message_id or block.entry.uuid or block.entry.offset


def sum_protected_tokens(blocks: Iterable[VisibleBlock]) -> tuple[ProtectedTokens, ...]:
    """Add up the protected tokens by reason, the largest first."""
    sums: Counter[str] = Counter()
    for block in blocks:
        if block.protected_reason is not None:
            sums[block.protected_reason] += block.tokens
    return tuple(ProtectedTokens(why, tokens) for why, tokens in sums.most_common() if tokens)


SESSION_STATE_TYPES: Final = frozenset(
    {
        "permission-mode", "mode", "last-prompt", "ai-title", "custom-title", "summary", "pr-link",
        "worktree-state", "relocated", "content-replacement", "tag", "agent-name",
    }
)  # fmt: skip
"""Lines with the session's own state; losing one can make a resume hang (2.3)."""


def find_protected_lines(entries: Sequence[Entry], lines: Iterable[FileLine]) -> dict[int, str]:
    """Return the numbers of the lines that keep every byte, and why."""
    kept = retained_uuids(entries)
    last = conversation.last_boundary(entries)
    protected = {each.line: "kept by a compaction" for each in entries if each.uuid in kept}
    protected |= {each.line: UNREAD for each in entries if each.unread_fields}
    protected |= {each.line: "boundary" for each in entries if each.boundary}
    protected |= {
        each.line: "says what is no longer sent"
        for each in entries
        if each.withdrawal and each.type == "attachment"
    }
    protected |= {
        each.line: "summary"
        for each in entries
        if last is not None
        and each.line > last.line
        and any(part.kind is PartKind.SUMMARY for part in each.parts)
    }
    return protected | {
        line.number: "session's state" for line in lines if line.type in SESSION_STATE_TYPES
    }


_PLAN_ATTACHMENTS: Final = ("plan_", "todo", "task_")
_KNOWN_TYPES: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})

_PROTECTED_KINDS: Final = {
    PartKind.PROMPT: "user text",
    PartKind.SUMMARY: "summary",
    PartKind.AGENT_RETURN: AGENT_RESULT,
}

_PROTECTED_TOOLS: Final = dict.fromkeys(TODO_TOOLS, "todos") | {
    "ExitPlanMode": "plan",
    "EnterPlanMode": "plan",
    "AskUserQuestion": "user text",
    # Both load instructions for the model (DCP and opencode protect skills too).
    "Skill": "instructions",
    "ToolSearch": "instructions",
}


def _protection_reason(
    block: VisibleBlock, retained_uuids: set[str], last_todo: str | None
) -> str | None:
    """Return why a block is protected regardless of its position; None if it is not."""
    part, entry = block.part, block.entry
    if entry.uuid in retained_uuids:
        return "kept by a compaction"
    if entry.unread_fields:
        return UNREAD
    if entry.type not in _KNOWN_TYPES:
        return "unknown type"
    if part.kind in _PROTECTED_KINDS:
        return _PROTECTED_KINDS[part.kind]
    if part.failed:
        return ERROR
    if part.kind is PartKind.ATTACHMENT:
        return PLAN_OR_TODOS if part.name.startswith(_PLAN_ATTACHMENTS) else None
    if part.kind is PartKind.META:
        return None if conversation.is_command_output(part) else "instructions"
    if part.name == "TodoWrite":
        return "todos" if block.call_id == last_todo else None
    return _PROTECTED_TOOLS.get(part.name)


def tail_start(blocks: Sequence[VisibleBlock], options: PlanOptions) -> int:
    """Return the first index that the newest turns, tokens or the last prompt protect."""
    prompt = max((each.index for each in blocks if each.part.kind is PartKind.PROMPT), default=0)
    task = max(prompt, _tokens_start(blocks, options.max_task_tokens))
    turns = _turns_start(blocks, options.min_turns)
    return min(task, turns, _tokens_start(blocks, options.min_tail_tokens))


RECENT_TAIL: Final = PlanOptions(keep=10, min_tail_tokens=20_000, max_task_tokens=20_000)
"""What a plan changes last: 3 % of the names that the next ten answers use, and 8 % of the texts
that they edit, are 10,000 to 20,000 tokens back (`tests/bench/bench_tail.py`)."""


def first_recent_line(blocks: Sequence[VisibleBlock]) -> int:
    """Return the number of the first line in RECENT_TAIL; behind the last one if it is empty."""
    start = tail_start(blocks, RECENT_TAIL)
    if start < len(blocks):
        return blocks[start].line
    return blocks[-1].line + 1 if blocks else 1


def _turns_start(blocks: Sequence[VisibleBlock], min_turns: int) -> int:
    if not min_turns:
        return len(blocks)
    first: dict[str | None, int] = {}
    for block in blocks:
        if is_call(block.part):
            first.setdefault(block.entry.message_id or block.entry.uuid, block.index)
    starts = sorted(first.values())
    return starts[-min_turns] if len(starts) >= min_turns else 0


def _tokens_start(blocks: Sequence[VisibleBlock], min_tokens: int) -> int:
    for block in reversed(blocks):
        if min_tokens <= 0:
            return block.index + 1
        min_tokens -= block.tokens
    return 0


def start_of_recent(messages: Sequence[ConversationMessage], least: int) -> int:
    """Return where the newest messages begin, at least `least` of them.

    A tool's call and its result always stay together (R001-01): the API refuses a result whose
    call is gone. Calls side by side, and steps that follow each other, are kept whole by going
    back to the first call that is needed.
    """
    start = len(messages) - max(0, min(least, len(messages)))
    needs = _first_needed(messages)
    # A message that is kept may in turn need earlier ones.
    place = len(messages)
    while place > start:
        place -= 1
        start = min(start, needs[place])
    return start


def _first_needed(messages: Sequence[ConversationMessage]) -> list[int]:
    """Return for each message the first one that it needs: itself, or that of a call."""
    calls: dict[str, int] = {}
    needs: list[int] = []
    for place, message in enumerate(messages):
        first = place
        for part in message.parts:
            if part.kind is PartKind.TOOL_INPUT and part.tool_use_id:
                calls[part.tool_use_id] = place
            elif part.kind in conversation.RESULT_KINDS and part.tool_use_id is not None:
                # An unknown call is in the answer before. An agent's notification answers none.
                first = min(first, calls.get(part.tool_use_id, max(0, place - 1)))
        needs.append(first)
    return needs


class RetainedTail(msgspec.Struct, frozen=True):
    removed: tuple[Entry, ...]  # in order
    retained: tuple[Entry, ...]  # without thinking that would be bound to what was removed
    removed_messages: int
    retained_messages: int
    quoted: tuple[Entry, ...] = ()
    """Of what is removed the newest lines of an open turn: they cannot stay, and are quoted."""


def retain_last_messages(visible: Sequence[Entry], count: int) -> RetainedTail:
    """Keep the last messages, and as many more as they need.

    No result is kept without its call (R001-01), no part of an answer without its others; the
    cut goes back to the prompt that began the turn if that is at most as many messages more,
    else it is behind a whole group of calls and results.
    """
    messages = conversation.group_messages(list(visible))
    start = _answer_start(messages, start_of_recent(messages, count))
    if start < len(messages):
        places = range(start, max(-1, start - count - 1), -1)
        start = next((place for place in places if conversation.has_prompt(messages[place])), start)
    bound = {each.offset for each in visible[: behind_bound_answer(visible, newest_model(visible))]}
    unbound = (n for n, each in enumerate(messages) if each.entries[-1].offset not in bound)
    end = max(start, next(unbound, len(messages)))
    quoted = tuple(entry for message in messages[start:end] for entry in message.entries)
    return replace(_split_at(messages, end), quoted=quoted)


def remove_all(visible: Sequence[Entry], quotable: int) -> RetainedTail:
    """Keep nothing; of a turn that is open the last messages are to be quoted."""
    messages = conversation.group_messages(list(visible))
    nothing = _split_at(messages, len(messages))
    if not waits_for_model(visible):
        return nothing
    last = retain_last_messages(visible, quotable)
    return replace(nothing, quoted=(*last.quoted, *last.retained))


def retain_last_turns(visible: Sequence[Entry], turns: int) -> RetainedTail:
    """Keep the last turns, each from its prompt on; all if there are not more."""
    messages = conversation.group_messages(list(visible))
    starts = [place for place, message in enumerate(messages) if conversation.has_prompt(message)]
    if not 0 < turns < len(starts):
        return _split_at(messages, 0 if turns else len(messages))
    return _split_at(messages, starts[-turns])


def _answer_start(messages: Sequence[ConversationMessage], start: int) -> int:
    """Go back to the beginning of an answer whose later lines would stay."""
    ids = {entry.message_id for message in messages[start:] for entry in message.entries} - {None}
    for place in range(start):
        if any(entry.message_id in ids for entry in messages[place].entries):
            return place
    return start


def _split_at(messages: Sequence[ConversationMessage], start: int) -> RetainedTail:
    leading = _count_leading_results(messages[start].entries) if start < len(messages) else 0
    removed = [entry for message in messages[:start] for entry in message.entries]
    entries = [entry for message in messages[start:] for entry in message.entries]
    away = (*removed, *entries[:leading])
    retained = without_bound_thinking(entries[leading:])
    return RetainedTail(away, retained, start, len(messages) - start)


def without_bound_thinking(retained: Sequence[Entry]) -> tuple[Entry, ...]:
    """Leave out thinking that was bound to what stood before the `retained` lines."""
    if _retains_thinking(retained):
        return tuple(retained)
    return tuple(entry for entry in retained if not conversation.only_thinks(entry))


def _count_leading_results(entries: Sequence[Entry]) -> int:
    """Count the entries with results of earlier calls before a prompt in the same message.

    A prompt that follows a result, as after an interruption, is sent in one message with it.
    """
    answers = [n for n, entry in enumerate(entries, 1) if any(map(is_result, entry.parts))]
    return answers[-1] if answers and any(map(conversation.has_prompt, entries)) else 0


def _retains_thinking(retained: Sequence[Entry]) -> bool:
    """Whether thinking is retained: if a call is open and the model does not bind thinking.

    Of a model that binds it nothing is retained that the open turn's thinking belongs to.
    """
    model = next((each.model for each in reversed(retained) if each.model), None)
    return not conversation.binds_thinking(model) and waits_for_model(retained)
