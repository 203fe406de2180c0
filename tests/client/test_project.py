"""What we say would be sent is what the client sends: after turns, and after edits."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries

from .compacting import resume
from .edits import (
    BOUNDARIES,
    BRANCHES,
    CUTS,
    DAMAGES,
    MARKS,
    REWINDS,
    TORN,
    compacted,
    spoken,
    withdrawn_file,
    write_edited,
)
from .lab import LARGE, SMALL
from .ledger import is_main
from .talks import SLOWLY, TALKS, path_of
from .wire import received, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from .lab import Lab

SIDE_BY_SIDE = (
    "Begin. [[think:plan&&&bash:seq 1 9&&&bash:seq 4 6]] [[bash:seq 7 9]] [[think:T.&&&say:ok]]"
)
LONG = (
    "Begin. [[think:plan&&&bash:seq 1 99&&&bash:seq 4 6]]"
    " [[think:Hm.&&&bash:seq 1 98; false]] [[think:T.&&&say:ok]]"
)
"""With a result that is long, one that is short, and a long error."""

STREAMED = (
    f"Begin. [[{SLOWLY}&&&think:plan&&&bash:seq 1 9&&&bash:seq 4 6]]"
    f" [[{SLOWLY}&&&bash:seq 7 9&&&bash:seq 2 3]] [[think:T.&&&say:ok]]"
)
"""The same with results written between an answer's calls."""

_HOOK = """\
import json, sys
given = json.load(sys.stdin)
said = {"hookEventName": given["hook_event_name"], "additionalContext": given["tool_use_id"]}
print(json.dumps({"hookSpecificOutput": said}))
"""


def test_turns_with_tools_errors_and_compactions(lab: Lab) -> None:
    file = lab.project / "a.py"
    file.write_text("x = 1\n" * 50, encoding="utf-8")
    (lab.project / "CLAUDE.md").write_text("Be careful.\n", encoding="utf-8")
    lab.define_skill("polish", "Polish it.")
    script = lab.root / "context.py"
    script.write_text(_HOOK, encoding="utf-8")
    command = shlex.join([sys.executable, "-I", str(script)])
    hooks = [{"matcher": "*", "hooks": [{"type": "command", "command": command}]}]
    lab.write_settings({"hooks": {"PostToolUse": hooks}})
    session_id = lab.turn(
        f"Work. [[read:{file}&&&bash:seq 1 9&&&bash:seq 1 3]]"
        " [[think:Hm.&&&say:Now.&&&bash:seq 1 9&&&bash:seq 2 4]] [[say:ok]]"
    ).session_id
    resume(lab, session_id, "side by side, with what hooks added")
    lab.write_settings({})
    lab.turn("/context", resume=session_id)
    resume(lab, session_id, "after a local command")
    lab.turn("Fail. [[error:400 messages.1: no]]", resume=session_id)
    resume(lab, session_id, "after an error")
    resume(lab, session_id, "a skill", '[[tool:Skill|{"skill":"polish"}]] [[say:ok]]')
    resume(lab, session_id, "after the skill")
    lab.turn("/compact keep", resume=session_id)
    resume(lab, session_id, "compacted", "Go on. [[bash:seq 1 9&&&bash:seq 3 9]] [[say:ok]]")
    resume(lab, session_id, "after the compaction")
    lab.turn("/compact again", resume=session_id)
    resume(lab, session_id, "compacted again")


@pytest.mark.parametrize(
    ("prompt", "edits"),
    [
        pytest.param(SIDE_BY_SIDE, CUTS, id="cuts"),
        pytest.param(STREAMED, CUTS, id="cuts, streamed", marks=pytest.mark.only_all_pairs),
        pytest.param(SIDE_BY_SIDE, BRANCHES, id="branches"),
        pytest.param(SIDE_BY_SIDE, DAMAGES, id="damages", marks=pytest.mark.only_all_pairs),
        pytest.param(LONG, MARKS, id="marks"),
        pytest.param(LONG, REWINDS, id="rewinds"),
        pytest.param(SIDE_BY_SIDE, BOUNDARIES, id="boundaries", marks=pytest.mark.only_all_pairs),
        pytest.param(STREAMED, BOUNDARIES, id="boundaries, streamed"),
    ],
)
def test_edited_transcripts(
    lab: Lab, prompt: str, edits: dict[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]]
) -> None:
    path = path_of(lab, lab.turn(prompt).session_id)
    for what, edit in edits.items():
        resume(lab, write_edited(path, edit), what)


def test_a_file_that_was_withdrawn(lab: Lab) -> None:
    path = path_of(lab, lab.turn("Begin. [[say:ok]]").session_id)
    session_id = write_edited(path, withdrawn_file)
    sent = "".join(told(visible_entries(read_entries(path_of(lab, session_id)))))
    turn = lab.turn("Next. [[say:ok]]", resume=session_id)
    (asked,) = (one for one in turn.exchanges if is_main(one, session_id))
    real = "".join(received(asked["body"]["messages"]))
    _, _, text = sent.partition("@-mentioned/x.txt")
    assert text.strip(".") in real, "the client also writes the file's size"
    assert "WHOLE" not in sent + real


def test_a_torn_end(lab: Lab) -> None:
    path = path_of(lab, lab.turn(SIDE_BY_SIDE).session_id)
    resume(lab, write_edited(path, lambda lines: lines, TORN), "torn")


def test_kept_lines_that_were_removed(lab: Lab) -> None:
    path = path_of(lab, lab.turn(SIDE_BY_SIDE).session_id)

    def removed(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = spoken(lines)[-2:]
        return [line for line in compacted(lines, kept) if line not in kept]

    resume(lab, write_edited(path, removed), "removed")


@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_an_agent_that_ends_while_its_parent_works(lab: Lab, model: str) -> None:
    lab.define_agent("worker")
    session_id = lab.turn(
        "Delegate. [[agent:worker|Build it <<say:Built.>>]] [[bash:sleep 4]] [[say:ok]]",
        model=model,
    ).session_id
    assert b'"type":"queued_command"' in path_of(lab, session_id).read_bytes()
    resume(lab, session_id, "told at work")


@pytest.mark.parametrize("kind", TALKS)
def test_sessions_of_every_kind(lab: Lab, kind: str) -> None:
    session_id = TALKS[kind](lab)
    resume(lab, session_id, kind)
    resume(lab, session_id, f"{kind}, again", "Again. [[bash:seq 1 9]] [[say:ok]]")
