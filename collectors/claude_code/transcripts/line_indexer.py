"""Turns a transcript's lines into records; only lines that need it are decoded whole."""

from collections.abc import Callable
from typing import Final

import msgspec

from ....core.model.transcript_records import FileKind, SourceFile, TranscriptRecords, TurnState
from ....core.summaries.mentions import strip_pasted_text
from ....core.summaries.session_rules import RULE_ATTACHMENTS
from ....core.transcript import line_types
from ....core.transcript.authorship import CLIENT_TEXT, PROMPT_AUTHORS, line_author
from ....core.transcript.lenient_json import NotJsonError, UnexpectedShapeError, repair_line
from ....core.transcript.line_decoder import (
    COMPACT_BOUNDARY,
    END_OF_TURN,
    SYNTHETIC_MODEL,
    RawBlock,
    TranscriptLine,
    WorktreeSession,
    decode_attachment,
    decode_line,
    decode_optional,
    decode_string,
    decode_value,
    join_texts,
    message_blocks,
)
from ....core.transcript.line_types import LineGlance, MessageGlance
from ....core.transcript.raw_lines import LINE_PADDING
from ....core.transcript.reported_usage import name_answer
from ....core.transcript.sanitize import has_visible_text, sanitize_long_title, sanitize_title
from ....core.transcript.titles import command_prompt, message_title, prompt_title
from ..tail import LineBlock
from . import agent_results, client_output, turn_tracking
from .api_requests import REQUEST_TYPE, read_request_line, read_request_part
from .fact_builder import FactBuilder
from .stated_rules import read_attached_rules, read_persons_rules


