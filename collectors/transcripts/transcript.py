"""A transcript's lines as facts: what was written, in the order of the file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ...core.store.facts import (
    BadLine,
    BoundaryFact,
    Facts,
    FileKind,
    LaunchFact,
    ReplyFact,
    SessionFact,
)
from ..clean import clean_path, clean_text, clean_title
from ..tail import AROUND
from ..times import span, to_ms
from . import agent_returns
from .answers import Answers
from .glance import brings_agent, glance_at, is_tool_result, look_at, tool_calls
from .inner_agents import progress_kind, prompt_key, read_aside, read_step, tools_in
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
    Line,
    NotJsonError,
    ShapeError,
    decode_blocks,
    decode_line,
    decode_part,
    mend,
)
from .links import fork_parent, read_links
from .refusals import read_refusal
from .requests import REQUEST, read_part, read_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.store.facts import (
        AsideFact,
        ErrorFact,
        LinkFact,
        LinkKind,
        PartFact,
        RequestFact,
        ReturnFact,
        SourceFile,
        StepFact,
        TextFact,
    )
    from ..tail import Block
    from .glance import Glance, MessageGlance
    from .lines import Block as ContentBlock

_OPEN, _CLOSE, _TYPE = b"{}t"

SYNTHETIC: Final = "<synthetic>"
"""The model of an answer that the client made up: no request, no usage."""


def read_block(source: SourceFile, block: Block) -> Facts:
    """Read whole lines; the same lines give the same facts, however they are cut."""
    reading = _Reading(source)
    reading.read(block)
    return reading.facts()


class _Reading:
    """What has been gathered of one run of lines."""

    def __init__(self, source: SourceFile) -> None:
        self.source: Final = source
        self.is_agent: Final = source.kind is FileKind.AGENT
        self.lines = 0
        self.times: list[str] = []
        self.cwd = self.version = ""
        self.session: dict[str, str] = {}
        self.heard: set[tuple[str | None, str | None, str | None, bool]] = set()
        self.answers: Final = Answers()
        self.boundaries: list[BoundaryFact] = []
        self.errors: list[ErrorFact] = []
        self.launches: list[LaunchFact] = []
        self.returns: list[ReturnFact] = []
        self.texts: list[TextFact] = []
        self.replies: list[ReplyFact] = []
        self.asides: list[AsideFact] = []
        self.steps: list[StepFact] = []
        self.links: dict[tuple[LinkKind, str], LinkFact] = {}
        self.requests: list[RequestFact] = []
        self.parts: list[PartFact] = []
        self.bad: list[BadLine] = []
        self.ignored: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()

    def read(self, block: Block) -> None:
        """Take the lines of a block in, each where it stands."""
        data, first = block.data, block.offset
        view, find = memoryview(data), data.find
        position, end = 0, block.size
        while position < end:
            stop = find(b"\n", position)
            if data[position] == _OPEN and data[stop - 1] == _CLOSE:
                self.lines += 1
                line = view[position:stop]
                # Only what is no message names its type first.
                head = FIRST_KEY.match(line) if data[position + 2] == _TYPE else None
                if not head or not self._take_by_head(first + position, line, head[1]):
                    try:
                        self._take(first + position, line, glance_at(line))
                    except (
                        msgspec.DecodeError,
                        NotJsonError,
                        ShapeError,
                        ValueError,
                        RecursionError,
                    ):
                        self._read_odd(first + position, bytes(line))
            else:
                # A crash can leave NUL bytes where a line was to be (claude-code-formats 1.7).
                text = data[position:stop].strip(AROUND)
                if text:
                    self.lines += 1
                    self._read_odd(first + position, text)
            position = stop + 1

    def _take_by_head(self, offset: int, line: memoryview, kind: bytes) -> bool:
        """Take a line that is known by its head alone; False where it has to be looked into."""
        if kind in BULK:
            self.ignored[kind.decode()] += 1
            return True
        if not kind.startswith(REQUEST):
            return False
        request = read_request(offset, line) if kind == REQUEST else None
        part = None if request else read_part(offset, line)
        if request:
            self.requests.append(request)
        elif part:
            self.parts.append(part)
        return bool(request or part)

    def _read_odd(self, offset: int, line: bytes) -> None:
        """Take a line that may be no strict JSON, or none at all."""
        try:
            try:
                self._take(offset, memoryview(line), look_at(line))
            except NotJsonError:
                mended = mend(line)
                self._take(offset, memoryview(mended), look_at(mended))
        except NotJsonError as error:
            self._set_aside(offset, line, f"not JSON: {error}")
        except ShapeError as error:
            self._set_aside(offset, line, f"unexpected shape: {error}")

    def _set_aside(self, offset: int, line: bytes, reason: str) -> None:
        self.bad.append(BadLine(offset, len(line), clean_title(reason)))

    def _take(self, offset: int, line: memoryview, seen: Glance) -> None:
        stamp, cwd, version = seen.timestamp, seen.cwd, seen.version
        if stamp:
            self.times.append(stamp)
        if cwd:
            self.cwd = cwd
        if version:
            self.version = version
        if seen.session_id != self.source.session_id or seen.lineage or seen.forked_from:
            self._note_links(offset, line, seen)
        if seen.is_sidechain and not self.is_agent:
            self._note_aside(offset, decode_line(line))
        kind, message = seen.type, seen.message
        if kind == "assistant" and message:
            self._take_assistant(offset, line, seen, message)
        elif kind == "user" and message:
            if not is_tool_result(message) or brings_agent(seen) or seen.is_compact_summary:
                self._read_user(offset, decode_line(line))
        else:
            self._take_other(offset, line, seen)

    def _take_assistant(
        self, offset: int, line: memoryview, seen: Glance, message: MessageGlance
    ) -> None:
        if seen.is_api_error_message or message.model == SYNTHETIC:
            self._read_made_up(offset, decode_line(line))
            return
        calls = tool_calls(message)
        aside = not self.is_agent and seen.is_sidechain is True
        tools = tools_in(calls) if calls else ""
        self.answers.add(offset, seen, message, sidechain=aside, tools=tools)
        if self.is_agent or (calls and any(call.name in TOOLS_THAT_START_AGENTS for call in calls)):
            self._read_answer(offset, decode_line(line))

    def _take_other(self, offset: int, line: memoryview, seen: Glance) -> None:
        kind = seen.type or "no type"
        reader = _READERS.get(kind)
        if reader:
            reader(self, offset, decode_line(line))
        elif kind in METADATA:
            self.ignored[kind] += 1
        elif kind in {"assistant", "user"}:
            self.unknown[f"{kind} without a message"] += 1
        else:
            self.unknown[clean_title(kind)] += 1

    def facts(self) -> Facts:
        """Hand over what was gathered."""
        opened_at, started_at, last_at = span(self.times)
        return Facts(
            lines=self.lines,
            session=SessionFact(
                started_at=started_at,
                last_at=last_at,
                opened_at=opened_at,
                cwd=clean_path(self.cwd) or None,
                client_version=clean_title(self.version) or None,
                **self.session,
            ),
            responses=self.answers.to_facts(),
            superseded=self.answers.superseded(),
            boundaries=tuple(self.boundaries),
            errors=tuple(self.errors),
            launches=tuple(self.launches),
            returns=tuple(self.returns),
            texts=tuple(self.texts),
            asides=tuple(self.asides),
            steps=tuple(self.steps),
            links=tuple(self.links.values()),
            requests=tuple(self.requests),
            parts=tuple(self.parts),
            replies=tuple(replace(reply, text=clean_text(reply.text)) for reply in self.replies),
            bad=tuple(self.bad),
            ignored=dict(self.ignored),
            unknown=dict(self.unknown),
        )

    def _read_answer(self, offset: int, line: Line) -> None:
        """Note the agents that an answer starts, and an agent's reply."""
        blocks = decode_blocks(line.message.content) if line.message else []
        for block in blocks:
            if block.type == "tool_use":
                self._note_launch(offset, line, block)
        if self.is_agent:
            self._note_reply(offset, line, blocks)

    def _read_user(self, offset: int, line: Line) -> None:
        """Note a summary, what an agent returned, or a person's prompt."""
        message = line.message
        if message is None:
            return
        self._keep_links(read_links(offset, line, self.source))
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
        step = read_step(offset, line)
        kind = progress_kind(line)
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
        """Note how the session hangs together with others."""
        self._keep_links(read_links(offset, line, self.source))

    def _note_return(self, returned: agent_returns.Returned) -> None:
        self.returns.append(returned.fact)
        self.texts.extend(returned.texts)

    def _note_links(self, offset: int, line: memoryview, seen: Glance) -> None:
        # All lines of a copy say the same of where it comes from.
        fork = seen.forked_from.session_id if seen.forked_from else None
        said = seen.session_id, seen.lineage, fork, seen.uuid is None
        if said not in self.heard:
            self.heard.add(said)
            self._keep_links(read_links(offset, decode_line(line), self.source))

    def _keep_links(self, links: list[LinkFact]) -> None:
        for link in links:
            self.links.setdefault((link.kind, link.session_id), link)
        parent = fork_parent(links)
        if parent:
            self.session.setdefault("forked_from", parent)

    def _note_aside(self, offset: int, line: Line) -> None:
        aside = read_aside(offset, line)
        if aside:
            self.asides.append(aside)

    def _is_aside(self, line: Line) -> bool:
        """Say whether a line of a session's file belongs to an agent (clients up to 2.0)."""
        return bool(line.is_sidechain) and not self.is_agent

    def _read_made_up(self, offset: int, line: Line) -> None:
        refusal = read_refusal(offset, line, to_ms(line.timestamp))
        if refusal:
            self.errors.append(refusal)
        else:
            self.ignored["assistant/synthetic"] += 1

    def _note_launch(self, offset: int, line: Line, tool: ContentBlock) -> None:
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
                prompt=prompt_key(asked.prompt) if asked.prompt else None,
            )
        )

    def _note_reply(self, offset: int, line: Line, blocks: list[ContentBlock]) -> None:
        text = "\n".join(block.text or "" for block in blocks if block.type == "text").strip()
        if text and line.message:
            message_id = line.message.id or line.uuid or f"at {offset}"
            at = to_ms(line.timestamp)
            if self.replies and self.replies[-1].message_id != message_id:
                # Only the last answer of an agent is its reply; the one before it says that
                # an answer with the last one's id, of an earlier reading, has ended.
                del self.replies[:-1]
            self.replies.append(ReplyFact(offset, message_id, at, text))

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


def _typed(blocks: list[ContentBlock]) -> str | None:
    for block in blocks:
        if block.type == "text" and block.text and not MACHINE_TEXT.match(block.text):
            return clean_title(block.text) or None
    return None


_READERS: Final[dict[str, Callable[[_Reading, int, Line], None]]] = {
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
