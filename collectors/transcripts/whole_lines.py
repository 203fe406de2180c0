"""Lines that are decoded whole: what a person said, what an agent brings, what the client did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.store.facts import FileKind, Turn
from ...core.summaries.names import typed_words
from ..clean import clean_title
from ..times import to_ms
from . import agent_returns, compressed
from .context_report import read_report, read_typed_report
from .in_flight import INTERRUPTED
from .inner_agents import progress_kind, prompt_key, read_aside, read_step
from .line_types import ATTACHMENTS, MACHINE_TEXT, PROGRESS, SYSTEM
from .lines import decode_blocks
from .links import read_links
from .model_choice import read_choice
from .refusals import read_refusal
from .stop_lines import NOTE_KINDS, read_note, read_stop_block, read_stop_hooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from .gathered import Gathered
    from .lines import Block, Line


def read_answer(builder: Gathered, offset: int, line: Line) -> None:
    """Note the agents that an answer starts, its plan, and an agent's reply."""
    blocks = decode_blocks(line.message.content) if line.message else []
    for block in blocks:
        if block.type == "tool_use":
            builder.add_launch(offset, line, block)
            if not builder.is_sidechain(line) and (
                plan := agent_returns.read_plan(offset, line, block)
            ):
                builder.texts.append(plan)
    if builder.is_agent:
        builder.add_reply(offset, line, blocks)


def read_user(builder: Gathered, offset: int, line: Line) -> None:
    """Note a summary, what an agent returned, or a person's prompt."""
    message = line.message
    if message is None:
        return
    builder.add_links(read_links(offset, line, builder.source))
    if line.is_compact_summary:
        builder.texts.append(agent_returns.summary_fact(offset, line))
        return
    returned = agent_returns.read_return(offset, line)
    # What stands in an agent's own file was said to it, not to who started it.
    said = [] if builder.is_agent else agent_returns.read_sayings(offset, line)
    for each in (*([returned] if returned else []), *said):
        builder.add_return(each)
    if returned or said:
        builder.turns.set_turn(Turn.ASKED, offset, line.timestamp)
        return
    if line.is_meta or builder.is_sidechain(line):
        if builder.is_agent:
            compressed.read_meta(builder, offset, line)
        elif not builder.is_sidechain(line) and (block := read_stop_block(offset, line)):
            builder.stop_blocks.append(block)
        elif not builder.is_sidechain(line) and (report := read_typed_report(offset, line)):
            builder.reports.append(report)
        return
    blocks = decode_blocks(message.content)
    _note_turn(builder, offset, line, blocks)
    chosen = read_choice(blocks[0].text or "") if blocks else None
    if chosen:
        builder.session["model"] = chosen
        builder.model_offset = offset
    if builder.is_agent and blocks:
        builder.session.setdefault("prompt", prompt_key(_words(blocks)))
    if "first_prompt" in builder.session or (
        line.origin and line.origin.kind not in {None, "human"}
    ):
        return
    prompt = _typed(blocks)
    if prompt:
        builder.session["first_prompt"] = prompt


def read_failures(builder: Gathered, offset: int, line: Line) -> None:
    """Note tool calls that failed; the calls that were to start agents are among them."""
    if not builder.is_sidechain(line):
        builder.failures.extend(agent_returns.read_failures(offset, line))


def read_system(builder: Gathered, offset: int, line: Line) -> None:
    """Note a compaction, what was cleared without one, or what `/context` said."""
    subtype = line.subtype or "without subtype"
    if subtype == "compact_boundary":
        builder.add_boundary(offset, line)
    elif subtype == "microcompact_boundary":
        builder.add_microcompaction(offset, line)
    elif subtype == "local_command" and (report := read_report(offset, line)):
        builder.reports.append(report)
    elif subtype == "stop_hook_summary":
        builder.stop_hooks.append(read_stop_hooks(offset, line))
    elif subtype in SYSTEM:
        builder.ignored[f"system/{subtype}"] += 1
    else:
        builder.unknown[clean_title(f"system/{subtype}")] += 1


def read_attachment(builder: Gathered, offset: int, line: Line) -> None:
    """Note the model's name, and an agent's return that came in the middle of a turn."""
    attachment = line.attachment
    kind = (attachment.type if attachment else None) or "without type"
    if attachment and kind in {"queued_command", "teammate_mailbox"}:
        returned = agent_returns.read_queued_return(offset, line, attachment)
        said = (
            [] if builder.is_agent else agent_returns.read_queued_sayings(offset, line, attachment)
        )
        for each in (*([returned] if returned else []), *said):
            builder.add_return(each)
    elif attachment and kind == "model":
        if attachment.identity and attachment.identity.model_id:
            builder.session["model"] = clean_title(attachment.identity.model_id)
            builder.model_offset = offset
    elif attachment and kind in NOTE_KINDS and (note := read_note(offset, line, attachment)):
        builder.notes.append(note)
    elif kind in ATTACHMENTS:
        builder.ignored[f"attachment/{kind}"] += 1
    else:
        builder.unknown[clean_title(f"attachment/{kind}")] += 1


