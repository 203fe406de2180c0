"""Collects the facts of one run of a transcript's lines, and limits every text in them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from ....core.compliance.judge import skill_in_prompt
from ....core.store.transcript_records import (
    MAX_BAD_LINES_PER_FILE,
    AgentReturnRecord,
    ApiErrorRecord,
    BadLine,
    BoundaryRecord,
    ContextReportRecord,
    FileKind,
    GivenSkillRecord,
    LaunchRecord,
    LeafTitleRecord,
    MarkerRecord,
    MemoryNoteRecord,
    MicrocompactionRecord,
    ProgressLineRecord,
    ReplyRecord,
    RequestPartRecord,
    RequestRecord,
    SessionRecord,
    SidechainLineRecord,
    SourceFile,
    StopBlockRecord,
    StopFeedbackRecord,
    StopHookRecord,
    SummaryRecord,
    TranscriptRecords,
)
from ....core.transcript.line_decoder import (
    AgentInput,
    MicrocompactMetadata,
    RawBlock,
    TranscriptLine,
    decode_line,
    decode_optional,
    join_texts,
)
from ....core.transcript.line_types import AGENT_TOOLS
from ....core.transcript.raw_lines import time_span
from ....core.transcript.sanitize import (
    remove_invisible,
    sanitize_id,
    sanitize_name,
    sanitize_path,
    sanitize_text,
    sanitize_title,
    sanitize_word,
)
from .session_links import find_launch_folder, fork_parent, starts_session
from .turn_tracking import MergedAnswers, TurnTracker, UncountedLines, prompt_key

if TYPE_CHECKING:
    from .agent_results import AgentReturn


FactT = TypeVar("FactT", bound=msgspec.Struct)

MAX_TOOLS_CHARS: Final = 9 * 1_000
"""Of the names of one answer's tool calls, nine characters each: a thousand; 60 were seen."""

MAX_COMMANDS_CHARS: Final = 16 * 1024
"""Of the JSON that names the Stop hooks of a turn: 50 commands of a title's length."""


def _sanitize_tools(names: str) -> str:
    if len(names) <= MAX_TOOLS_CHARS and names.isascii() and names.isprintable():
        return names
    # Whole names only: each ends with a comma.
    kept = "".join(each for each in remove_invisible(names[:MAX_TOOLS_CHARS]) if each.isprintable())
    return kept[: kept.rfind(",") + 1]


FIELD_SANITIZERS: Final[dict[str, Callable[[str], str]]] = {
    # Ids: what names the same thing in two places is cut in the same way.
    "agent_id": sanitize_id,
    "forked_from": sanitize_id,
    "leaf_uuid": sanitize_id,
    "line": sanitize_id,
    "message_id": sanitize_id,
    "session_id": sanitize_id,
    "tool_use_id": sanitize_id,
    "uuid": sanitize_id,
    # One word of a few.
    "client_version": sanitize_word,
    "kind": sanitize_word,
    "status": sanitize_word,
    "trigger": sanitize_word,
    # Names: of models, types of agents, tools, skills.
    "agent_type": sanitize_name,
    "asked_model": sanitize_name,
    "model": sanitize_name,
    "name": sanitize_name,
    "query_source": sanitize_name,
    "skill": sanitize_name,
    # One line.
    "ai_title": sanitize_title,
    "custom_title": sanitize_title,
    "description": sanitize_title,
    "detail": sanitize_title,
    "first_prompt": sanitize_title,
    "last_prompt": sanitize_title,
    "reason": sanitize_title,
    "summary_title": sanitize_title,
    "title": sanitize_title,
    # More than one.
    "began_in": sanitize_path,
    "cwd": sanitize_path,
    "launched_in": sanitize_path,
    "text": sanitize_text,
    "tools": _sanitize_tools,
    # JSON of titles that were cleaned before they were put together.
    "commands": lambda text: text if len(text) <= MAX_COMMANDS_CHARS else "[]",
}
"""By a field's name, which means the same in every kind of fact."""


def limit_texts(facts: TranscriptRecords) -> TranscriptRecords:
    """Bound every text of what was read of a transcript."""
    changed: dict[str, Any] = {
        name: tuple(map(_limit_fact, value))
        for name in TranscriptRecords.__struct_fields__
        if name != "ended_calls" and type(value := getattr(facts, name)) is tuple and value
    }
    if facts.ended_calls:
        changed["ended_calls"] = tuple(map(sanitize_id, facts.ended_calls))
    if facts.progress_lines:
        changed["progress_lines"] = tuple(map(_limit_step, changed["progress_lines"]))
    return replace(facts, session=_limit_fact(facts.session), **changed)


