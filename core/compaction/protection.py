"""What no strategy may change, and the reason for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from ..summaries.artifacts import TODO_TOOLS
from ..transcript.conversation import Entry, PartKind, Role, last_boundary
from ..transcript.visible_messages import is_call, retained_uuids
from .plan import DEFAULT_OPTIONS, PlanOptions, ProtectedTokens
from .transcript_view import FileLine, VisibleBlock

NEWEST_TURNS: Final = "newest turns"
"""The reason for what is at the end: only dropping bound thinking (rule T) goes past it."""

UNREAD: Final = "cannot be read"  # a field is of another type than any version wrote

_PLAN_ATTACHMENTS: Final = ("plan_", "todo", "task_")
_KNOWN_TYPES: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})

_PROTECTED_KINDS: Final = {
    PartKind.PROMPT: "user's words",
    PartKind.SUMMARY: "summary",
    PartKind.AGENT_RETURN: "agent's result",
}

_PROTECTED_TOOLS: Final = dict.fromkeys(TODO_TOOLS, "todos") | {
    "ExitPlanMode": "plan",
    "EnterPlanMode": "plan",
    "AskUserQuestion": "user's words",
    # Both load instructions for the model (DCP and opencode protect skills too).
    "Skill": "instructions",
    "ToolSearch": "instructions",
}

SESSION_STATE_TYPES: Final = frozenset(
    {
        "permission-mode", "mode", "last-prompt", "ai-title", "custom-title", "summary", "pr-link",
        "worktree-state", "content-replacement", "tag", "agent-name",
    }
)  # fmt: skip
"""Lines with the session's own state; losing one can make a resume hang (2.3)."""


def mark_protected(
    blocks: Sequence[VisibleBlock], retained_uuids: set[str], options: PlanOptions = DEFAULT_OPTIONS
) -> list[VisibleBlock]:
    """Return the blocks with the reason why each is protected, None for the others.

    `retained_uuids` are the uuids that a boundary retains.
    """
    answers = (block.index for block in blocks if block.entry.role is Role.ASSISTANT)
    first_answer, tail = next(answers, len(blocks)), _tail_start(blocks, options)
    todo_calls = [
        block.call_id for block in blocks if is_call(block.part) and block.part.name == "TodoWrite"
    ]
    last_todo = todo_calls[-1] if todo_calls else None

    def reason(block: VisibleBlock) -> str | None:
        if block.index < first_answer:
            return "first prompt"
        why = _protection_reason(block, retained_uuids, last_todo)
        return why or (NEWEST_TURNS if block.index >= tail else None)

    return [replace(block, protected_reason=reason(block)) for block in blocks]


def sum_protected_tokens(blocks: Iterable[VisibleBlock]) -> tuple[ProtectedTokens, ...]:
    """Add up the protected tokens by reason, the largest first."""
    sums: Counter[str] = Counter()
    for block in blocks:
        if block.protected_reason is not None:
            sums[block.protected_reason] += block.tokens
    return tuple(ProtectedTokens(why, tokens) for why, tokens in sums.most_common() if tokens)


def find_protected_lines(entries: Sequence[Entry], lines: Iterable[FileLine]) -> dict[int, str]:
    """Return the numbers of the lines that keep every byte, and why."""
    kept = retained_uuids(entries)
    last = last_boundary(entries)
    protected = {each.line: "kept by a compaction" for each in entries if each.uuid in kept}
    protected |= {each.line: UNREAD for each in entries if each.unread_fields}
    protected |= {each.line: "boundary" for each in entries if each.boundary}
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
        return "error"
    if part.kind is PartKind.ATTACHMENT:
        return "plan or todos" if part.name.startswith(_PLAN_ATTACHMENTS) else None
    if part.kind is PartKind.META:
        return None if _is_command_output(part.text, part.name) else "instructions"
    if part.name == "TodoWrite":
        return "todos" if block.call_id == last_todo else None
    return _PROTECTED_TOOLS.get(part.name)


def _is_command_output(text: str, name: str) -> bool:
    """Whether a text is a command's output and not an instruction to the model."""
    return name == "local_command" or text.startswith(("<local-command-stdout>", "<bash-stdout>"))


def _tail_start(blocks: Sequence[VisibleBlock], options: PlanOptions) -> int:
    """Return the index of the first protected block at the end.

    The newest turns, the newest tokens and the last prompt set it together.
    """
    prompt = max((each.index for each in blocks if each.part.kind is PartKind.PROMPT), default=0)
    task = max(prompt, _tokens_start(blocks, options.max_task_tokens))
    turns = _turns_start(blocks, options.min_turns)
    return min(task, turns, _tokens_start(blocks, options.min_tail_tokens))


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
