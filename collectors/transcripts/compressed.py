"""What an agent's transcript tells of compressed results: markers, blocks, skills it was given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ...core.compliance.lines import MARKER
from ...core.last_line import AROUND
from ...core.store.compliance_facts import FeedbackFact, MarkerFact, MarkerOrigin, SkillFact
from ..clean import clean_text, clean_title
from ..times import to_ms
from .line_types import FIRST_KEY
from .lines import NotJsonError, ShapeError, decode_blocks, decode_line, mend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .gathered import Gathered
    from .lines import Line

MARK: Final = MARKER.encode()

FEEDBACK: Final = re.compile(r"(?:Subagent)?Stop hook feedback:\s*")
"""How the client begins what a hook says to an agent that wanted to stop (claude-code-live)."""

SKILL: Final = re.compile(r"<command-name>/?([^<]{1,200})</command-name>")
"""How the client names a skill whose text it gives to an agent (claude-code-live)."""

SKILL_BODY: Final = "Base directory for this skill:"


def read_meta(builder: Gathered, offset: int, line: Line) -> None:
    """Note in an agent's file that it was blocked, or which skill it was given."""
    blocks = decode_blocks(line.message.content) if line.message else []
    who = line.uuid or f"at {offset}"
    for block in blocks:
        text = block.text or ""
        if found := FEEDBACK.match(text):
            said = clean_text(text[found.end() :].strip())
            builder.feedback.append(FeedbackFact(offset, who, to_ms(line.timestamp), said))
            return
        if skill := SKILL.search(text):
            name = clean_title(skill[1])
            builder.skills.append(SkillFact(offset, who, to_ms(line.timestamp), name))
            return


def find_markers(data: bytes, first: int, size: int) -> Iterator[MarkerFact]:
    """Find the lines of an agent's file that hold the marker, as a grep would, and what they are.

    `first` is where the data stands in its file; a line that cannot be read is passed over,
    since it is set aside where it is read.
    """
    place = data.find(MARK, 0, size)
    while place >= 0:
        begin = data.rfind(b"\n", 0, place) + 1
        end = data.find(b"\n", place, size)
        end = size if end < 0 else end
        if found := _read(first + begin, data[begin:end].strip(AROUND)):
            yield found
        place = data.find(MARK, end, size)


def _read(offset: int, data: bytes) -> MarkerFact | None:
    try:
        try:
            return _marker(offset, data)
        except NotJsonError:
            return _marker(offset, mend(data))
    except (NotJsonError, ShapeError):
        return None


def _marker(offset: int, data: bytes) -> MarkerFact:
    head = FIRST_KEY.match(data)
    if head and head[1].startswith(b"api-request"):
        return MarkerFact(offset, f"at {offset}", None, MarkerOrigin.REQUEST_COPY)
    line = decode_line(data)
    who, at = line.uuid or f"at {offset}", to_ms(line.timestamp)
    if line.type == "assistant" and line.message:
        blocks = decode_blocks(line.message.content)
        text = "\n".join(block.text or "" for block in blocks if block.type == "text").strip()
        if MARKER in text:
            message = line.message.id or who
            return MarkerFact(offset, who, at, MarkerOrigin.ASSISTANT, message, clean_text(text))
        return MarkerFact(offset, who, at, MarkerOrigin.OTHER)
    return MarkerFact(offset, who, at, _origin(line))


def _origin(line: Line) -> MarkerOrigin:
    if line.type == "attachment":
        kind = line.attachment.type if line.attachment else None
        injected = kind == "hook_additional_context"
        return MarkerOrigin.INJECTED_CONTEXT if injected else MarkerOrigin.OTHER
    if line.type != "user" or line.is_compact_summary or not line.message:
        return MarkerOrigin.OTHER
    blocks = decode_blocks(line.message.content)
    if any(block.type == "tool_result" for block in blocks):
        return MarkerOrigin.TOOL_RESULT
    texts = [block.text or "" for block in blocks]
    if not line.is_meta:
        return MarkerOrigin.TASK_PROMPT
    if any(FEEDBACK.match(text) for text in texts):
        return MarkerOrigin.HOOK_FEEDBACK
    if any(SKILL.search(text) or text.startswith(SKILL_BODY) for text in texts):
        return MarkerOrigin.SKILL_TEXT
    return MarkerOrigin.OTHER
