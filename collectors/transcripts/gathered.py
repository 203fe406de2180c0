"""What one run of a transcript's lines says, as far as it was read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ...core.compliance.expected import skill_in_prompt
from ...core.store.bad_rows import KEPT_A_FILE
from ...core.store.facts import (
    BadLine,
    BoundaryFact,
    ClearingFact,
    Facts,
    FileKind,
    LaunchFact,
    LeafTitle,
    ReplyFact,
    SessionFact,
)
from ..clean import clean_path, clean_title
from ..times import span, to_ms
from .answers import Answers
from .bounds import bounded
from .in_flight import InFlight
from .inner_agents import prompt_key
from .line_types import TOOLS_THAT_START_AGENTS
from .lines import AgentInput, MicrocompactMetadata, decode_line, decode_part
from .links import fork_parent
from .pending import Pending
from .project_root import begins_session, find_launch_folder

if TYPE_CHECKING:
    from ...core.store.compliance_facts import FeedbackFact, MarkerFact, SkillFact
    from ...core.store.facts import (
        AsideFact,
        ErrorFact,
        LinkFact,
        LinkKind,
        PartFact,
        ReportFact,
        RequestFact,
        ReturnFact,
        SourceFile,
        StepFact,
        TextFact,
    )
    from ...core.store.save_facts import NoteFact, StopBlockFact, StopHookFact
    from .agent_returns import Returned
    from .lines import Block, Line


class Gathered:
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
        self.answers: Final = Answers()
        self.boundaries: list[BoundaryFact] = []
        self.clearings: list[ClearingFact] = []
        self.errors: list[ErrorFact] = []
        self.launches: list[LaunchFact] = []
        self.returns: list[ReturnFact] = []
        self.failures: list[ReturnFact] = []
        self.texts: list[TextFact] = []
        self.replies: list[ReplyFact] = []
        self.asides: list[AsideFact] = []
        self.steps: list[StepFact] = []
        self.links: dict[tuple[LinkKind, str], LinkFact] = {}
        self.requests: list[RequestFact] = []
        self.parts: list[PartFact] = []
        self.uncounted: Final = Pending()
        self.turns: Final = InFlight()
        self.reports: list[ReportFact] = []
        self.markers: list[MarkerFact] = []
        self.feedback: list[FeedbackFact] = []
        self.skills: list[SkillFact] = []
        self.stop_blocks: list[StopBlockFact] = []
        self.stop_hooks: list[StopHookFact] = []
        self.notes: list[NoteFact] = []
        self.bad: list[BadLine] = []
        self.bad_lines = 0
        self.ignored: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()

    def add_bad_line(self, offset: int, line: bytes, reason: str) -> None:
        """Count a line that could not be read; of the first ones keep where they stand, and why."""
        self.bad_lines += 1
        if len(self.bad) < KEPT_A_FILE:
            self.bad.append(BadLine(offset, len(line), clean_title(reason)))

    def is_sidechain(self, line: Line) -> bool:
        """Say whether a line of a session's file belongs to an agent (clients up to 2.0)."""
        return bool(line.is_sidechain) and not self.is_agent

    def build(self) -> Facts:
        """Hand over what was gathered."""
        opened_at, started_at, last_at = span(self.times)
        cost_offset, cost_usd = self.cost or (None, None)
        facts = Facts(
            lines=self.lines,
            session=SessionFact(
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
            session_links=tuple(self.links.values()),
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
            leaf_titles=tuple(LeafTitle(*each) for each in self.leaf_titles.items()),
            open_calls=self.turns.open_calls(),
            ended_calls=self.turns.ended_calls(),
            microcompactions=tuple(self.clearings),
            bad=tuple(self.bad),
            ignored_types=dict(self.ignored),
            unknown_types=dict(self.unknown),
            bad_lines=self.bad_lines,
        )
        return bounded(facts)

    def add_root(self, cwd: str, line: memoryview) -> None:
        """Keep what the folder of a line of the main chain says of where the session began."""
        if cwd == self.chain_cwd:
            return
        self.chain_cwd = cwd
        # As the store joins readings: what follows any line with a folder is not the first.
        if not self.cwd and begins_session(decode_line(line)):
            self.began_in = clean_path(cwd) or None
        if self.launched_in is None:
            self.launched_in = find_launch_folder(clean_path(cwd), self.source.project)

    def add_return(self, returned: Returned) -> None:
        """Keep what an agent brought back."""
        self.returns.append(returned.fact)
        self.texts.extend(returned.texts)

    def add_links(self, links: list[LinkFact]) -> None:
        """Keep the first word on each other session."""
        for link in links:
            self.links.setdefault((link.kind, link.session_id), link)
        parent = fork_parent(links)
        if parent:
            self.session.setdefault("forked_from", parent)

    def add_launch(self, offset: int, line: Line, tool: Block) -> None:
        """Keep a tool call that starts an agent; any other is passed over."""
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
                skill=skill_in_prompt(asked.prompt or ""),
            )
        )

    def add_reply(self, offset: int, line: Line, blocks: list[Block]) -> None:
        """Keep an agent's words, of which only the last answer's are its reply."""
        text = "\n".join(block.text or "" for block in blocks if block.type == "text").strip()
        if text and line.message:
            message_id = line.message.id or line.uuid or f"at {offset}"
            at = to_ms(line.timestamp)
            if self.replies and self.replies[-1].message_id != message_id:
                # Only the last answer of an agent is its reply; the one before it says that
                # an answer with the last one's id, of an earlier reading, has ended.
                del self.replies[:-1]
            self.replies.append(ReplyFact(offset, message_id, at, text))

    def add_boundary(self, offset: int, line: Line) -> None:
        """Keep a compaction."""
        self.uncounted.measure_at_boundary()
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

    def add_microcompaction(self, offset: int, line: Line) -> None:
        """Keep what the client says that it cleared by itself."""
        said = line.microcompact_metadata or MicrocompactMetadata()
        self.clearings.append(
            ClearingFact(
                offset=offset,
                uuid=clean_title(line.uuid or "") or f"at {offset}",
                at=to_ms(line.timestamp),
                trigger=clean_title(said.trigger) if said.trigger else None,
                pre_tokens=said.pre_tokens,
                saved_tokens=said.tokens_saved,
                results=len(said.compacted_tool_ids),
                attachments=len(said.cleared_attachments),
            )
        )
