"""What comes back of an agent: at once, as a notification or a message, or when asked for."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import asdict, replace

from ...core.keys import text_key
from ...core.store.facts import OUTPUT, ReturnFact, TextFact
from ..clean import clean_text, clean_title
from ..times import to_ms
from .line_types import PLAN_TOOL
from .lines import (
    TRUE,
    AgentResult,
    PlanInput,
    TaskResult,
    decode_blocks,
    decode_part,
    decode_value,
    decode_word,
)
from .teammates import FROM_ANOTHER_SESSION, TAG, sayings_in, sayings_of_mail
from .usage import read_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .lines import Attachment, Block, Line, TaskOutput
    from .teammates import Saying

_TRANSCRIPT: Final = re.compile(r"\s*\{\"(?:parentUuid|isSidechain|type)\"")
"""How a whole transcript begins, which some clients give as an agent's output."""

STARTED: Final = frozenset({"async_launched", "remote_launched", "teammate_spawned"})
"""Statuses of a tool result that only says that the agent works elsewhere."""

REJECTED: Final = "rejected"
INTERRUPTED: Final = "interrupted"
CALL_FAILED: Final = "call_failed"
"""Statuses of a return whose tool call failed: whether an agent ran, its own lines tell."""

NOTIFICATION: Final = "<task-notification>"

AGENT_TASKS: Final = frozenset({"local_agent", "remote_agent", "in_process_teammate"})
"""Types of background tasks that are agents; others are shells, workflows and monitors."""

_OTHER_TASKS: Final = ("Background command ", "Monitor ", "Workflow ", "Dynamic workflow ")
"""How the summary begins of a notification that no agent sent (clients 2.1.205 to 2.1.329)."""

_RESUMED: Final = " was resumed by the user"
"""How the summary ends of a notification that an agent is at work again."""

_UNFINISHED: Final = frozenset({"running", "pending"})

_DENIED: Final = frozenset({"user-rejected", "permission-rule"})
_CUT_SHORT: Final = frozenset({"interrupted", "cancelled"})
"""Values of `toolDenialKind`, which clients since about 2.1.2x write."""

_DENIAL: Final = re.compile(
    r"(?:Error: )?(?:The user doesn't want to|User (?:rejected|denied)"
    r"|Permission (?:to use|for this)|Hook PreToolUse|PreToolUse:)"
)
_CUT: Final = re.compile(
    r"(?:Error: )?\[?(?:Request interrupted|Tool call interrupted|Agent call interrupted"
    r"|User aborted|Interrupted)"
)
"""How a tool's error begins by which a person, a rule or a hook refused it, or ended it."""


class Returned(msgspec.Struct, frozen=True):
    """A return and its text, where there is one."""

    fact: ReturnFact
    texts: tuple[TextFact, ...]


def text_fact(offset: int, uuid: str, kind: str, line: Line, text: str, **who: str) -> TextFact:
    """Measure a text as it was written and keep it as it may be shown."""
    stripped = text.strip("\n")
    return TextFact(
        offset=offset,
        uuid=uuid,
        kind=kind,
        agent_id=who.get("agent_id"),
        at=to_ms(line.timestamp),
        text=clean_text(stripped),
        lines=stripped.count("\n") + 1 if stripped else 0,
        chars=len(stripped),
    )


def summary_fact(offset: int, line: Line) -> TextFact:
    """Read what a compaction kept."""
    blocks = decode_blocks(line.message.content) if line.message else []
    text = "\n".join(block.text or "" for block in blocks if block.type == "text")
    return text_fact(offset, line.uuid or f"at {offset}", "boundary", line, text)


def read_plan(offset: int, line: Line, tool: Block) -> TextFact | None:
    """Read a plan that the model shows for approval; a fork's copy of it has the same id."""
    if tool.name != PLAN_TOOL:
        return None
    asked = decode_part(tool.input, PlanInput)
    if asked is None or not (asked.plan or "").strip():
        return None
    uuid = clean_title(tool.id or line.uuid or f"at {offset}")
    return text_fact(offset, uuid, "plan", line, asked.plan or "")


def read_return(offset: int, line: Line) -> Returned | None:
    """Read a user's line that brings an agent's result or says that it was started."""
    result = decode_part(line.tool_use_result, AgentResult)
    agent_id = _agent_of(line, result) if result else None
    if result and agent_id:
        return _read_result(offset, line, result, clean_title(agent_id))
    task = decode_part(line.tool_use_result, TaskResult)
    if task:
        return _read_task(offset, line, task)
    for text in _arrived(line):
        if text.startswith(NOTIFICATION):
            return _read_notification(offset, line, text)
    return None


def read_sayings(offset: int, line: Line) -> list[Returned]:
    """Read what teammates say in a user's line of the session that leads them."""
    said = [saying for text in _arrived(line) for saying in sayings_in(text)]
    return list(_returned(offset, line, said))


