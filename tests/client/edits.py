"""Edits of a transcript that no client has open: each is a rule of what a resume makes of it."""

from __future__ import annotations

import copy
import json
import uuid
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Json = dict[str, Any]
Lines = list[Json]

TORN: Final = b'{"type":"user","uuid":"half","message":{"role":"us'


def write_edited(path: Path, edit: Callable[[Lines], Lines], tail: bytes = b"") -> str:
    """Write an edited copy beside a transcript, as a session of its own; give its id."""
    session_id = str(uuid.uuid4())
    copied = edited(path, edit).replace(path.stem, session_id).encode() + tail
    path.with_name(f"{session_id}.jsonl").write_bytes(copied)
    return session_id


def edited(path: Path, edit: Callable[[Lines], Lines]) -> str:
    """Return the edited transcript's text, formatted as the client writes it."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    texts = (json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in edit(lines))
    return "".join(f"{each}\n" for each in texts)


def answers(lines: Lines, kind: str | None = None) -> Lines:
    found = [line for line in lines if line["type"] == "assistant"]
    return [one for one in found if kind is None or one["message"]["content"][0]["type"] == kind]


def results(lines: Lines) -> Lines:
    users = (line for line in lines if line["type"] == "user")
    return [line for line in users if isinstance(line["message"]["content"], list)]


def spoken(lines: Lines) -> Lines:
    return [line for line in lines if line["type"] in {"user", "assistant"}]


def chained(lines: Lines) -> Lines:
    return [line for line in lines if line.get("uuid")]


def again(line: Json, **changed: object) -> Json:
    return copy.deepcopy(line) | {"uuid": str(uuid.uuid4())} | changed


def until(lines: Lines, last: Json) -> Lines:
    return lines[: lines.index(last) + 1]


def without(lines: Lines, gone: Json) -> Lines:
    return [line for line in lines if line is not gone]


def without_reparented(lines: Lines, gone: Json) -> Lines:
    """Remove a line and attach its children to its parent."""
    for line in lines:
        if line.get("parentUuid") == gone["uuid"]:
            line["parentUuid"] = gone["parentUuid"]
    return without(lines, gone)


def said(line: Json, text: str) -> Json:
    line["message"]["content"] = text
    return line


def remembering_nothing(lines: Lines) -> Lines:
    return [line for line in lines if line["type"] != "last-prompt"]


def remembering(lines: Lines, line: Json, **more: object) -> Lines:
    """Append a `last-prompt` line that names this line as the conversation's leaf."""
    hint = {"type": "last-prompt", "lastPrompt": "x", "leafUuid": line["uuid"]}
    return [*lines, hint | {"sessionId": line["sessionId"]} | more]


def branched(lines: Lines, at: str = "2026-12-01T00:00:00.000Z") -> Lines:
    """Add a prompt that follows the third call of a tool."""
    parent = answers(lines, "tool_use")[2]["uuid"]
    prompt = next(line for line in lines if line["type"] == "user")
    return [*lines, said(again(prompt, parentUuid=parent, timestamp=at), "Branch here")]


def prompted(lines: Lines) -> Lines:
    prompt = next(line for line in lines if line["type"] == "user")
    return [*lines, said(again(prompt, parentUuid=chained(lines)[-1]["uuid"]), "And now?")]


def second_copy(lines: Lines) -> Lines:
    other = copy.deepcopy(results(lines)[1])
    other["message"]["content"][0]["content"] = "SECOND COPY"
    return [*lines, other]


def orphaned_result(lines: Lines) -> Lines:
    return without_reparented(lines, answers(lines, "tool_use")[-1])


def circle(lines: Lines) -> Lines:
    first, last = answers(lines)[0], answers(lines)[-1]
    first["parentUuid"] = last["uuid"]
    return lines


def with_progress(lines: Lines) -> Lines:
    call = answers(lines, "tool_use")[-1]
    between = {"type": "progress", "uuid": str(uuid.uuid4()), "parentUuid": call["parentUuid"]}
    between |= {name: call[name] for name in ("timestamp", "sessionId", "isSidechain")}
    call["parentUuid"] = between["uuid"]
    place = lines.index(call)
    return [*lines[:place], between | {"data": {"type": "hook_progress"}}, *lines[place:]]


def with_error_at_the_end(lines: Lines) -> Lines:
    last = chained(lines)[-1]
    error = {"type": "system", "subtype": "api_error", "level": "error", "parentUuid": None}
    kept = {name: last[name] for name in ("sessionId", "timestamp", "cwd", "version")}
    return [*lines, kept | error | {"uuid": str(uuid.uuid4()), "error": {"status": 529}}]


def with_sidechain(lines: Lines) -> Lines:
    other = again(answers(lines)[-1], isSidechain=True, parentUuid=None)
    other["message"] |= {"id": "msg_aside", "content": [{"type": "text", "text": "ASIDE"}]}
    return [*lines, other]


