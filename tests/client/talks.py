"""Sessions of every kind that the client writes: each is made, and its id given."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import uuid
from typing import TYPE_CHECKING, Any, Final

from . import mcp_server
from .edits import compacted, spoken, write_edited
from .images import png
from .lab import LARGE, SMALL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .lab import Lab

_HOOK: Final = """\
import json, sys
given = json.load(sys.stdin)
said = {"hookEventName": given["hook_event_name"], "additionalContext": "Mind the prices."}
print(json.dumps({"hookSpecificOutput": said}))
"""

SLOWLY: Final = "pause:0.2"
"""So long each event of a stream waits for the next: a tool has run meanwhile."""

LONG_OUTPUT: Final = "seq 1 20000"
"""More than the client shows the model: it keeps the output in a file of its own."""


def path_of(lab: Lab, session_id: str) -> Path:
    (path,) = lab.config.glob(f"projects/*/{session_id}.jsonl")
    return path


def copy_of(path: Path) -> Path:
    """Copy a session, so that it can be edited."""
    new = path.with_name(f"{uuid.uuid4()}.jsonl")
    new.write_bytes(path.read_bytes().replace(path.stem.encode(), new.stem.encode()))
    if path.with_suffix("").is_dir():
        shutil.copytree(path.with_suffix(""), new.with_suffix(""))
    return new


def _side_by_side(lab: Lab) -> str:
    file = _source(lab)
    return lab.turn(
        f"Work. [[read:{file}&&&bash:seq 1 90&&&bash:seq 1 30]]"
        " [[say:Now.&&&bash:seq 1 200&&&bash:seq 2 40]] [[say:ok]]"
    ).session_id


def _streamed(lab: Lab) -> str:
    """Answers that come so slowly that a call's result is there before the next call."""
    file = _source(lab)
    return lab.turn(
        f"Work. [[{SLOWLY}&&&think:a&&&read:{file}&&&bash:seq 1 9&&&say:Now.&&&bash:seq 2 9]]"
        f" [[{SLOWLY}&&&bash:seq 3 9&&&think:b&&&bash:false&&&read:{file}&&&say:Then.]] [[say:ok]]"
    ).session_id


def _thinking(lab: Lab) -> str:
    file = _source(lab)
    session_id = lab.turn(
        f"Begin. [[think:plan&&&bash:seq 1 300]] [[think:more&&&say:Now.&&&read:{file}]]"
        " [[think:T.&&&say:ok]]",
        model=LARGE,
    ).session_id
    lab.turn("Second. [[think:U.&&&bash:seq 3 90]] [[say:y]]", resume=session_id, model=LARGE)
    return session_id


def _another_model(lab: Lab) -> str:
    """Two models thought: neither is sent what the other did."""
    session_id = lab.turn("Go. [[think:a&&&bash:seq 9]] [[say:ok]]", model=LARGE).session_id
    lab.turn("On. [[think:b&&&bash:seq 8]] [[say:ok]]", resume=session_id, model=SMALL)
    lab.turn("Back. [[think:c&&&bash:seq 7]] [[say:ok]]", resume=session_id, model=LARGE)
    return session_id


def _edits(lab: Lab) -> str:
    file, other = _source(lab), lab.project / "b.py"
    return lab.turn(
        f"Edit. [[read:{file}]] [[edit:{file}|price_1 = 1|price_1 = 2]] [[read:{file}]]"
        f" [[write:{other}|{'y = 2;' * 200}]] [[read:{other}]] [[bash:false]] [[say:ok]]"
    ).session_id


def _agents(lab: Lab) -> str:
    lab.define_agent("worker")
    return lab.turn(
        "Delegate. [[agent:worker|Build it <<bash:seq 1 50>> <<say:Built.>>]] [[bash:seq 1 9]]"
        " [[say:ok]]"
    ).session_id


def _images(lab: Lab) -> str:
    first, second = lab.project / "a.png", lab.project / "b.png"
    first.write_bytes(png())
    second.write_bytes(png(shade=7))
    return lab.turn(
        f"Look. [[read:{first}&&&read:{second}]] [[read:{first}]] [[say:ok]]"
    ).session_id


def _hooks(lab: Lab) -> str:
    script = lab.root / "context.py"
    script.write_text(_HOOK, encoding="utf-8")
    command = shlex.join([sys.executable, "-I", str(script)])
    one = {"matcher": "*", "hooks": [{"type": "command", "command": command}]}
    lab.write_settings({"hooks": {name: [one] for name in ("PostToolUse", "UserPromptSubmit")}})
    session_id = lab.turn("Go. [[bash:seq 1 9&&&bash:seq 2 9]] [[bash:seq 3 9]] [[say:ok]]")
    lab.turn("On. [[bash:seq 4 9]] [[say:ok]]", resume=session_id.session_id)
    lab.write_settings({})
    return session_id.session_id