def _index_answer(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    blocks = message_blocks(line)
    for block in blocks:
        if block.type == "tool_use":
            builder.add(agent_results.read_launch(offset, line, block))
            if not builder.is_sidechain(line):
                builder.add(agent_results.read_plan(offset, line, block))
    if builder.is_agent:
        builder.add_reply(offset, line, blocks)
        if line.message and line.message.stop_reason == END_OF_TURN:
            builder.turns.end_turn(offset, line.timestamp)


def _index_user_line(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    builder.add_fork(line)
    if line.is_compact_summary:
        builder.add(agent_results.read_compaction_summary(offset, line))
        return
    if line.replaces_span:
        return
    blocks = message_blocks(line)
    returns = agent_results.read_returns(offset, line, blocks, is_agent=builder.is_agent)
    if returns:
        builder.add(*returns)
        builder.turns.set_turn(TurnState.ASKED, offset, line.timestamp)
        if not builder.is_sidechain(line):
            _add_message_title(builder, blocks)
    elif line.is_meta and builder.is_agent:
        builder.add(client_output.read_agent_meta_line(offset, line))
    elif builder.is_sidechain(line):
        return
    elif line.is_meta:
        builder.add(
            client_output.read_stop_block(offset, line)
            or client_output.read_repeated_context_report(offset, line)
        )
    else:
        _index_prompt(builder, offset, line, blocks)


def _index_prompt(
    builder: FactBuilder, offset: int, line: TranscriptLine, blocks: list[RawBlock]
) -> None:
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    sent = [text for text in texts if not CLIENT_TEXT.match(text)]
    # So begins the line that the client writes when a person interrupts it.
    if any(text.startswith("[Request interrupted") for text in texts):
        builder.turns.set_turn(TurnState.OVER, offset, line.timestamp)
    elif sent:
        builder.turns.set_turn(TurnState.ASKED, offset, line.timestamp)
    builder.set_model(
        offset, client_output.read_model_choice(blocks[0].text or "") if blocks else ""
    )
    if builder.is_agent and blocks:
        builder.session.setdefault("prompt", agent_results.prompt_key(join_texts(blocks)))
    author = line_author(line, builder.unread)
    if sent and author in PROMPT_AUTHORS:
        if not builder.is_agent:
            builder.add(*read_persons_rules(offset, line, author, sent))
        text = strip_pasted_text(sent[0])
        if has_visible_text(text):
            builder.session.setdefault("first_prompt", text)
            _add_prompt(builder, line, text)
    elif command := command_prompt(texts[0] if texts else ""):
        _add_prompt(builder, line, command)
    else:
        _add_message_title(builder, blocks)


def _add_message_title(builder: FactBuilder, blocks: list[RawBlock]) -> None:
    """Add what a message is about that is no prompt: a session may begin with it, and have none."""
    if "message_title" in builder.session:
        return
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    # What else the client says, as `Caveat: `, is about no task.
    told = (each for each in texts if each.lstrip()[:1] == "<" or not CLIENT_TEXT.match(each))
    if title := next(filter(None, map(message_title, told)), ""):
        builder.session["message_title"] = title


def _add_prompt(builder: FactBuilder, line: TranscriptLine, text: str) -> None:
    at, newest_at = line.at, builder.session.get("prompt_at")
    # /branch appends old messages again, behind the new ones.
    if newest_at is None or (at is not None and at >= newest_at):
        # Most give way to the next one: the builder sanitizes the last.
        builder.session["last_prompt"] = text
        builder.session["prompt_at"] = at
        if line.git_branch and line.git_branch != DETACHED_HEAD:
            builder.session["git_branch"] = line.git_branch
    if "prompt_title" not in builder.session and (title := prompt_title(text)):
        builder.session["prompt_title"] = title


DETACHED_HEAD: Final = "HEAD"  # the client's name of the branch where none is checked out

REWIND_MARKER: Final = "compact_boundary of a rewind"
STOP_HOOK_SUMMARY: Final = "stop_hook_summary"

_SYSTEM_READERS: Final[dict[str, Callable[[int, TranscriptLine], msgspec.Struct | None]]] = {
    COMPACT_BOUNDARY: client_output.read_boundary,
    "microcompact_boundary": client_output.read_microcompaction,
    "local_command": client_output.read_context_report,
}


def _index_system_line(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    subtype = line.subtype or "without subtype"
    if subtype == COMPACT_BOUNDARY and line.is_rewind_marker:
        builder.count_type(f"system/{REWIND_MARKER}", known=True)
        return
    reader = _SYSTEM_READERS.get(subtype)
    record = reader(offset, line) if reader else None
    if subtype == COMPACT_BOUNDARY:
        builder.uncounted.measure_at_boundary()
    runs = client_output.read_hook_runs(offset, line) if subtype == STOP_HOOK_SUMMARY else []
    builder.add(record, *runs)
    if not (record or runs):
        builder.count_type(f"system/{subtype}", known=subtype in line_types.IGNORED_SYSTEM)


_READ_ATTACHMENTS: Final = frozenset(
    {"model", "queued_command", "teammate_mailbox", *client_output.NOTE_ATTACHMENTS}
)
"""Of others only the type is needed."""


def _index_attachment(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    # All of it: what is read later has no place for lines that cannot be.
    value, _ = decode_value(line.attachment), decode_value(line.rendered)
    kind = value.get("type") if type(value) is dict else None
    attachment = None
    if type(kind) is not str or kind in _READ_ATTACHMENTS or "identity" in value:
        attachment = decode_attachment(line)
        kind = attachment.type if attachment else None
    kind = kind or "without type"
    if attachment and kind in {"queued_command", "teammate_mailbox"}:
        builder.add(
            *agent_results.read_queued_returns(offset, line, attachment, is_agent=builder.is_agent)
        )
    elif attachment and kind == "model":
        builder.set_model(offset, attachment.identity.model_id if attachment.identity else None)
    elif (
        attachment
        and kind in client_output.NOTE_ATTACHMENTS
        and (note := client_output.read_memory_note(offset, line, attachment))
    ):
        builder.add(note)
    else:
        builder.count_type(f"attachment/{kind}", known=kind in line_types.IGNORED_ATTACHMENTS)
    if kind in RULE_ATTACHMENTS and not builder.is_agent and not builder.is_sidechain(line):
        builder.add(*read_attached_rules(offset, line, builder.transcript_path))


def _index_title(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    noted = strip_pasted_text(line.last_prompt or "")
    titles = {
        "custom_title": line.custom_title,
        "ai_title": line.ai_title,
        "last_prompt": noted,
        "noted_prompt": noted,  # it counts behind whatever prompts are written again before it
        "summary_title": None if line.leaf_uuid else line.summary,
    }
    for name, value in titles.items():
        if value and (title := sanitize_long_title(value)):
            builder.session[name] = title
    if line.leaf_uuid and line.summary and (title := sanitize_long_title(line.summary)):
        builder.leaf_titles[sanitize_title(line.leaf_uuid)] = title


def _index_progress(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    step = turn_tracking.read_agent_step(offset, line)
    if step:
        builder.add(step)
    else:
        kind = turn_tracking.progress_type(line)
        builder.count_type(f"progress/{kind}", known=kind in line_types.IGNORED_PROGRESS)


def _index_queue_operation(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    returns = agent_results.read_notification(offset, line, decode_string(line.content))
    builder.add(*returns)
    if not returns:
        builder.ignored["queue-operation"] += 1


def _index_workflow_line(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    is_journal = builder.source.kind is FileKind.JOURNAL
    returns = agent_results.read_workflow_result(offset, line) if is_journal else ()
    builder.add(*returns)
    if not returns:
        builder.unknown[sanitize_title(line.type or "")] += 1


def _index_worktree(builder: FactBuilder, _: int, line: TranscriptLine) -> None:
    entered = decode_optional(line.worktree_session, WorktreeSession)
    # Null once the session has left it: the lines' folder says so, too.
    if entered and entered.worktree_path and entered.original_cwd:
        builder.session |= {
            "worktree": entered.worktree_path,
            "worktree_owner": entered.original_cwd,
        }


def _index_relocation(builder: FactBuilder, _: int, line: TranscriptLine) -> None:
    if line.relocated_cwd:
        builder.session["moved_to"] = line.relocated_cwd


LINE_INDEXERS: Final[dict[str, Callable[[FactBuilder, int, TranscriptLine], None]]] = {
    "system": _index_system_line,
    "attachment": _index_attachment,
    "custom-title": _index_title,
    "ai-title": _index_title,
    "last-prompt": _index_title,
    "summary": _index_title,
    "progress": _index_progress,
    "queue-operation": _index_queue_operation,
    "result": _index_workflow_line,
    "failed": _index_workflow_line,
    "cost-state": lambda builder, offset, line: builder.set_cost(offset, line.total_cost),
    "worktree-state": _index_worktree,
    "relocated": _index_relocation,
    "derived-from": lambda builder, _, line: builder.add_fork(line),
}
"""By type, for lines that are not messages."""


_OPEN, _CLOSE = _EMPTY = b"{}"
_TYPE: Final = b"t"
_JSON_SPACE: Final = b" \t\r"


def index_block(
    source: SourceFile, block: LineBlock, transcript_path: str = ""
) -> TranscriptRecords:
    """Index whole lines; the same lines give the same records, however they are cut into blocks.

    `transcript_path` tells which memory files are the project's and the person's own.
    """
    builder = FactBuilder(source, transcript_path, at_file_start=block.offset == 0)
    _index_lines(builder, block)
    if builder.is_agent:
        builder.add(*client_output.find_markers(block.data, block.offset, block.size))
    return builder.build()


def _index_lines(builder: FactBuilder, block: LineBlock) -> None:
    data, first, end = block.data, block.offset, block.size
    view, find = memoryview(data), data.find
    match_type, glance = line_types.LEADING_TYPE.match, line_types.glance_unchecked
    position = lines = 0
    while position < end:
        stop = find(b"\n", position, end)
        if stop < 0:
            # The last line of a file may have no line end.
            stop = end
        if data[position] == _OPEN and data[stop - 1] == _CLOSE:
            lines += 1
            line = view[position:stop]
            # Only lines that are not messages begin with their type.
            head = match_type(line) if data[position + 2 : position + 3] == _TYPE else None
            if not head or not _index_by_type(builder, first + position, line, head[1]):
                try:
                    _index_line(builder, first + position, line, glance(line))
                except (ValueError, RecursionError):
                    _index_repaired(builder, first + position, bytes(line))
        # A crash can leave NUL bytes where a line was to be (claude-code-formats 1.7).
        elif text := data[position:stop].strip(LINE_PADDING):
            lines += 1
            _index_repaired(builder, first + position, text)
        position = stop + 1
    builder.lines += lines


def _index_by_type(builder: FactBuilder, offset: int, line: memoryview, kind: bytes) -> bool:
    """Index a line by its leading type alone; False if the whole line must be parsed."""
    if kind in line_types.SKIPPED_TYPES:
        builder.ignored[kind.decode()] += 1
        return True
    if not kind.startswith(REQUEST_TYPE):
        return False
    record = (
        read_request_line(offset, line) if kind == REQUEST_TYPE else None
    ) or read_request_part(offset, line)
    builder.add(record)
    return record is not None


def _index_repaired(builder: FactBuilder, offset: int, line: bytes) -> None:
    """Index a line that may be invalid JSON: repair it, or record it as a bad line."""
    builder.uncounted.forget(offset)
    try:
        try:
            _index_line(builder, offset, memoryview(line), line_types.glance(line))
        except NotJsonError:
            builder.uncounted.forget(offset)
            repaired = repair_line(line)
            _index_line(builder, offset, memoryview(repaired), line_types.glance(repaired))
    except NotJsonError as error:
        builder.add_bad_line(offset, line, f"not JSON: {error}")
    except UnexpectedShapeError as error:
        left_out = _index_readable_fields(builder, offset, line)
        builder.add_bad_line(offset, line, f"unexpected shape: {error}{left_out}")


def _index_readable_fields(builder: FactBuilder, offset: int, line: bytes) -> str:
    """Index what can be read of a line; return what that left out, or "" if nothing can."""
    try:
        builder.uncounted.forget(offset)
        readable, builder.unread = line_types.without_unreadable_fields(line)
        unread = builder.unread
        _index_line(builder, offset, memoryview(readable), line_types.glance(readable))
    except (NotJsonError, UnexpectedShapeError):
        return ""
    finally:
        builder.unread = ()
    return f"; read without {', '.join(unread)}"


def _index_line(builder: FactBuilder, offset: int, line: memoryview, seen: LineGlance) -> None:
    builder.seen.append(seen)
    kind, message, is_sidechain, cwd = seen.type, seen.message, seen.is_sidechain, seen.cwd
    if cwd and cwd != builder.chain_cwd:
        if not (builder.is_agent or is_sidechain):
            builder.add_folder(cwd, seen)
        builder.has_folder = True
    if seen.forked_from and "forked_from" not in builder.session:
        builder.add_fork(decode_line(line))
    if is_sidechain and not builder.is_agent:
        builder.add(turn_tracking.read_sidechain_line(offset, decode_line(line)))
    if kind == "assistant" and message:
        _index_assistant(builder, offset, line, seen, message)
    elif kind == "user" and message:
        _index_user(builder, offset, line, seen, message)
    else:
        _index_other(builder, offset, line, seen)


# Looking up a member takes longer than a line's other steps.
_RESULT: Final = TurnState.RESULT
_ANSWERED: Final = TurnState.ANSWERED


def _index_user(
    builder: FactBuilder, offset: int, line: memoryview, seen: LineGlance, message: MessageGlance
) -> None:
    is_result = line_types.starts_with_tool_result(message)
    is_sidechain = seen.is_sidechain and not builder.is_agent
    if not is_sidechain:
        builder.uncounted.add(offset, line, message)
        if is_result:
            builder.turns.add_results(message)
            builder.turns.begin_line(_RESULT, offset, seen.timestamp)
    if not is_result or line_types.has_agent_result(seen) or seen.is_compact_summary:
        _index_user_line(builder, offset, decode_line(line))
    elif not is_sidechain and line_types.has_failed_result(message):
        # The calls that were meant to start agents are among these.
        builder.failed_calls += agent_results.read_failed_calls(offset, decode_line(line))


def _index_assistant(
    builder: FactBuilder, offset: int, line: memoryview, seen: LineGlance, message: MessageGlance
) -> None:
    name_answer(message, seen)
    is_sidechain = not builder.is_agent and seen.is_sidechain is True
    if seen.is_api_error_message or message.model == SYNTHETIC_MODEL:
        refusal = client_output.read_refusal(offset, decode_line(line))
        builder.add(refusal)
        if refusal is None:
            builder.ignored["assistant/synthetic"] += 1
        elif not is_sidechain:
            builder.turns.set_turn(TurnState.OVER, offset, seen.timestamp)
        return
    blocks = line_types.read_answer_blocks(message)
    calls = blocks.calls
    if not is_sidechain:
        exact = not builder.is_agent and turn_tracking.has_exact_output(seen.version)
        if seen.is_unmetered:
            builder.uncounted.add(offset, line)
        else:
            builder.uncounted.add_answer(offset, None if exact else line, message.id)
        builder.turns.begin_line(_ANSWERED, offset, seen.timestamp)
        if calls:
            builder.turns.add_calls(offset, line, calls)
    if not seen.is_unmetered:
        builder.answers.add(offset, seen, message, blocks, sidechain=is_sidechain)
    if builder.is_agent or (
        calls and not line_types.FULLY_DECODED_TOOLS.isdisjoint([call.name for call in calls])
    ):
        _index_answer(builder, offset, decode_line(line))


def _index_other(builder: FactBuilder, offset: int, line: memoryview, seen: LineGlance) -> None:
    if not seen.type and bytes(line).translate(None, _JSON_SPACE) == _EMPTY:
        raise UnexpectedShapeError("an object without fields")
    kind = seen.type or "no type"
    # A request holds some lines of these two types besides its messages.
    if kind in {"attachment", "system"} and (builder.is_agent or not seen.is_sidechain):
        builder.uncounted.add(offset, line)
    index = LINE_INDEXERS.get(kind)
    if index:
        index(builder, offset, decode_line(line))
    elif kind in {"assistant", "user"}:
        builder.unknown[f"{kind} without a message"] += 1
    else:
        builder.count_type(kind, known=kind in line_types.IGNORED_TYPES)
