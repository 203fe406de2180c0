"""Reads agents' meta.json files."""

from typing import Final

import msgspec

from ...core.files.transcript_file import open_transcript
from ...core.model.transcript_records import AgentMeta
from ...core.transcript.lenient_json import NotJsonError, UnexpectedShapeError, decode_readable
from ...core.transcript.reported_usage import Count
from ...core.transcript.sanitize import sanitize_id, sanitize_title
from ..locations.discover import AGENT_PREFIX, META_SUFFIX, FoundFile

MAX_META_BYTES: Final = 1024 * 1024  # bytes; the client writes about 300


class _AgentMetaFile(msgspec.Struct, rename="camel"):
    agent_type: str | None = None
    description: str | None = None
    tool_use_id: str | None = None
    parent_agent_id: str | None = None
    spawn_depth: Count | None = None
    model: str | None = None
    finished: bool | None = None
    stopped_by_user: bool | None = None
    swept_by_stop: bool | None = None  # with its session's turn
    name: str | None = None
    spawned_agent_type: str | None = None  # of a teammate, whose `agentType` is its name


def read_agent_meta(found: FoundFile) -> AgentMeta | None:
    """Read one file; None while the client is still writing it. Raises OSError."""
    parts = found.relative.split("/")
    with open_transcript(found.path) as file:
        data = file.read(MAX_META_BYTES)
    try:
        meta = decode_readable(data, _AgentMetaFile)
    except (NotJsonError, UnexpectedShapeError):
        return None
    return AgentMeta(
        path=found.relative,
        session_id=parts[1].lower(),
        agent_id=parts[-1][len(AGENT_PREFIX) : -len(META_SUFFIX)],
        agent_type=sanitize_title(meta.spawned_agent_type or meta.agent_type or ""),
        description=sanitize_title(meta.description or ""),
        tool_use_id=sanitize_id(meta.tool_use_id) if meta.tool_use_id else None,
        parent_agent_id=sanitize_id(meta.parent_agent_id) if meta.parent_agent_id else None,
        depth=meta.spawn_depth or 1,
        model=sanitize_title(meta.model) if meta.model else None,
        finished=meta.finished,
        mtime_ns=found.mtime_ns,
        name=sanitize_title(meta.name) if meta.name else None,
        stopped=bool(meta.stopped_by_user or meta.swept_by_stop),
    )