def with_meta(lines: Lines) -> Lines:
    prompt = next(line for line in lines if line["type"] == "user")
    parent = chained(lines)[-1]["uuid"]
    meta = said(again(prompt, parentUuid=parent, isMeta=True), "META")
    more = again(prompt, parentUuid=meta["uuid"], isVisibleInTranscriptOnly=True)
    return remembering_nothing([*lines, meta, said(more, "SEEN")])


def blank_answer(lines: Lines) -> Lines:
    answers(lines)[-1]["message"]["content"] = [{"type": "text", "text": "  "}]
    return lines


def without_thoughts(lines: Lines) -> Lines:
    for line in answers(lines, "thinking"):
        line["message"]["content"] = []
    return lines


def compacted(
    lines: Lines,
    kept: Lines = [],  # noqa: B006 -- never changed
    *,
    segment: bool = False,
    anchor: str = "summary",
) -> Lines:
    """Append a boundary and its summary, as a person's own tool would."""
    last = chained(lines)[-1]
    base = {name: last[name] for name in ("sessionId", "cwd", "version", "timestamp", "entrypoint")}
    named = {name: str(uuid.uuid4()) for name in ("boundary", "summary", "nothing")}
    meta: Json = {"trigger": "manual", "preTokens": 1000}
    ids = [line["uuid"] for line in kept]
    if ids:
        ends = {"headUuid": ids[0], "anchorUuid": named[anchor], "tailUuid": ids[-1]}
        meta["preservedSegment"] = ends
    if ids and not segment:
        meta["preservedMessages"] = {"anchorUuid": named[anchor], "uuids": ids, "allUuids": ids}
    boundary: Json = {"type": "system", "subtype": "compact_boundary", "compactMetadata": meta}
    boundary |= {"uuid": named["boundary"], "parentUuid": None, "logicalParentUuid": last["uuid"]}
    boundary |= {"content": "Conversation compacted", "level": "info", "isMeta": False}
    summary: Json = {"type": "user", "uuid": named["summary"], "parentUuid": named["boundary"]}
    summary |= {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
    summary |= {"message": {"role": "user", "content": "SUMMARY"}}
    return [
        *lines,
        base | boundary | {"isSidechain": False},
        base | summary | {"isSidechain": False},
    ]


CUTS: Final[dict[str, Callable[[Lines], Lines]]] = {
    "after a call": lambda lines: until(lines, answers(lines, "tool_use")[-1]),
    "between calls side by side": lambda lines: until(lines, answers(lines, "tool_use")[1]),
    "after one of two results": lambda lines: until(lines, results(lines)[0]),
    "after a result": lambda lines: until(lines, results(lines)[-1]),
    "after a thought": lambda lines: until(lines, answers(lines, "thinking")[-1]),
    "a prompt after a call": lambda lines: prompted(until(lines, answers(lines, "tool_use")[-1])),
    "after the prompt": lambda lines: lines[: lines.index(answers(lines)[0])],
}

BRANCHES: Final[dict[str, Callable[[Lines], Lines]]] = {
    "the last line leads": lambda lines: branched(remembering_nothing(lines)),
    "whatever its time": lambda lines: branched(
        remembering_nothing(lines), "2026-01-01T00:00:00.000Z"
    ),
    "not against what is remembered": branched,
    "remembered itself": lambda lines: remembering(
        branched(remembering_nothing(lines)), branched(lines)[-1]
    ),
    "remembered before it": lambda lines: remembering(
        branched(remembering_nothing(lines)), answers(lines)[0]
    ),
    "remembered on the other": lambda lines: remembering(
        branched(remembering_nothing(lines)), answers(lines)[4]
    ),
    "remembered at the other's end": lambda lines: remembering(
        branched(remembering_nothing(lines)), chained(lines)[-1]
    ),
}

DAMAGES: Final[dict[str, Callable[[Lines], Lines]]] = {
    "a second copy": second_copy,
    "a result without its call": orphaned_result,
    "a call without its result": lambda lines: without(lines, results(lines)[0]),
    "a parent that is missing": lambda lines: without(lines, answers(lines)[3]),
    "a circle": circle,
    "a line of progress": with_progress,
    "an error at the end": with_error_at_the_end,
    "a sidechain": with_sidechain,
    "meta lines": with_meta,
    "a blank answer": blank_answer,
    "thoughts without content": without_thoughts,
}

BOUNDARIES: Final[dict[str, Callable[[Lines], Lines]]] = {
    "nothing kept": compacted,
    "two lines": lambda lines: compacted(lines, spoken(lines)[-2:]),
    "all but the prompt": lambda lines: compacted(lines, spoken(lines)[1:]),
    "a segment": lambda lines: compacted(lines, chained(lines)[-9:], segment=True),
    "one of them missing": lambda lines: compacted(
        lines, [spoken(lines)[-3], again(spoken(lines)[-2]), spoken(lines)[-1]]
    ),
    "from a result on": lambda lines: compacted(lines, spoken(lines)[4:]),
    "a thought alone": lambda lines: compacted(lines, spoken(lines)[-2:-1]),
    "with attachments": lambda lines: compacted(
        lines, [one for one in chained(lines) if one["type"] != "system"][-8:]
    ),
    "before the summary": lambda lines: compacted(lines, spoken(lines)[:2], anchor="boundary"),
    "behind nothing": lambda lines: compacted(lines, spoken(lines)[-2:], anchor="nothing"),
    "twice": lambda lines: compacted(compacted(lines, spoken(lines)[-2:])),
}


def marked(lines: Lines, attachment: Json, place: int = -1) -> Lines:
    """Add an attachment behind the last line, or an earlier one."""
    parent = chained(lines)[place]
    base = {name: parent[name] for name in ("sessionId", "cwd", "version", "timestamp")}
    line: Json = {"type": "attachment", "uuid": str(uuid.uuid4()), "parentUuid": parent["uuid"]}
    line |= base | {"isSidechain": False, "attachment": attachment}
    for each in lines:
        if each.get("parentUuid") == parent["uuid"]:
            each["parentUuid"] = line["uuid"]
    at = lines.index(parent) + 1
    return remembering_nothing([*lines[:at], line, *lines[at:]])


def cut(lines: Lines, stand_in: str = "[Old tool result content cleared]", **more: object) -> Lines:
    """Name all results as cut, as the client does when a person returns after an hour."""
    calls = [line["message"]["content"][0]["tool_use_id"] for line in results(lines)]
    named = {"type": "tool_results_cut", "callIds": calls, "standIn": stand_in}
    return marked(lines, named | {"roughTokens": 300} | more)


STRIPPED: Final[Json] = {"type": "thinking_stripped", "scope": "all"}


def stripped(lines: Lines, answer: int, number: int = 0) -> Lines:
    """Strip the thinking from one of an answer on."""
    start = {"messageId": answers(lines)[answer]["message"]["id"], "thinkingIndex": number}
    return marked(lines, STRIPPED | {"scope": "partial", "from": start})


def withdrawn_file(lines: Lines) -> Lines:
    """Attach a file whole, and withdraw it, as the client does when it did not fit."""
    file: Json = {"filePath": "/x.txt", "content": "WHOLE", "numLines": 1}
    file |= {"startLine": 1, "totalLines": 1}
    named: Json = {"type": "file", "filename": "/x.txt", "displayPath": "x.txt"}
    named |= {"content": {"type": "text", "file": file}, "overTokenLimit": True}
    return marked(marked(lines, named), {"type": "whole_texts_withdrawn"})


MARKS: Final[dict[str, Callable[[Lines], Lines]]] = {
    "results cut": cut,
    "cut by a text that is longer": lambda lines: cut(lines, "-" * 199),
    "cut by one that is too long": lambda lines: cut(lines, "-" * 201),
    "withdrawn by their tool": lambda lines: cut(lines, cause="withdrawn_by_tool"),
    "cut for another reason": lambda lines: cut(lines, cause="something"),
    "cut twice": lambda lines: cut(cut(lines, "first"), "second"),
    "cut, and a prompt": lambda lines: prompted(cut(lines)),
    "thinking stripped": lambda lines: marked(lines, STRIPPED),
    "stripped after a return": lambda lines: marked(
        lines, STRIPPED | {"cause": "return_after_idle"}
    ),
    "stripped in the middle": lambda lines: marked(lines, STRIPPED, -4),
    "stripped from the last answer on": lambda lines: stripped(lines, -1),
    "stripped from the second thought on": lambda lines: stripped(lines, 0, 1),
    "stripped from a thought that is not there": lambda lines: stripped(lines, 0, 9),
    "advice stripped": lambda lines: marked(lines, {"type": "advisor_stripped"}),
}
"""What the client stops sending."""

REWINDS: Final[dict[str, Callable[[Lines], Lines]]] = {
    "explicit": lambda lines: remembering(
        remembering_nothing(lines), answers(lines)[-3], explicit=True
    ),
    "explicit at a result": lambda lines: remembering(
        remembering_nothing(lines), results(lines)[-1], explicit=True
    ),
    "rewound": lambda lines: remembering(
        remembering_nothing(lines), answers(lines)[-3], explicit=True, rewound=True
    ),
    "rewound, and a cut": lambda lines: remembering(
        remembering_nothing(lines),
        results(lines)[-1],
        explicit=True,
        rewound=True,
        cutUuid=answers(lines)[-1]["uuid"],
    ),
    "rewound, and a prompt": lambda lines: prompted(
        remembering(remembering_nothing(lines), results(lines)[-1], explicit=True, rewound=True)
    ),
}
"""A person went back to an earlier line."""
