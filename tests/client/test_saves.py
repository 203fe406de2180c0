"""A save as claude-memory makes it, played by the real client: its noise is what stands there."""

from __future__ import annotations

import json
import shlex
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.readers import fleet_reader
from ctxtop.core.readers.saves_reader import read_saves
from ctxtop.core.saves.save_metrics import BandPosition
from ctxtop.core.saves.save_noise import NoiseClass, Saver
from ctxtop.core.saves.save_status import SaveState
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder

if TYPE_CHECKING:
    from ctxtop.core.saves.project_saves import ProjectSaves

    from .lab import Json, Lab
    from .ledger import Judge

# Blocks once a session, as memory_triage.py does; and says once what was saved.
_STOP = """\
import json, os, sys
given, staging = json.load(sys.stdin), sys.argv[1]
if given.get("stop_hook_active") or os.path.exists(staging + "/.triage-handled"):
    sys.exit(0)
os.makedirs(staging, mode=0o700, exist_ok=True)
def put(name, said):
    with open(f"{staging}/{name}", "w") as file:
        json.dump(said, file)
put("triage-data.json", {"categories": [{"category": "decision", "score": 0.7}]})
put(".triage-handled", {"session_id": given["session_id"], "state": "pending", "pid": 1})
reason = (
    "The following items should be saved as memories before stopping:\\n"
    "- [DECISION] use PG (score 0.72)\\n\\n"
    f"<triage_data_file>{staging}/triage-data.json</triage_data_file>"
)
print(json.dumps({"decision": "block", "reason": reason}))
"""
_PROMPT = """\
import json, os, sys
path = sys.argv[1] + "/last-save-result.json"
if os.path.exists(path):
    said = json.load(open(path))
    os.unlink(path)
    words = f"Memories saved ({', '.join(said['categories'])}): {', '.join(said['titles'])}"
    print(f"<memory-note>{words}</memory-note>")
"""
_SAVE = """\
import json, os, sys
staging = sys.argv[1]
said = {"saved_at": "2026-11-20T10:00:00Z", "categories": ["decision"], "titles": ["Use PG"]}
with open(staging + "/last-save-result.json", "w") as file:
    json.dump(said, file)
os.unlink(staging + "/triage-data.json")
print("1\\n2\\n3\\n4\\nSaved: decision (create)")
"""


def install(lab: Lab) -> str:
    """Install the plugin's hooks in the lab's client; return the command that saves."""
    staging = str(lab.project / ".claude/memory/.staging")
    commands = {}
    for name, text in (("stop", _STOP), ("prompt", _PROMPT), ("memory_orchestrate", _SAVE)):
        (lab.root / f"{name}.py").write_text(text, encoding="utf-8")
        words = [sys.executable, "-I", str(lab.root / f"{name}.py"), staging]
        commands[name] = shlex.join(words)

    def hook(name: str) -> list[Json]:
        return [{"hooks": [{"type": "command", "command": commands[name]}]}]

    lab.write_settings({"hooks": {"Stop": hook("stop"), "UserPromptSubmit": hook("prompt")}})
    return commands["memory_orchestrate"]


def look(lab: Lab) -> ProjectSaves:
    with closing(Writer(lab.store)) as writer:
        Collector(ClaudeFolder(lab.config.resolve()), writer, Recorder()).scan_and_measure_saves()
    with closing(open_reader(lab.store)) as db:
        now = time.time_ns() // 1_000_000
        found = read_saves(db, fleet_reader.read_sessions(db, now), now)
    (save,) = (each for each in found.projects if each.project == str(lab.project))
    return save


def test_the_noise_of_a_save_is_what_the_transcript_shows(lab: Lab, judge: Judge) -> None:
    save = install(lab)
    lab.define_agent("memory-drafter")
    turn = lab.turn(
        "Work. [[say:Done.&&&usage:21000/50]]"
        " [[agent:memory-drafter|Draft <<say:Drafted.+++usage:9000>>&&&usage:21700]]"
        f" [[bash:{save}&&&usage:22100]]"
        " [[say:Saved: decision (create)&&&usage:22500/20]]"
    )
    judge.turn(turn)
    saved = look(lab)

    assert saved.status.state is SaveState.SAVED
    assert saved.status.titles == ("Use PG",)
    # An agent in the background ends with a notification, which is a prompt to the hooks: the
    # plugin's one confirmation goes to the session that saved.
    assert saved.was_confirmed
    (measured,) = saved.saves
    noise = measured.noise
    # The hook's words are 5 lines with the client's own; the agent's call and its two returns
    # one each; the script's call one, its result three and how many more; then the last words,
    # and what is said of the agent's notification.
    lines = lab.transcript(turn.session_id)
    block = next(each for each in lines if _is_block(each))
    words = block["message"]["content"]
    assert noise.classes[NoiseClass.TRIAGE].lines == len(words.splitlines()) == 5
    calls = [
        each
        for line in lines
        if line["type"] == "assistant"
        for each in line["message"]["content"]
        if each["type"] == "tool_use"
    ]
    assert noise.items == len(calls) == 2
    returns = [each for each in lines if _is_return(each)]
    answers = [
        line["message"]
        for line in lines[lines.index(block) :]
        if line["type"] == "assistant" and line["message"]["content"][0]["type"] == "text"
    ]
    assert noise.lines == 5 + (1 + 1 + len(returns)) + (1 + 4) + len(answers)
    last = [line for line in lines if line["type"] == "assistant"][-1]["message"]["usage"]
    assert noise.tokens == _whole(last) - (21_000 + 50)
    assert not noise.is_estimated
    assert noise.saver is Saver.SCRIPT
    assert noise.agents == noise.agents_in_background == 1
    assert noise.said == ("decision (create)",)
    expected = next(each for each in measured.bands if each.is_expected)
    assert (expected.band.name, expected.lines) == ("004-16", BandPosition.ABOVE)

    judge.turn(lab.turn("Next. [[say:ok&&&usage:24000]]", resume=turn.session_id))
    after = look(lab)
    assert after.saves[0].noise.closed
    assert after.saves[0].noise.lines == noise.lines
    assert after.status.state is SaveState.SAVED
    assert after.was_confirmed
    assert after.confirmed_at is not None
    assert after.refires == 0


def _is_return(line: Json) -> bool:
    """The result of an agent that ends during its parent's turn arrives as a queued command."""
    queued = line.get("attachment", {})
    told = queued.get("prompt") if queued.get("type") == "queued_command" else line.get("origin")
    return "task-notification" in json.dumps(told)


def _is_block(line: Json) -> bool:
    return bool(line.get("isMeta")) and "Stop hook feedback" in json.dumps(line["message"])


def _whole(usage: Json) -> int:
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return int(sum(usage[name] for name in (*names, "output_tokens")))