def read_queued_return(offset: int, line: Line, attachment: Attachment) -> Returned | None:
    """Read a notification that arrived while the session was at work."""
    for text in _queued_texts(attachment):
        if text.startswith(NOTIFICATION):
            return _read_notification(offset, line, text)
    return None


def read_queued_sayings(offset: int, line: Line, attachment: Attachment) -> list[Returned]:
    """Read what teammates said while the session that leads them was at work."""
    said = [*sayings_of_mail(attachment.messages)]
    said += [saying for text in _queued_texts(attachment) for saying in sayings_in(text)]
    return list(_returned(offset, line, said))


def read_failures(offset: int, line: Line) -> list[ReturnFact]:
    """Read the tool calls of a line that failed, each named by its own id.

    The transcript's reader does not know which of them were to start an agent: the store does.
    """
    blocks = decode_blocks(line.message.content) if line.message else []
    return [
        replace(
            _return_fact(offset, f"failed {name}", name, line, _why_failed(line, block)),
            tool_use_id=name,
        )
        for block in blocks
        if block.is_error == TRUE and (name := clean_title(block.tool_use_id or ""))
    ]


def _why_failed(line: Line, block: Block) -> str:
    if line.tool_denial_kind in _DENIED:
        return REJECTED
    text = "\n".join(each.text or "" for each in decode_blocks(block.content)).strip()
    if line.tool_denial_kind in _CUT_SHORT or _CUT.match(text):
        return INTERRUPTED
    said = decode_word(line.tool_use_result)
    return REJECTED if _DENIAL.match(text) or _DENIAL.match(said) else CALL_FAILED


def _agent_of(line: Line, result: AgentResult) -> str | None:
    named = result.agent_id or result.teammate_id
    if named is None and result.status == "remote_launched":
        # To-do lists and workflows have a `taskId` too, which names no agent.
        named = result.task_id
    if named is None and result.total_tool_use_count is not None:
        # Clients up to 2.0 did not name the agent: its tool call does.
        named = _tool_use_id(line)
    return named


def _arrived(line: Line) -> Iterator[str]:
    """List the texts of a user's line that neither a person nor a channel wrote."""
    if line.origin and line.origin.kind not in {None, "task-notification", "peer", "coordinator"}:
        return
    for block in decode_blocks(line.message.content) if line.message else []:
        if block.text:
            yield block.text


def _queued_texts(attachment: Attachment) -> list[str]:
    prompt = decode_value(attachment.prompt)
    if isinstance(prompt, list):
        return [str(block.get("text", "")) for block in prompt if isinstance(block, dict)]
    return [prompt] if isinstance(prompt, str) else []


def read_queue_operation(offset: int, line: Line) -> Returned | None:
    """Read a notification that waits its turn: where the client ended first, nothing else says it.

    The line that it becomes later says the same, and has the same id.
    """
    text = decode_word(line.content)
    return _read_notification(offset, line, text) if text.startswith(NOTIFICATION) else None


def read_journal(offset: int, line: Line) -> Returned | None:
    """Read a line of a workflow's journal.jsonl that brings an agent's result or its failure."""
    if line.type not in {"result", "failed"} or not line.agent_id:
        return None
    agent_id = clean_title(line.agent_id)
    uuid = f"{agent_id} at {offset}"
    status = "completed" if line.type == "result" else "failed"
    value = decode_value(line.result)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    fact = _return_fact(offset, uuid, agent_id, line, status)
    return _with_text(offset, line, fact, "" if value is None else text)


def _return_fact(offset: int, uuid: str, agent_id: str, line: Line, status: str) -> ReturnFact:
    return ReturnFact(
        offset=offset,
        uuid=uuid,
        agent_id=agent_id,
        tool_use_id=None,
        at=to_ms(line.timestamp),
        status=status,
        model=None,
        context_tokens=None,
        total_tokens=None,
        tool_uses=None,
        duration_ms=None,
    )


def _returned(offset: int, line: Line, said: Iterable[Saying]) -> Iterator[Returned]:
    for place, saying in enumerate(said):
        # One line may bring several messages.
        uuid = f"{line.uuid or f'at {offset}'}{f' {place}' if place else ''}"
        fact = replace(
            _return_fact(offset, uuid, saying.name, line, saying.status), name=saying.name
        )
        yield _with_text(offset, line, fact, saying.text)


def _read_task(offset: int, line: Line, result: TaskResult) -> Returned | None:
    task = result.task
    if task and result.retrieval_status:
        return _read_output(offset, line, task)
    if result.task_id and result.task_type in AGENT_TASKS:
        # TaskStop says no more than what it stopped.
        agent_id = clean_title(result.task_id)
        fact = _return_fact(offset, f"stopped {agent_id}", agent_id, line, "stopped")
        return Returned(fact, ())
    return None