def _compacted_twice(lab: Lab) -> str:
    session_id = _side_by_side(lab)
    lab.turn("/compact keep", resume=session_id)
    lab.turn("Go on. [[bash:seq 1 9&&&bash:seq 3 9]] [[say:ok]]", resume=session_id)
    lab.turn("/compact again", resume=session_id)
    lab.turn("And on. [[bash:seq 5 9]] [[say:ok]]", resume=session_id)
    return session_id


def _kept_tails(lab: Lab) -> str:
    """Two boundaries, the second of which keeps a tail that lies behind the first."""
    session_id = _side_by_side(lab)

    def edit(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return compacted(lines, spoken(lines)[-2:])

    once = write_edited(path_of(lab, session_id), edit)
    lab.turn("More. [[bash:seq 1 40]] [[say:ok]]", resume=once)
    return write_edited(path_of(lab, once), edit)


def _cleared(lab: Lab) -> str:
    """An older client's word that it cleared results: this one sends them whole again."""

    def edit(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        last = [line for line in lines if line.get("uuid")][-1]
        shared = {name: last[name] for name in ("sessionId", "cwd", "version", "timestamp")}
        boundary = shared | {
            "type": "system",
            "subtype": "microcompact_boundary",
            "content": "Context microcompacted",
            "uuid": str(uuid.uuid4()),
            "parentUuid": last["uuid"],
            "isSidechain": False,
            "isMeta": False,
            "level": "info",
            "microcompactMetadata": {
                "trigger": "auto",
                "preTokens": 1000,
                "tokensSaved": 100,
                "compactedToolIds": _called(lines)[:2],
                "clearedAttachmentUUIDs": [],
            },
        }
        return [*(line for line in lines if line["type"] != "last-prompt"), boundary]

    return write_edited(path_of(lab, _side_by_side(lab)), edit)


def _called(lines: list[dict[str, Any]]) -> list[str]:
    return [
        block["tool_use_id"]
        for line in spoken(lines)
        for block in line["message"]["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    ]


def _fork(lab: Lab) -> str:
    session_id = _side_by_side(lab)
    turn = lab.turn(
        "Fork. [[bash:seq 7 9]] [[say:ok]]", resume=session_id, more=("--fork-session",)
    )
    assert turn.session_id != session_id
    return turn.session_id


def _interrupted(lab: Lab) -> str:
    """The session ended while a tool ran: its call has no result."""
    session_id = lab.turn("Run. [[bash:seq 1 9]] [[bash:seq 2 9]] [[say:ok]]").session_id

    def edit(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        calls = [line for line in lines if "toolu_" in json.dumps(line.get("message", ""))]
        last = [line for line in calls if line["type"] == "assistant"][-1]
        return lines[: lines.index(last) + 1]

    return write_edited(path_of(lab, session_id), edit)


def _mcp(lab: Lab) -> str:
    servers = {"shop": {"command": sys.executable, "args": [str(mcp_server.__file__)]}}
    config = lab.root / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return lab.turn(
        'Ask. [[tool:mcp__shop__price|{"item":"tea"}]] [[tool:mcp__shop__stock|{"item":"tea"}]]'
        " [[say:ok]]",
        more=("--mcp-config", str(config)),
    ).session_id


def _long_output(lab: Lab) -> str:
    session_id = lab.turn(f"Print. [[bash:{LONG_OUTPUT}]] [[bash:seq 1 9]] [[say:ok]]").session_id
    assert [*path_of(lab, session_id).with_suffix("").glob("tool-results/*")]
    return session_id


def _commands(lab: Lab) -> str:
    lab.define_skill("polish", "Polish it.")
    session_id = lab.turn('Go. [[tool:Skill|{"skill":"polish"}]] [[say:ok]]').session_id
    lab.turn("/context", resume=session_id)
    lab.turn("/polish now [[bash:seq 1 9]] [[say:ok]]", resume=session_id)
    return session_id


def _refused(lab: Lab) -> str:
    session_id = lab.turn("Go. [[bash:seq 1 9]] [[say:ok]]").session_id
    lab.turn("Fail. [[error:400 messages.1: no]]", resume=session_id)
    return session_id


def _source(lab: Lab) -> Path:
    file = lab.project / "shop.py"
    text = "".join(f"price_{number} = {number}\n" for number in range(120))
    file.write_text(text, encoding="utf-8")
    return file


TALKS: Final[dict[str, Callable[[Lab], str]]] = {
    "side by side": _side_by_side,
    "streamed": _streamed,
    "thinking": _thinking,
    "another model": _another_model,
    "edits": _edits,
    "agents": _agents,
    "images": _images,
    "hooks": _hooks,
    "compacted twice": _compacted_twice,
    "kept tails": _kept_tails,
    "cleared": _cleared,
    "fork": _fork,
    "interrupted": _interrupted,
    "mcp": _mcp,
    "long output": _long_output,
    "commands": _commands,
    "refused": _refused,
}
