"""The chain of one transcript: every line knows its parent, its time and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from .plumbing import Clock, Ids, Sink, stamp

if TYPE_CHECKING:
    from .model import Json, Origin


# The lines that say when before they say who.
CURRENT_TIME_FIRST = frozenset({"stop_hook_summary", "turn_duration"})
OLDER_TIME_FIRST = CURRENT_TIME_FIRST | {"compact_boundary", "hook_progress"}


def stamps(head: Json, uuid: str, moment: str, time_first: frozenset[str]) -> Json:
    """Return a line's id and time in the order that its kind has."""
    kind = head.get("subtype") or head.get("data", {}).get("type")
    if kind in time_first:
        return {"timestamp": moment, "uuid": uuid}
    return {"uuid": uuid, "timestamp": moment}


class Envelope(Protocol):
    """How an era puts its own fields around what a line says."""

    def wrap(self, chain: Chain, head: Json, uuid: str, after: Json) -> Json:
        """Return the whole line."""
        ...


class CurrentEnvelope:
    """Since 2.1.2xx: parent first, origin last."""

    def wrap(self, chain: Chain, head: Json, uuid: str, after: Json) -> Json:
        """Return the whole line."""
        origin = chain.origin
        line: Json = {"parentUuid": chain.parent}
        if "logicalParentUuid" in head:
            line["logicalParentUuid"] = head["logicalParentUuid"]
        line["isSidechain"] = chain.agent_id is not None
        if "promptId" in head:
            line["promptId"] = head["promptId"]
        if chain.agent_id is not None:
            line["agentId"] = chain.agent_id
        line |= {key: value for key, value in head.items() if key not in line}
        line |= stamps(head, uuid, stamp(chain.clock.tick()), CURRENT_TIME_FIRST)
        line |= after
        line |= {
            "userType": "external",
            "entrypoint": origin.entrypoint,
            "cwd": origin.cwd,
            "sessionId": origin.session_id,
            "version": origin.version,
            "gitBranch": origin.branch,
        }
        if chain.has_nickname:
            line["slug"] = origin.nickname
        return line


class OlderEnvelope:
    """Until 2.1.5x: origin first, no entrypoint, no prompt id."""

    def wrap(self, chain: Chain, head: Json, uuid: str, after: Json) -> Json:
        """Return the whole line."""
        origin = chain.origin
        line: Json = {"parentUuid": chain.parent}
        if "logicalParentUuid" in head:
            line["logicalParentUuid"] = head["logicalParentUuid"]
        line |= {
            "isSidechain": chain.agent_id is not None,
            "userType": "external",
            "cwd": origin.cwd,
            "sessionId": origin.session_id,
            "version": origin.version,
            "gitBranch": origin.branch,
        }
        if chain.agent_id is not None:
            line["agentId"] = chain.agent_id
        line["slug"] = origin.nickname
        line |= {key: value for key, value in head.items() if key not in line}
        line |= stamps(head, uuid, stamp(chain.clock.tick()), OLDER_TIME_FIRST)
        return line | after


@dataclass
class Chain:
    """Adds lines to a transcript and remembers the last one."""

    origin: Origin
    ids: Ids
    clock: Clock
    sink: Sink
    envelope: Envelope = field(default_factory=CurrentEnvelope)
    agent_id: str | None = None
    parent: str | None = None
    has_nickname: bool = False  # the client gives a session its nickname at the first compaction
    lines_since_prompt: list[str] = field(
        default_factory=list
    )  # the ids since the last prompt, oldest first

    def add(self, head: Json, after: Json | None = None, uuid: str | None = None) -> str:
        """Write one chained line and return its id."""
        line_id = uuid or self.ids.uuid()
        self.sink.line(self.envelope.wrap(self, head, line_id, after or {}))
        self.parent = line_id
        self.lines_since_prompt.append(line_id)
        return line_id

    def add_note(self, kind: str, **values: object) -> None:
        """Write one line that stands beside the chain, with the session's id at its end."""
        self.sink.line({"type": kind, **values, "sessionId": self.origin.session_id})

    def add_unchained(self, line: Json) -> None:
        """Write one line beside the chain that brings its own order of fields."""
        self.sink.line(line)
