"""An agent's meta.json: its type, its task, and which tool call started it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..core.store.facts import AgentMeta
from .clean import clean_id, clean_title
from .folder import AGENT, META
from .regular import open_regular
from .transcripts.lines import Count  # noqa: TC001 -- msgspec reads it

if TYPE_CHECKING:
    from .folder import FoundFile

LARGEST: Final = 1024 * 1024
"""Bytes; the client writes about 300."""


class _Meta(msgspec.Struct, rename="camel"):
    agent_type: str | None = None
    description: str | None = None
    tool_use_id: str | None = None
    parent_agent_id: str | None = None
    spawn_depth: Count | None = None
    model: str | None = None
    finished: bool | None = None
    name: str | None = None
    spawned_agent_type: str | None = None
    """Of a teammate, whose `agentType` is its name."""


def read_meta(found: FoundFile) -> AgentMeta | None:
    """Read one file; None while the client is still writing it.

    Raises OSError where it cannot be read.
    """
    parts = found.relative.split("/")
    with open_regular(found.path) as file:
        data = file.read(LARGEST)
    try:
        meta = msgspec.json.decode(data, type=_Meta)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return AgentMeta(
        path=found.relative,
        session_id=parts[1].lower(),
        agent_id=parts[-1][len(AGENT) : -len(META)],
        agent_type=clean_title(meta.spawned_agent_type or meta.agent_type or ""),
        description=clean_title(meta.description or ""),
        tool_use_id=clean_id(meta.tool_use_id) if meta.tool_use_id else None,
        parent_agent_id=clean_id(meta.parent_agent_id) if meta.parent_agent_id else None,
        depth=meta.spawn_depth or 1,
        model=clean_title(meta.model) if meta.model else None,
        finished=meta.finished,
        mtime_ns=found.mtime_ns,
        name=clean_title(meta.name) if meta.name else None,
    )
