"""A transcript's lines as facts: what was written, in the order of the file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ..core.store.facts import (
    BadLine,
    BoundaryFact,
    Facts,
    FileKind,
    LaunchFact,
    ReplyFact,
    ResponseFact,
    SessionFact,
)
from . import agent_returns, inner_agents
from .clean import clean_text, clean_title
from .keys import text_key
from .line_types import (
    ATTACHMENTS,
    BULK,
    FIRST_KEY,
    MACHINE_TEXT,
    METADATA,
    PROGRESS,
    SYSTEM,
    TOOLS_THAT_START_AGENTS,
)
from .lines import (
    AgentInput,
    Block,
    Line,
    NotJsonError,
    ShapeError,
    decode_blocks,
    decode_line,
    decode_part,
)
from .links import fork_parent, read_links
from .refusals import read_refusal
from .requests import REQUEST, read_part, read_request
from .times import to_ms
from .usage import read_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..core.store.facts import (
        AsideFact,
        ErrorFact,
        LinkFact,
        PartFact,
        RequestFact,
        ReturnFact,
        SourceFile,
        StepFact,
        TextFact,
    )
    from .tail import RawLine

SYNTHETIC: Final = "<synthetic>"
"""The model of an answer that the client made up: no request, no usage."""


def read_lines(source: SourceFile, lines: Iterable[RawLine]) -> Facts:
    """Read a run of whole lines; the same lines give the same facts, however they are cut."""
    reading = _Reading(source)
    for offset, data in lines:
        reading.read(offset, data)
    return reading.facts()


class _Reading:
    """What has been gathered of one run of lines."""

    def __init__(self, source: SourceFile) -> None:
        self.source: Final = source
        self.lines = 0
        self.opened_at: int | None = None
        self.started_at: int | None = None
        self.last_at: int | None = None
        self.session: dict[str, str] = {}
        self.responses: list[ResponseFact] = []
        self.boundaries: list[BoundaryFact] = []
        self.errors: list[ErrorFact] = []
        self.launches: list[LaunchFact] = []
        self.returns: list[ReturnFact] = []
        self.texts: list[TextFact] = []
        self.replies: list[ReplyFact] = []
        self.asides: list[AsideFact] = []
        self.steps: list[StepFact] = []
        self.links: list[LinkFact] = []
        self.requests: list[RequestFact] = []
        self.parts: list[PartFact] = []
        self.bad: list[BadLine] = []
        self.ignored: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()

    def read(self, offset: int, data: bytes) -> None:
        """Take one line in."""
        self.lines += 1
        head = FIRST_KEY.match(data)
        if head and head[1] in BULK and data.endswith(b"}") and self.opened_at is not None:
            self.ignored[head[1].decode()] += 1
            return
        if data.startswith(b'{"type":"api-request') and self._read_sent(offset, data):
            return
        try:
            line = decode_line(data)
        except NotJsonError as error:
            self.bad.append(BadLine(offset, len(data), clean_title(f"not JSON: {error}")))
            return
        except ShapeError as error:
            self.unknown[clean_title(f"unexpected shape: {error}")] += 1
            return
        self._note_session(offset, line)
        kind = line.type or "no type"
        reader = _READERS.get(kind)
        if reader:
            reader(self, offset, line)
        elif kind in METADATA:
            self.ignored[kind] += 1
        else:
            self.unknown[clean_title(kind)] += 1

    def facts(self) -> Facts:
        """Hand over what was gathered."""
        return Facts(
            lines=self.lines,
            session=SessionFact(
                started_at=self.started_at,
                last_at=self.last_at,
                opened_at=self.opened_at,
                **self.session,
            ),
            responses=tuple(self.responses),
            boundaries=tuple(self.boundaries),
            errors=tuple(self.errors),
            launches=tuple(self.launches),
            returns=tuple(self.returns),
            texts=tuple(self.texts),
            replies=tuple(self.replies),
            asides=tuple(self.asides),
            steps=tuple(self.steps),
            links=tuple(self.links),
            requests=tuple(self.requests),
            parts=tuple(self.parts),
            bad=tuple(self.bad),
            ignored=dict(self.ignored),
            unknown=dict(self.unknown),
        )

    def read_assistant(self, offset: int, line: Line) -> None:
        """Note the answer, the agents that it starts, and an agent's reply."""
        message = line.message
        if message is None:
            self.unknown["assistant without a message"] += 1
            return
        if line.is_api_error_message or message.model == SYNTHETIC:
            self._read_made_up(offset, line)
            return
        blocks = decode_blocks(message.content)
        message_id = message.id or line.uuid or f"at {offset}"
        counts = read_usage(message.usage)
        if counts:
            self.responses.append(
                ResponseFact(
                    offset=offset,
                    message_id=message_id,
                    at=to_ms(line.timestamp),
                    model=clean_title(message.model or ""),
                    input_tokens=counts.usage.input_tokens,
                    cache_creation_tokens=counts.usage.cache_creation_tokens,
                    cache_read_tokens=counts.usage.cache_read_tokens,
                    output_tokens=counts.usage.output_tokens,
                    context_tokens=counts.context_tokens,
                    sidechain=self._is_aside(line),
                    tools=inner_agents.tools_in(blocks),
                    request=text_key(line.request_ref) if line.request_ref else None,
                )
            )
        for block in blocks:
            if block.type == "tool_use":
                self._note_launch(offset, line, block)
        if self.source.kind is FileKind.AGENT:
            self._note_reply(offset, message_id, line, blocks)

    def read_user(self, offset: int, line: Line) -> None:
        """Note a summary, what an agent returned, or a person's prompt."""
        message = line.message
        if message is None:
            self.unknown["user without a message"] += 1
            return
        if line.is_compact_summary:
            self.texts.append(agent_returns.summary_fact(offset, line))
            return
        returned = agent_returns.read_return(offset, line)
        if returned:
            self._note_return(returned)
            return
        if line.is_meta or self._is_aside(line) or "first_prompt" in self.session:
            return
        if line.origin and line.origin.kind not in {None, "human"}:
            return
        prompt = _typed(decode_blocks(message.content))
        if prompt:
            self.session["first_prompt"] = prompt

    def read_system(self, offset: int, line: Line) -> None:
        """Note a compaction."""
        subtype = line.subtype or "without subtype"
        if subtype == "compact_boundary":
            self._note_boundary(offset, line)
        elif subtype in SYSTEM:
            self.ignored[f"system/{subtype}"] += 1
        else:
            self.unknown[clean_title(f"system/{subtype}")] += 1

    def read_attachment(self, offset: int, line: Line) -> None:
        """Note the model's name, and an agent's return that came in the middle of a turn."""
        attachment = line.attachment
        kind = (attachment.type if attachment else None) or "without type"
        if attachment and kind == "queued_command":
            returned = agent_returns.read_queued_return(offset, line, attachment)
            if returned:
                self._note_return(returned)
        elif attachment and kind == "model":
            if attachment.identity and attachment.identity.model_id:
                self.session["model"] = clean_title(attachment.identity.model_id)
        elif kind in ATTACHMENTS:
            self.ignored[f"attachment/{kind}"] += 1
        else:
            self.unknown[clean_title(f"attachment/{kind}")] += 1

    def read_title(self, offset: int, line: Line) -> None:
        """Note what the session is called."""
        for name, value in (
            ("custom_title", line.custom_title),
            ("ai_title", line.ai_title),
            ("summary_title", line.summary),
            ("last_prompt", line.last_prompt),
        ):
            if value and clean_title(value):
                self.session[name] = clean_title(value)

    def read_progress(self, offset: int, line: Line) -> None:
        """Note what an agent did in its parent's file."""
        step = inner_agents.read_step(offset, line)
        kind = inner_agents.progress_kind(line)
        if step:
            self.steps.append(step)
        elif kind in PROGRESS:
            self.ignored[f"progress/{kind}"] += 1
        else:
            self.unknown[clean_title(f"progress/{kind}")] += 1

    def read_queue_operation(self, offset: int, line: Line) -> None:
        """Note an agent's return that waits its turn."""
        returned = agent_returns.read_queue_operation(offset, line)
        if returned:
            self._note_return(returned)
        else:
            self.ignored["queue-operation"] += 1

    def read_journal(self, offset: int, line: Line) -> None:
        """Note what an agent of a workflow returned."""
        is_journal = self.source.kind is FileKind.JOURNAL
        returned = agent_returns.read_journal(offset, line) if is_journal else None
        if returned:
            self._note_return(returned)
        else:
            self.unknown[clean_title(line.type or "")] += 1

    def read_link(self, offset: int, line: Line) -> None:
        """Take a line that says how sessions hang together: all of it is noted already."""

    def _read_sent(self, offset: int, data: bytes) -> bool:
        """Note a request or a part of one, by its head alone; False where it is none."""
        if data.startswith(REQUEST):
            request = read_request(offset, data)
            if request:
                self.requests.append(request)
                return True
        part = read_part(offset, data) if data.endswith(b"}") else None
        if part:
            self.parts.append(part)
        return part is not None

    def _note_return(self, returned: agent_returns.Returned) -> None:
        self.returns.append(returned.fact)
        self.texts.extend(returned.texts)

    def _note_session(self, offset: int, line: Line) -> None:
        at = to_ms(line.timestamp)
        if at is not None:
            self.opened_at = at if self.opened_at is None else self.opened_at
            self.started_at = at if self.started_at is None else min(self.started_at, at)
            self.last_at = at if self.last_at is None else max(self.last_at, at)
        if line.cwd:
            self.session["cwd"] = clean_title(line.cwd)
        links = read_links(offset, line, self.source)
        self.links.extend(links)
        parent = fork_parent(links)
        if parent:
            self.session.setdefault("forked_from", parent)
        if self._is_aside(line):
            aside = inner_agents.read_aside(offset, line)
            if aside:
                self.asides.append(aside)
        if line.version:
            self.session["client_version"] = clean_title(line.version)

    def _is_aside(self, line: Line) -> bool:
        """Say whether a line of a session's file belongs to an agent (clients up to 2.0)."""
        return bool(line.is_sidechain) and self.source.kind is FileKind.SESSION

    def _read_made_up(self, offset: int, line: Line) -> None:
        refusal = read_refusal(offset, line, to_ms(line.timestamp))
        if refusal:
            self.errors.append(refusal)
        else:
            self.ignored["assistant/synthetic"] += 1

    def _note_launch(self, offset: int, line: Line, tool: Block) -> None:
        if tool.name not in TOOLS_THAT_START_AGENTS or tool.id is None:
            return
        asked = decode_part(tool.input, AgentInput) or AgentInput()
        self.launches.append(
            LaunchFact(
                offset=offset,
                tool_use_id=tool.id,
                at=to_ms(line.timestamp),
                agent_type=clean_title(asked.subagent_type or "general-purpose"),
                description=clean_title(asked.description or ""),
                asked_model=clean_title(asked.model) if asked.model else None,
                prompt=inner_agents.prompt_key(asked.prompt) if asked.prompt else None,
            )
        )

    def _note_reply(self, offset: int, message_id: str, line: Line, blocks: list[Block]) -> None:
        text = "\n".join(block.text or "" for block in blocks if block.type == "text").strip()
        if text:
            at = to_ms(line.timestamp)
            self.replies.append(ReplyFact(offset, message_id, at, clean_text(text)))

    def _note_boundary(self, offset: int, line: Line) -> None:
        said = line.compact_metadata
        kept = said.preserved_messages.uuids if said and said.preserved_messages else None
        self.boundaries.append(
            BoundaryFact(
                offset=offset,
                uuid=line.uuid or f"at {offset}",
                at=to_ms(line.timestamp),
                trigger=clean_title(said.trigger) if said and said.trigger else None,
                pre_tokens=said.pre_tokens if said else None,
                post_tokens=said.post_tokens if said else None,
                dropped_tokens=said.cumulative_dropped_tokens if said else None,
                duration_ms=said.duration_ms if said else None,
                kept_messages=None if kept is None else len(kept),
            )
        )


def _typed(blocks: list[Block]) -> str | None:
    for block in blocks:
        if block.type == "text" and block.text and not MACHINE_TEXT.match(block.text):
            return clean_title(block.text) or None
    return None


_READERS: Final[dict[str, Callable[[_Reading, int, Line], None]]] = {
    "assistant": _Reading.read_assistant,
    "user": _Reading.read_user,
    "system": _Reading.read_system,
    "attachment": _Reading.read_attachment,
    "custom-title": _Reading.read_title,
    "ai-title": _Reading.read_title,
    "last-prompt": _Reading.read_title,
    "summary": _Reading.read_title,
    "progress": _Reading.read_progress,
    "queue-operation": _Reading.read_queue_operation,
    "result": _Reading.read_journal,
    "failed": _Reading.read_journal,
    "continued-in": _Reading.read_link,
    "conversation_reset": _Reading.read_link,
    "derived-from": _Reading.read_link,
    "fork-context-ref": _Reading.read_link,
    "history-suppression": _Reading.read_link,
    "relocated": _Reading.read_link,
}