def read_title(builder: Gathered, offset: int, line: Line) -> None:
    """Note what the session is called, or another one that a summary names by its last line."""
    for name, value in (
        ("custom_title", line.custom_title),
        ("ai_title", line.ai_title),
        ("last_prompt", typed_words(line.last_prompt or "")),
    ):
        if value and clean_title(value):
            builder.session[name] = clean_title(value)
    title = clean_title(line.summary or "")
    if title and line.leaf_uuid:
        builder.leaf_titles[clean_title(line.leaf_uuid)] = title
    elif title:
        builder.session["summary_title"] = title


def read_progress(builder: Gathered, offset: int, line: Line) -> None:
    """Note what an agent did in its parent's file."""
    step = read_step(offset, line)
    if step:
        builder.steps.append(step)
        return
    kind = progress_kind(line)
    if kind in PROGRESS:
        builder.ignored[f"progress/{kind}"] += 1
    else:
        builder.unknown[clean_title(f"progress/{kind}")] += 1


def read_queue_operation(builder: Gathered, offset: int, line: Line) -> None:
    """Note an agent's return that waits its turn."""
    returned = agent_returns.read_queue_operation(offset, line)
    if returned:
        builder.add_return(returned)
    else:
        builder.ignored["queue-operation"] += 1


def read_journal(builder: Gathered, offset: int, line: Line) -> None:
    """Note what an agent of a workflow returned."""
    is_journal = builder.source.kind is FileKind.JOURNAL
    returned = agent_returns.read_journal(offset, line) if is_journal else None
    if returned:
        builder.add_return(returned)
    else:
        builder.unknown[clean_title(line.type or "")] += 1


def read_cost(builder: Gathered, offset: int, line: Line) -> None:
    """Note the client's running total of what the session cost; an agent's file has none."""
    if line.total_cost is not None:
        builder.cost = offset, line.total_cost


def read_link(builder: Gathered, offset: int, line: Line) -> None:
    """Note how the session hangs together with others."""
    builder.add_links(read_links(offset, line, builder.source))


def read_made_up(builder: Gathered, offset: int, line: Line) -> None:
    """Note an answer that the client made up: a refusal, or nothing that counts."""
    refusal = read_refusal(offset, line, to_ms(line.timestamp))
    if refusal:
        builder.errors.append(refusal)
        if not builder.is_sidechain(line):
            builder.turns.set_turn(Turn.OVER, offset, line.timestamp)
    else:
        builder.ignored["assistant/synthetic"] += 1


def read_aside_line(builder: Gathered, offset: int, line: Line) -> None:
    """Note a line of an agent in its session's own file."""
    aside = read_aside(offset, line)
    if aside:
        builder.asides.append(aside)


def _note_turn(builder: Gathered, offset: int, line: Line, blocks: list[Block]) -> None:
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    if any(text.startswith(INTERRUPTED) for text in texts):
        builder.turns.set_turn(Turn.OVER, offset, line.timestamp)
    elif any(not MACHINE_TEXT.match(text) for text in texts):
        builder.turns.set_turn(Turn.ASKED, offset, line.timestamp)


def _words(blocks: list[Block]) -> str:
    return "\n".join(block.text or "" for block in blocks if block.type == "text")


def _typed(blocks: list[Block]) -> str | None:
    for block in blocks:
        if block.type == "text" and block.text and not MACHINE_TEXT.match(block.text):
            return clean_title(typed_words(block.text)) or None
    return None


READERS: Final[dict[str, Callable[[Gathered, int, Line], None]]] = {
    "system": read_system,
    "attachment": read_attachment,
    "custom-title": read_title,
    "ai-title": read_title,
    "last-prompt": read_title,
    "summary": read_title,
    "progress": read_progress,
    "queue-operation": read_queue_operation,
    "result": read_journal,
    "failed": read_journal,
    "cost-state": read_cost,
    "continued-in": read_link,
    "conversation_reset": read_link,
    "derived-from": read_link,
    "fork-context-ref": read_link,
    "history-suppression": read_link,
    "relocated": read_link,
}
"""Who reads a line of a type that is no message."""
