"""Lines of a transcript that tell of Stop hooks, and of what claude-memory said at a prompt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.saves.blocks import FEEDBACK
from ...core.store.save_facts import NoteFact, StopBlockFact, StopHookFact
from ..clean import clean_text, clean_title
from ..times import to_ms
from .lines import decode_blocks, decode_value

if TYPE_CHECKING:
    from .lines import Attachment, Line

BLOCK_CHARS: Final = 16 * 1024
"""Of a hook's words that are kept; triage data that stands inline has about 4 KB."""

MOST_COMMANDS: Final = 50
"""Of one end of a turn that are named."""

NOTE_KINDS: Final = frozenset({"hook_success", "hook_additional_context"})
"""Attachments in which the words of a hook stand that ran at a prompt."""

_NOTE: Final = re.compile(
    r"<memory-note>\s*"
    r"((?:Memories saved|Pending memory save|Previous session).*?)"
    r"\s*</memory-note>",
    re.DOTALL,
)


def read_stop_block(offset: int, line: Line) -> StopBlockFact | None:
    """Read what a Stop hook kept the session for; None for any other line."""
    blocks = decode_blocks(line.message.content) if line.message else []
    text = (blocks[0].text or "") if blocks else ""
    if not text.startswith(FEEDBACK):
        return None
    return StopBlockFact(
        offset=offset,
        uuid=line.uuid or f"at {offset}",
        at=to_ms(line.timestamp),
        text=clean_text(text[:BLOCK_CHARS]),
        lines=len(text.splitlines()),
        chars=len(text),
    )


def read_stop_hooks(offset: int, line: Line) -> StopHookFact:
    """Read what the client wrote down of its Stop hooks."""
    infos = decode_value(line.hook_infos)
    errors = decode_value(line.hook_errors)
    count = decode_value(line.hook_count)
    ran = [each for each in infos if isinstance(each, dict)] if isinstance(infos, list) else []
    taken = [each["durationMs"] for each in ran if _is_count(each.get("durationMs"))]
    names = [clean_title(str(each.get("command") or "")) for each in ran[:MOST_COMMANDS]]
    return StopHookFact(
        offset=offset,
        at=to_ms(line.timestamp),
        hooks=count if isinstance(count, int) and _is_count(count) else len(ran),
        blocked=len(errors) if isinstance(errors, list) else 0,
        duration_ms=max(taken, default=None),
        commands=msgspec.json.encode(names).decode(),
    )


def read_note(offset: int, line: Line, attachment: Attachment) -> NoteFact | None:
    """Read what the plugin told at a prompt (004-58); None for other hooks' words."""
    for part in (attachment.content, attachment.stdout):
        said = decode_value(part)
        words = "\n".join(map(str, said)) if isinstance(said, list) else said
        found = _NOTE.search(words) if isinstance(words, str) else None
        if found:
            return NoteFact(offset, to_ms(line.timestamp), clean_title(found[1]))
    return None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 40