def _limit_fact(fact: FactT) -> FactT:
    changed: dict[str, str] = {}
    for name in fact.__struct_fields__:
        clean = FIELD_SANITIZERS.get(name)
        value = getattr(fact, name)
        # A field of the same name may be a key or an enumeration's value elsewhere.
        if clean and type(value) is str and (kept := clean(value)) != value:
            changed[name] = kept
    return replace(fact, **changed) if changed else fact


def _limit_step(step: ProgressLineRecord) -> ProgressLineRecord:
    return step if step.answer is None else replace(step, answer=_limit_fact(step.answer))


class FactBuilder:
    """The facts of one run of lines of one file."""

    def __init__(self, source: SourceFile) -> None:
        self.source: Final = source
        self.is_agent: Final = source.kind is FileKind.AGENT
        self.lines = 0
        self.times: list[str] = []
        self.cwd = self.version = ""
        self.chain_cwd = ""
        self.began_in: str | None = None
        self.launched_in: str | None = None
        self.session: dict[str, Any] = {}
        self.leaf_uuid: str | None = None
        """Uuid of the newest line of the conversation."""
        self.leaf_titles: dict[str, str] = {}
        """Titles that summaries give, by the last line of what they are of."""
        self.cost: tuple[int, float] | None = None
        self.model_offset: int | None = None
        self.answers: Final = MergedAnswers()
        self.boundaries: list[BoundaryRecord] = []
        self.clearings: list[MicrocompactionRecord] = []
        self.errors: list[ApiErrorRecord] = []
        self.launches: list[LaunchRecord] = []
        self.returns: list[AgentReturnRecord] = []
        self.failures: list[AgentReturnRecord] = []
        self.texts: list[SummaryRecord] = []
        self.replies: list[ReplyRecord] = []
        self.asides: list[SidechainLineRecord] = []
        self.steps: list[ProgressLineRecord] = []
        self.requests: list[RequestRecord] = []
        self.parts: list[RequestPartRecord] = []
        self.uncounted: Final = UncountedLines()
        self.turns: Final = TurnTracker()
        self.reports: list[ContextReportRecord] = []
        self.markers: list[MarkerRecord] = []
        self.feedback: list[StopFeedbackRecord] = []
        self.skills: list[GivenSkillRecord] = []
        self.stop_blocks: list[StopBlockRecord] = []
        self.stop_hooks: list[StopHookRecord] = []
        self.notes: list[MemoryNoteRecord] = []
        self.bad: list[BadLine] = []
        self.bad_lines = 0
        self.ignored: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()

    def add_bad_line(self, offset: int, line: bytes, reason: str) -> None:
        """Count a line that could not be read; of the first ones keep where they stand, and why."""
        self.bad_lines += 1
        if len(self.bad) < MAX_BAD_LINES_PER_FILE:
            self.bad.append(BadLine(offset, len(line), sanitize_title(reason)))

    def is_sidechain(self, line: TranscriptLine) -> bool:
        """Whether a line in a session's file belongs to an agent (clients up to 2.0)."""
        return bool(line.is_sidechain) and not self.is_agent

    def build(self) -> TranscriptRecords:
        """Hand over what was gathered."""
        opened_at, started_at, last_at = time_span(self.times)
        cost_offset, cost_usd = self.cost or (None, None)
        facts = TranscriptRecords(
            lines=self.lines,
            session=SessionRecord(
                started_at=started_at,
                last_at=last_at,
                opened_at=opened_at,
                cwd=self.cwd or None,
                began_in=self.began_in,
                launched_in=self.launched_in,
                client_version=self.version or None,
                model_offset=self.model_offset,
                cost_usd=cost_usd,
                cost_offset=cost_offset,
                leaf_uuid=self.leaf_uuid,
                **self.turns.session_fields(),
                **self.session,
            ),
            responses=self.answers.to_facts(),
            peaks=self.answers.superseded_peaks(),
            boundaries=tuple(self.boundaries),
            api_errors=tuple(self.errors),
            launches=tuple(self.launches),
            returns=tuple(self.returns),
            failed_calls=tuple(self.failures),
            summaries=tuple(self.texts),
            sidechain_lines=tuple(self.asides),
            progress_lines=tuple(self.steps),
            requests=tuple(self.requests),
            request_parts=tuple(self.parts),
            additions=self.uncounted.to_facts(),
            context_reports=tuple(self.reports),
            markers=tuple(self.markers),
            stop_feedback=tuple(self.feedback),
            given_skills=tuple(self.skills),
            stop_blocks=tuple(self.stop_blocks),
            stop_hooks=tuple(self.stop_hooks),
            memory_notes=tuple(self.notes),
            replies=tuple(self.replies),
            leaf_titles=tuple(LeafTitleRecord(*each) for each in self.leaf_titles.items()),
            open_calls=self.turns.open_calls(),
            ended_calls=self.turns.ended_calls(),
            microcompactions=tuple(self.clearings),
            bad=tuple(self.bad),
            ignored_types=dict(self.ignored),
            unknown_types=dict(self.unknown),
            bad_lines=self.bad_lines,
        )
        return limit_texts(facts)

    def add_root(self, cwd: str, line: memoryview) -> None:
        """Keep what the folder of a line of the main chain says of where the session began."""
        if cwd == self.chain_cwd:
            return
        self.chain_cwd = cwd
        # As the store joins readings: what follows any line with a folder is not the first.
        if not self.cwd and starts_session(decode_line(line)):
            self.began_in = sanitize_path(cwd) or None
        if self.launched_in is None:
            self.launched_in = find_launch_folder(sanitize_path(cwd), self.source.project)

    def add_return(self, returned: AgentReturn) -> None:
        """Keep what an agent brought back."""
        self.returns.append(returned.fact)
        self.texts.extend(returned.texts)

    def add_fork(self, line: TranscriptLine) -> None:
        """Keep the first session that this one is said to be forked from."""
        parent = fork_parent(line)
        if parent:
            self.session.setdefault("forked_from", parent)

    def add_launch(self, offset: int, line: TranscriptLine, tool: RawBlock) -> None:
        """Keep a tool call that starts an agent; any other is passed over."""
        if tool.name not in AGENT_TOOLS or tool.id is None:
            return
        asked = decode_optional(tool.input, AgentInput) or AgentInput()
        self.launches.append(
            LaunchRecord(
                offset=offset,
                tool_use_id=tool.id,
                at=line.at,
                agent_type=sanitize_title(asked.subagent_type or "general-purpose"),
                description=sanitize_title(asked.description or ""),
                asked_model=sanitize_title(asked.model) if asked.model else None,
                prompt=prompt_key(asked.prompt) if asked.prompt else None,
                skill=skill_in_prompt(asked.prompt or ""),
            )
        )

    def add_reply(self, offset: int, line: TranscriptLine, blocks: list[RawBlock]) -> None:
        """Keep an agent's words, of which only the last answer's are its reply."""
        text = join_texts(blocks).strip()
        if text and line.message:
            message_id = line.message.id or line.name_at(offset)
            at = line.at
            if self.replies and self.replies[-1].message_id != message_id:
                # Only the last answer of an agent is its reply; the one before it says that
                # an answer with the last one's id, of an earlier reading, has ended.
                del self.replies[:-1]
            self.replies.append(ReplyRecord(offset, message_id, at, text))

    def add_boundary(self, offset: int, line: TranscriptLine) -> None:
        """Keep a compaction."""
        self.uncounted.measure_at_boundary()
        said = line.compact_metadata
        kept = said.preserved_messages.uuids if said and said.preserved_messages else None
        self.boundaries.append(
            BoundaryRecord(
                offset=offset,
                uuid=line.name_at(offset),
                at=line.at,
                trigger=sanitize_title(said.trigger) if said and said.trigger else None,
                pre_tokens=said.pre_tokens if said else None,
                post_tokens=said.post_tokens if said else None,
                dropped_tokens=said.cumulative_dropped_tokens if said else None,
                duration_ms=said.duration_ms if said else None,
                kept_messages=None if kept is None else len(kept),
            )
        )

    def add_microcompaction(self, offset: int, line: TranscriptLine) -> None:
        """Keep what the client says that it cleared by itself."""
        said = line.microcompact_metadata or MicrocompactMetadata()
        self.clearings.append(
            MicrocompactionRecord(
                offset=offset,
                uuid=sanitize_title(line.uuid or "") or f"at {offset}",
                at=line.at,
                trigger=sanitize_title(said.trigger) if said.trigger else None,
                pre_tokens=said.pre_tokens,
                saved_tokens=said.tokens_saved,
                results=len(said.compacted_tool_ids),
                attachments=len(said.cleared_attachments),
            )
        )
