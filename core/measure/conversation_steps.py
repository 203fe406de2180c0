"""A conversation to read: prompts, answers, and tool calls with their results.

Texts are sanitized and cut here, so a line of any length becomes a step of limited size.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from ..model.conversation import RESULT_KINDS, Entry, MessagePart, PartKind, Role, decode_tool_input
from ..transcript.client_messages import find_tag, split_result
from ..transcript.sanitize import sanitize_text, sanitize_title
from .composition import describe_input

MAX_STEP_CHARS: Final = 20_000  # of a text that is kept: nobody reads more in a list


class StepKind(StrEnum):
    PROMPT = "prompt"
    ANSWER = "answer"
    THINKING = "thinking"
    CALL = "call"
    RESULT = "result"  # of a call; `join_results` adds it to the call, if that is known
    AGENT_RESULT = "agent_result"  # a notification of an agent's end, or a teammate's message
    NOTE = "note"  # the client's own text: a command, its output, a skill
    SUMMARY = "summary"  # what a compaction left
    COMPACTION = "compaction"
    ERROR = "error"  # the API refused


class StepText(msgspec.Struct, frozen=True, gc=False):
    """The start of a text, and the size of all of it."""

    text: str  # sanitized, at most MAX_STEP_CHARS
    lines: int
    chars: int

    @property
    def is_cut(self) -> bool:
        return self.chars > MAX_STEP_CHARS


NO_TEXT: Final = StepText("", 0, 0)


class Step(msgspec.Struct, frozen=True, gc=False):
    """One thing that was said or done; times are milliseconds since 1970 (UTC)."""

    kind: StepKind
    offset: int  # of its transcript line, in bytes
    part: int  # its place among the parts of that line
    body: StepText = NO_TEXT  # the text; of a call, its input
    title: str = ""  # a tool, a command, or what compacted
    subject: str = ""  # one line that tells a call from others of its tool
    uuid: str | None = None
    at: int | None = None
    message_id: str | None = None  # of the answer that it belongs to
    context_tokens: int | None = None  # what the model saw for that answer
    tool_use_id: str | None = None
    failed: bool = False
    result: StepText | None = None  # None while a call has none, and for other kinds
    result_key: tuple[int, int] | None = None  # of its line and part, as `key`
    media: int = 0  # images and documents

    @property
    def result_offset(self) -> int | None:
        return self.result_key[0] if self.result_key else None

    @property
    def key(self) -> tuple[int, int]:
        """Its place in the file: its line and its part."""
        return self.offset, self.part


_STEP_KINDS: Final = {
    PartKind.PROMPT: StepKind.PROMPT,
    PartKind.TEXT: StepKind.ANSWER,
    PartKind.THINKING: StepKind.THINKING,
    PartKind.TOOL_INPUT: StepKind.CALL,
    PartKind.TOOL_RESULT: StepKind.RESULT,
    PartKind.AGENT_RETURN: StepKind.AGENT_RESULT,
    PartKind.SUMMARY: StepKind.SUMMARY,
    PartKind.META: StepKind.NOTE,
}
"""Attachments are left out: the client adds them by itself, and the breakdown lists them."""


def entry_steps(entry: Entry) -> Iterator[Step]:
    """Yield the steps of a transcript line; most have one, and lines of no conversation none."""
    if entry.boundary is not None:
        yield _compaction_step(entry)
    for place, part in enumerate(entry.parts):
        kind = _step_kind(entry, part)
        if kind is not None and (part.text or part.media or kind in _BARE_KINDS):
            yield _part_step(entry, kind, place, part)


_BARE_KINDS: Final = frozenset({StepKind.CALL, StepKind.RESULT})  # shown without any text too


def _step_kind(entry: Entry, part: MessagePart) -> StepKind | None:
    if entry.hidden:
        return StepKind.ERROR
    if part.kind in RESULT_KINDS and part.tool_use_id:
        return StepKind.RESULT
    return _STEP_KINDS.get(part.kind)


def _compaction_step(entry: Entry) -> Step:
    boundary = entry.boundary
    return Step(
        StepKind.COMPACTION,
        entry.offset,
        -1,
        title=boundary.trigger or "" if boundary else "",
        uuid=entry.uuid,
        at=entry.at,
    )


def _part_step(entry: Entry, kind: StepKind, place: int, part: MessagePart) -> Step:
    text = part_text(part)
    is_answer = entry.role is Role.ASSISTANT
    return Step(
        kind,
        entry.offset,
        place,
        excerpt(text),
        title=_title(kind, part, text),
        subject=_subject(kind, part),
        uuid=entry.uuid,
        at=entry.at,
        message_id=entry.message_id if is_answer else None,
        context_tokens=entry.context_tokens if is_answer else None,
        tool_use_id=part.tool_use_id,
        failed=part.failed,
        media=part.media,
    )


def _title(kind: StepKind, part: MessagePart, text: str) -> str:
    if kind is StepKind.NOTE:
        command = find_tag(text[:MAX_STEP_CHARS], "command-name") or ""
        arguments = find_tag(text[:MAX_STEP_CHARS], "command-args") or ""
        return sanitize_title(f"{command} {arguments}" if command else "")
    return sanitize_title(part.name)


def _subject(kind: StepKind, part: MessagePart) -> str:
    if kind is StepKind.CALL:
        return sanitize_title(describe_input(part.text))
    if kind is StepKind.AGENT_RESULT:
        return sanitize_title(find_tag(part.text[:MAX_STEP_CHARS], "summary") or "")
    return ""


def excerpt(text: str) -> StepText:
    if not text:
        return NO_TEXT
    return StepText(sanitize_text(text[:MAX_STEP_CHARS]), text.count("\n") + 1, len(text))


def part_text(part: MessagePart) -> str:
    """Return what a part shows in full; not sanitized."""
    if part.kind is PartKind.TOOL_INPUT:
        return input_text(part.text)
    if part.kind is PartKind.AGENT_RETURN and not part.tool_use_id:
        return split_result(part.text)[0] or part.text
    return part.text


def input_text(text: str) -> str:
    """Write a call's input with one field per line; what is not a JSON object stays as it is."""
    fields = decode_tool_input(text)
    if fields is None:
        return text
    if len(fields) == 1 and isinstance(only := next(iter(fields.values())), str):
        return only
    return "\n".join(f"{name}: {_field_text(value)}" for name, value in fields.items())


def _field_text(value: object) -> str:
    if isinstance(value, str):
        return f"\n{value}" if "\n" in value else value
    return msgspec.json.encode(value).decode("utf-8", "replace")


def join_results(steps: Sequence[Step]) -> Iterator[Step]:
    """Add each result to its call, and leave out lines that were appended again.

    A result whose call is not among the steps stays a step of its own.
    """
    calls = {step.tool_use_id for step in steps if step.kind is StepKind.CALL and step.tool_use_id}
    results = {
        step.tool_use_id: step
        for step in reversed(steps)
        if step.kind is StepKind.RESULT and step.tool_use_id in calls
    }
    seen: dict[tuple[str, int], int] = {}
    for step in steps:
        if step.uuid and seen.setdefault((step.uuid, step.part), step.offset) != step.offset:
            continue
        if step.kind is StepKind.RESULT and step.tool_use_id in calls:
            continue
        result = results.get(step.tool_use_id or "")
        if step.kind is StepKind.CALL and result is not None:
            yield _with_result(step, result)
        else:
            yield step


def _with_result(call: Step, result: Step) -> Step:
    return replace(
        call,
        result=result.body,
        result_key=result.key,
        failed=result.failed,
        media=call.media + result.media,
    )
