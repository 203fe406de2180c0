"""What no strategy may change, and the reason for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from ..summaries.artifacts import TODO_TOOLS
from ..transcript.conversation import Entry, PartKind, Role, last_boundary
from ..transcript.parent_chain import retained_uuids
from ..transcript.visible_messages import is_call
from .plan import DEFAULT_OPTIONS, PlanOptions, ProtectedTokens
from .transcript_view import VisibleBlock

NEWEST_TURNS: Final = "newest turns"
"""The reason of what stands at the end: rule T alone goes past it."""

UNREAD: Final = "cannot be read"
"""The reason of a line with a field of another kind than any version wrote."""

_PLAN_TOOLS: Final = frozenset({"ExitPlanMode", "EnterPlanMode"})
_QUESTION_TOOLS: Final = frozenset({"AskUserQuestion"})  # tools whose result is what a person said
_INSTRUCTION_TOOLS: Final = frozenset({"Skill", "ToolSearch"})
"""Tools that load what the model works by (DCP and opencode protect skills too)."""

_PLAN_ATTACHMENTS: Final = ("plan_", "todo", "task_")

_KNOWN_TYPES: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})

SESSION_STATE_TYPES: Final = frozenset(
    {
        "permission-mode",
        "mode",
        "last-prompt",
        "ai-title",
        "custom-title",
        "summary",
        "pr-link",
        "worktree-state",
        "content-replacement",
        "tag",
        "agent-name",
    }
)
"""Lines in which the client keeps what a session is; losing one can make a resume hang (2.3)."""


def mark_protected(
    blocks: Sequence[VisibleBlock], retained_uuids: set[str], options: PlanOptions = DEFAULT_OPTIONS
) -> list[VisibleBlock]:
    """Return the blocks with the reason why each is protected, None for the others.

    `retained_uuids` are the uuids that a boundary retains.
    """
    head, tail = _first_answer(blocks), _tail_start(blocks, options)
    todo = _last_todo_call(blocks)
    return [
        replace(
            slot,
            protected_reason="first prompt"
            if slot.index < head
            else _protection_reason(slot, retained_uuids, todo)
            or (NEWEST_TURNS if slot.index >= tail else None),
        )
        for slot in blocks
    ]


def sum_protected_tokens(blocks: Iterable[VisibleBlock]) -> tuple[ProtectedTokens, ...]:
    """Add up the tokens that stay, by the reason, the largest first."""
    found: Counter[str] = Counter()
    for slot in blocks:
        if slot.protected_reason is not None:
            found[slot.protected_reason] += slot.tokens
    return tuple(ProtectedTokens(why, tokens) for why, tokens in found.most_common() if tokens)


def find_protected_lines(
    entries: Sequence[Entry], types: Iterable[tuple[int, str]]
) -> dict[int, str]:
    """Return why lines stay byte for byte, by number; `types` are all lines' numbers and types."""
    kept = retained_uuids(entries)
    found = {each.line: "kept by a compaction" for each in entries if each.uuid in kept}
    last = last_boundary(entries)
    found |= {each.line: UNREAD for each in entries if each.unread_fields}
    found |= {each.line: "boundary" for each in entries if each.boundary}
    if last is not None:
        found |= {
            each.line: "summary" for each in entries if each.line > last.line and _is_summary(each)
        }
    return found | {
        number: "session's state" for number, type_ in types if type_ in SESSION_STATE_TYPES
    }


def _protection_reason(
    block: VisibleBlock, retained_uuids: set[str], last_todo: str | None
) -> str | None:
    """Return why a block is protected regardless of its position; None if it is not."""
    piece, entry = block.part, block.entry
    if entry.uuid in retained_uuids:
        return "kept by a compaction"
    if entry.unread_fields:
        return UNREAD
    if entry.type not in _KNOWN_TYPES:
        return "unknown type"
    if piece.kind in _ALWAYS_PROTECTED:
        return _ALWAYS_PROTECTED[piece.kind]
    if piece.failed:
        return "error"
    if piece.kind is PartKind.ATTACHMENT:
        return "plan or todos" if piece.name.startswith(_PLAN_ATTACHMENTS) else None
    if piece.kind is PartKind.META:
        return None if _is_command_output(piece.text, piece.name) else "instructions"
    return _tool_protection(block, last_todo)


_ALWAYS_PROTECTED: Final = {
    PartKind.PROMPT: "user's words",
    PartKind.SUMMARY: "summary",
    PartKind.AGENT_RETURN: "agent's result",
}


def _tool_protection(block: VisibleBlock, last_todo: str | None) -> str | None:
    name = block.part.name
    if name in _PLAN_TOOLS:
        return "plan"
    if name in _QUESTION_TOOLS:
        return "user's words"
    if name in _INSTRUCTION_TOOLS:
        return "instructions"
    if name == "TodoWrite":
        return "todos" if block.call_id == last_todo else None
    return "todos" if name in TODO_TOOLS else None


def _is_command_output(text: str, name: str) -> bool:
    """Whether a text is a command's output and not an instruction to the model."""
    return name == "local_command" or text.startswith(("<local-command-stdout>", "<bash-stdout>"))


def _first_answer(blocks: Sequence[VisibleBlock]) -> int:
    """Return the index of the first answer; all blocks before it are protected."""
    answers = (each.index for each in blocks if each.entry.role is Role.ASSISTANT)
    return next(answers, len(blocks))


def _tail_start(blocks: Sequence[VisibleBlock], options: PlanOptions) -> int:
    """Return the index of the first protected block at the end.

    The newest turns, the newest tokens and the last prompt set it together.
    """
    prompt = max((each.index for each in blocks if each.part.kind is PartKind.PROMPT), default=0)
    task = max(prompt, _tokens_start(blocks, options.max_task_tokens))
    return min(
        task,
        _turns_start(blocks, options.min_turns),
        _tokens_start(blocks, options.min_tail_tokens),
    )


def _turns_start(blocks: Sequence[VisibleBlock], min_turns: int) -> int:
    first: dict[str | None, int] = {}
    for slot in blocks:
        if is_call(slot.part):
            first.setdefault(slot.entry.message_id or slot.entry.uuid, slot.index)
    starts = sorted(first.values())
    if not min_turns:
        return len(blocks)
    return starts[-min_turns] if len(starts) >= min_turns else 0


def _tokens_start(blocks: Sequence[VisibleBlock], min_tokens: int) -> int:
    for slot in reversed(blocks):
        if min_tokens <= 0:
            return slot.index + 1
        min_tokens -= slot.tokens
    return 0


def _last_todo_call(blocks: Sequence[VisibleBlock]) -> str | None:
    calls = [
        each.call_id for each in blocks if is_call(each.part) and each.part.name == "TodoWrite"
    ]
    return calls[-1] if calls else None


def _is_summary(entry: Entry) -> bool:
    return any(piece.kind is PartKind.SUMMARY for piece in entry.parts)