def _read_output(offset: int, line: Line, task: TaskOutput) -> Returned | None:
    """Read what TaskOutput says of an agent that ended; None of one at work or of a shell."""
    ended = task.status and task.status not in _UNFINISHED
    if not (ended and task.task_id and task.task_type in AGENT_TASKS):
        return None
    text = task.result or task.output or ""
    # Asked for twice it is the same result; a resumed agent brings another one.
    agent_id = clean_title(task.task_id)
    uuid = f"{OUTPUT}{agent_id} {text_key(text.strip()) & _UNSIGNED:016x}"
    fact = _return_fact(offset, uuid, agent_id, line, clean_title(task.status or ""))
    fact = replace(fact, tool_use_id=_tool_use_id(line))
    return _with_text(offset, line, fact, "" if _TRANSCRIPT.match(text) else text)


def _with_text(offset: int, line: Line, fact: ReturnFact, text: str) -> Returned:
    if not text.strip():
        return Returned(fact, ())
    return Returned(
        fact, (text_fact(offset, fact.uuid, "agent", line, text, agent_id=fact.agent_id),)
    )


def _tool_use_id(line: Line) -> str | None:
    for block in decode_blocks(line.message.content) if line.message else []:
        if block.type == "tool_result" and block.tool_use_id:
            return block.tool_use_id
    return None


def _read_result(offset: int, line: Line, result: AgentResult, agent_id: str) -> Returned:
    uuid = line.uuid or f"at {offset}"
    spent, context = read_usage(result.usage) if result.usage else (None, None)
    fact = ReturnFact(
        offset=offset,
        uuid=uuid,
        agent_id=agent_id,
        tool_use_id=_tool_use_id(line),
        at=to_ms(line.timestamp),
        status=clean_title(result.status or "completed"),
        model=clean_title(result.resolved_model) if result.resolved_model else None,
        context_tokens=context,
        total_tokens=result.total_tokens,
        tool_uses=result.total_tool_use_count,
        duration_ms=result.total_duration_ms,
        name=clean_title(decode_word(result.name)) or None,
        **(asdict(spent) if spent else {}),
    )
    text = "\n".join(block.text or "" for block in decode_blocks(result.content))
    return _with_text(offset, line, fact, "" if fact.status in STARTED else text)


def _read_notification(offset: int, line: Line, text: str) -> Returned | None:
    agent_id = clean_title(_tag(text, "task-id") or "")
    if not agent_id or not is_from_agent(text):
        return None
    # A user's line, an attachment and a queue-operation may bring the same text: one return.
    uuid = f"notified {text_key(text.strip()) & _UNSIGNED:016x}"
    result, around = _split_result(text)
    usage = _tag(around, "usage") or ""
    fact = ReturnFact(
        offset=offset,
        uuid=uuid,
        agent_id=agent_id,
        tool_use_id=_tag(around, "tool-use-id"),
        at=to_ms(line.timestamp),
        status=clean_title(_tag(around, "status") or "completed"),
        model=None,
        context_tokens=None,
        total_tokens=_count(usage, "subagent_tokens"),
        tool_uses=_count(usage, "tool_uses"),
        duration_ms=_count(usage, "duration_ms"),
    )
    return _with_text(offset, line, fact, result or "")


def brings_result(text: str) -> bool:
    """Whether a text of the user's role is an agent's or a teammate's, to be read by its parent."""
    if text.startswith(NOTIFICATION):
        return is_from_agent(text)
    return text.startswith(FROM_ANOTHER_SESSION) and TAG in text


def is_from_agent(text: str) -> bool:
    """Whether a notification says how an agent ended: shells and monitors send them too."""
    _, around = _split_result(text)
    kind, summary = _tag(around, "task-type"), _tag(around, "summary") or ""
    if kind and kind not in AGENT_TASKS:
        return False
    resumed = _tag(around, "status") is None and summary.endswith(_RESUMED)
    return not (resumed or summary.startswith(_OTHER_TASKS))


_UNSIGNED: Final = (1 << 64) - 1


def _tag(text: str, name: str) -> str | None:
    found = re.search(rf"<{name}>\s*(.*?)\s*</{name}>", text, re.DOTALL)
    return found[1] if found else None


def _split_result(text: str) -> tuple[str | None, str]:
    """Take out all between the first <result> and the last </result>: it may name any tag."""
    start, end = text.find("<result>"), text.rfind("</result>")
    if not 0 <= start < end:
        return None, text
    return text[start + len("<result>") : end], text[:start] + text[end:]


def _count(text: str, name: str) -> int | None:
    found = _tag(text, name)
    # Twelve digits fit the store.
    return int(found) if found and found.isdecimal() and len(found) <= 12 else None
