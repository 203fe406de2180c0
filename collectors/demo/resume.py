"""Picks up a session of the demo where its file ends, as a client does with --resume."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from .chain import Chain
from .current import Talk
from .model import MODELS, DemoSession, Json, Origin
from .plumbing import LINE_GAP, Appender, Clock, Ids, Sheet, digest_of, millis
from .stage import Cast, Stage
from .stories import Asked, permission_call
from .usage import Totals, Usage

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True)
class Resumed:
    """A session that can go on, and the tool call that it ended with, if it did."""

    builder: Stage
    conversation: Talk
    pending: Asked


def resume(session: DemoSession, cast: Cast, rng: Random) -> Resumed:
    """Return a stage and a conversation that append to a session's file."""
    lines: list[Json] = [json.loads(row) for row in session.transcript.read_bytes().splitlines()]
    chained = [line for line in lines if "uuid" in line]
    last = chained[-1]
    origin = Origin(
        session_id=session.session_id,
        cwd=last["cwd"],
        version=last["version"],
        entrypoint=last["entrypoint"],
        branch=last["gitBranch"],
        nickname="amber-drifting-otter",
    )
    at = datetime.fromisoformat(last["timestamp"])
    clock = Clock(at, LINE_GAP, datetime.max.replace(tzinfo=UTC))
    ids = Ids(rng)
    stage = Stage(
        cast, origin, session.transcript.parents[2], rng, ids, clock, Sheet(session.transcript)
    )
    chain = Chain(origin, ids, clock, Appender(session.transcript), parent=last["uuid"])
    chain.lines_since_prompt = [line["uuid"] for line in chained[-8:]]
    talk = Talk(chain, MODELS[session.model], _totals(lines), session.title)
    _restore(talk, session, lines)
    calls = [block["id"] for block in _blocks(chained[-1:]) if block["type"] == "tool_use"]
    asked = Asked(last["uuid"], calls[0] if calls else "", permission_call())
    return Resumed(stage, talk, asked)


def _restore(talk: Talk, session: DemoSession, lines: list[Json]) -> None:
    talk.tokens = session.context_tokens or 0
    talk.state = session.context_state
    talk.compactions = session.compactions
    talk.agents = session.agents
    talk.is_opened = talk.has_tool_snapshot = True
    talk.tools_used = _last(lines, "tools-used").get("tools", [])
    talk.last_prompt = _last(lines, "last-prompt").get("lastPrompt", "")
    prompts = [line for line in lines if "turnPosition" in line]
    talk.turns = len(prompts)
    talk.prompt_id = prompts[-1]["promptId"]
    request = _last(lines, "api-request")
    requests = talk.requests
    requests.base, requests.shape_hash = request["id"], request["shapeHash"]
    requests.keep = request["keep"] + len(request["tail"])
    since = list(takewhile(lambda line: line["type"] != "api-request", reversed(lines)))[::-1]
    blocks = _blocks(since)
    if blocks:
        requests.unstored = [digest_of({"role": "assistant", "content": blocks})]
    requests.pending = [
        {"role": "user", "content": line["message"]["content"]}
        for line in since
        if line["type"] == "user"
    ]


def _blocks(lines: list[Json]) -> list[Json]:
    return [
        block
        for line in lines
        if line["type"] == "assistant"
        for block in line["message"]["content"]
    ]


def _last(lines: list[Json], kind: str) -> Json:
    return next((line for line in reversed(lines) if line["type"] == kind), {})


def _totals(lines: list[Json]) -> Totals:
    first = next(line["timestamp"] for line in lines if "timestamp" in line)
    totals = Totals(millis(datetime.fromisoformat(first)))
    answers = {
        line["message"]["id"]: line["message"] for line in lines if line["type"] == "assistant"
    }
    for message in answers.values():
        usage = message["usage"]
        counts = Usage(
            usage["input_tokens"],
            usage["cache_creation_input_tokens"],
            usage["cache_read_input_tokens"],
            usage["output_tokens"],
        )
        totals.count(MODELS[message["model"]], counts)
    return totals
