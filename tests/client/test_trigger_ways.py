"""`ctxtop trigger` against the real client: every way, and every reason not to."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.plugin.answers.confirm import take_confirmation
from ctxtop.collectors.plugin_files import compact_requests

from ..trusting import accept_trust_dialog
from .plugin import install_module

if TYPE_CHECKING:
    from .lab import Json, Lab
    from .namespace import Ended
    from .screen import Screen

pytestmark = pytest.mark.usefixtures("terminal")

SOON_S = 3.0
"""From the request to the boundary, of which the scripted summary takes nothing; and of the
command, beyond what it takes to find that there is no such session. On a busy machine it takes
longer, as everything does: five times as long as that."""

BUSY_TIMES = 5

DIALOG = "❯ 1. Yes"

FILLED = "Hi. [[bash:seq 1 3&&&usage:21000]] [[say:ok&&&usage:52000/12]]"


def trigger(lab: Lab, session_id: str, *words: str) -> Ended:
    """Run the command where the client runs."""
    argv = [sys.executable, "-m", "ctxtop", "trigger", session_id, *words]
    argv += ["--config-dir", str(lab.config), "--db", str(lab.store), "--json"]
    tools = lab.root / "bin"
    if not tools.exists():
        tools.mkdir()
        (tools / "claude").symlink_to(lab.client)
    env = lab.env | {"PATH": f"{tools}:{lab.env['PATH']}"}
    return lab.namespace.run(argv, lab.root, env, 120.0)


def soon_s(lab: Lab) -> float:
    """How soon is soon on this machine at this time."""
    return max(SOON_S, BUSY_TIMES * refusal_seconds(lab))


def refusal_seconds(lab: Lab) -> float:
    """Time the command where it asks for nothing: most of it is the start of Python."""
    began = time.monotonic()
    assert trigger(lab, "ffffffff").code != 0
    return seconds(began, "a session that is not there")


def boundaries(lab: Lab, session_id: str) -> list[Json]:
    return [
        line for line in lab.transcript(session_id) if line.get("subtype") == "compact_boundary"
    ]


def seconds(began: float, what: str) -> float:
    took = time.monotonic() - began
    print(f"{what}: {took:.2f} s")
    return took


def require_compacted(
    lab: Lab, session_id: str, ended: Ended, via: str, summary_s: float = 0.0
) -> Json:
    """The receipt says what the transcript says, and the boundary came soon after the summary."""
    assert ended.code == 0, ended.err
    said: Json = json.loads(ended.out)
    asked = datetime.fromisoformat(said["requested_at"])
    at = datetime.fromisoformat(boundaries(lab, session_id)[-1]["timestamp"])
    took = (at - asked).total_seconds()
    print(f"{via}: from the request to the boundary: {took:.2f} s")
    assert took - summary_s < soon_s(lab)
    last = boundaries(lab, session_id)[-1]
    sizes = last["compactMetadata"]
    assert said["via"] == via
    assert said["boundary_uuid"] == last["uuid"]
    assert (said["pre_tokens"], said["post_tokens"]) == (sizes["preTokens"], sizes["postTokens"])
    # With the system prompt and the tools, as the list of sessions shows it.
    listed = lab.ctxtop().sessions[session_id].context.tokens
    assert said["estimated_next_tokens"] == listed > sizes["postTokens"]
    return said


def seen_summary(lab: Lab) -> str:
    (asked,) = [one for one in lab.new_exchanges() if one["what"] == "summary"]
    return json.dumps(asked["body"]["messages"][-1])


def with_module(lab: Lab) -> Screen:
    screen = lab.interactive("--plugin-dir", str(install_module(lab)))
    screen.until(
        lambda: any(Path(compact_requests.request_history_folder(str(lab.store))).glob("*.alive")),
        "the module",
    )
    return screen


def test_an_idle_session_is_compacted_through_the_plugin(lab: Lab) -> None:
    screen = with_module(lab)
    screen.ask(FILLED)
    session_id = screen.session_id
    began = time.monotonic()
    ended = trigger(lab, session_id, "keep the names")
    took = seconds(began, "plugin: from the command to its end")
    require_compacted(lab, session_id, ended, "plugin")
    assert took - refusal_seconds(lab) < soon_s(lab)
    assert "keep the names" in seen_summary(lab)
    told = take_confirmation(str(lab.store), session_id)
    # With the system prompt and the tools, as the list of sessions has it.
    assert told
    assert re.fullmatch(r"ctxtop compacted this session: 52k → [12]\dk tokens\.", told)
    assert take_confirmation(str(lab.store), session_id) is None
    # The conversation goes on as after the client's own.
    screen.ask("On. [[say:ok&&&usage:9000]]")


def test_the_next_prompt_is_told_once(lab: Lab) -> None:
    hook = [sys.executable, "-I", "-m", "ctxtop.collectors.plugin.hook", str(lab.store)]
    command = shlex.join([*hook, "UserPromptSubmit", "confirm"])
    own = json.loads((lab.config / "settings.json").read_text(encoding="utf-8"))["hooks"]
    own["UserPromptSubmit"].append({"hooks": [{"type": "command", "command": command}]})
    lab.write_settings({"hooks": own})
    screen = with_module(lab)
    screen.ask(FILLED)
    assert trigger(lab, screen.session_id).code == 0
    for usage in (9_000, 9_100):
        screen.ask(f"On. [[say:ok&&&usage:{usage}]]")
    lab.new_exchanges()
    sent = json.dumps(lab.exchanges[-1]["body"]["messages"])
    assert sent.count("ctxtop compacted this session: 52k") == 1


def test_a_summary_that_fails_is_said(lab: Lab) -> None:
    screen = with_module(lab)
    screen.ask(FILLED)
    ended = trigger(lab, screen.session_id, "SUMMARY FAILS")
    assert ended.code == 1, ended.err
    print(ended.err)
    assert boundaries(lab, screen.session_id) == []
    assert "but it failed" in str(take_confirmation(str(lab.store), screen.session_id))


def test_a_long_summary_is_waited_for(lab: Lab) -> None:
    screen = with_module(lab)
    screen.ask(FILLED)
    began = time.monotonic()
    ended = trigger(lab, screen.session_id, "SUMMARY TAKES 14 S")
    assert seconds(began, "plugin, a summary of 14 s") > 14
    require_compacted(lab, screen.session_id, ended, "plugin", summary_s=14)


def test_an_idle_session_is_compacted_through_tmux(lab: Lab) -> None:
    screen = lab.interactive()
    screen.ask(FILLED)
    session_id = screen.session_id
    began = time.monotonic()
    ended = trigger(lab, session_id, "keep every word of the plan and", "of the names " * 12)
    took = seconds(began, "tmux: from the command to its end")
    require_compacted(lab, session_id, ended, "tmux")
    assert took - refusal_seconds(lab) < 2 * soon_s(lab)
    assert "keep every word of the plan and of the names" in seen_summary(lab)
    screen.ask("On. [[say:ok&&&usage:9000]]")
    # Without a text a menu of commands is open when Enter comes.
    require_compacted(lab, session_id, trigger(lab, session_id, "--via", "tmux"), "tmux")
    screen.ask("On. [[say:ok&&&usage:9000]]")


def test_a_busy_session_is_refused_both_ways(lab: Lab) -> None:
    screen = with_module(lab)
    screen.ask(FILLED)
    screen.type(f"Think. [[held:{lab.go}&&&say:ok&&&usage:22000]]")
    screen.until_status("busy")
    for via in ("plugin", "tmux", "auto"):
        ended = trigger(lab, screen.session_id, "--via", via)
        assert ended.code == 3, ended.err
        assert "busy" in ended.err
    assert trigger(lab, screen.session_id, "--via", "cli").code == 3
    # What ctxtop could not see the client itself refuses.
    store, request = str(lab.store), "0123456789abcdef"
    path = compact_requests.request_path(store, screen.session_id, request, compact_requests.ASK)
    expires = {"text": "", "expires_at": compact_requests.now_ms() + 30_000}
    about = {"session_id": screen.session_id, "request": request}
    compact_requests.write_request_file(path, about | expires)
    result = Path(
        compact_requests.request_history_folder(store), f"{screen.session_id}.{request}.result"
    )
    screen.until(result.exists, "the refusal")
    said = compact_requests.read_request_file(str(result))
    assert said["state"] == "refused"
    assert "a turn is running" in said["why"]
    assert boundaries(lab, screen.session_id) == []
    lab.let_go()
    screen.settle()


def test_a_pane_is_not_touched_where_that_is_not_safe(lab: Lab) -> None:
    screen = lab.interactive()
    session_id = screen.session_id
    screen.ask(FILLED)
    screen._tmux("send-keys", "-t", "lab", "-l", "a draft of mine")
    screen.until(lambda: "a draft of mine" in screen.text(), "the draft")
    ended = trigger(lab, session_id)
    assert (ended.code, "not empty" in ended.err) == (4, True)
    assert "❯\xa0a draft of mine" in screen.text()
    screen.press("C-u")
    screen._tmux("copy-mode", "-t", "lab")
    assert trigger(lab, session_id).code == 4
    screen._tmux("send-keys", "-t", "lab", "-X", "cancel")
    screen.type('Fetch. [[tool:WebFetch|{"url": "http://127.0.0.1:1/x", "prompt": "?"}]]')
    screen.until_status("waiting")
    screen.until(lambda: DIALOG in screen.text(), "the dialog")
    ended = trigger(lab, session_id)
    assert (ended.code, "waiting for your answer" in ended.err) == (4, True)
    assert DIALOG in screen.text()
    screen.press("Escape")
    assert boundaries(lab, session_id) == []


def test_a_closed_session_is_compacted_by_a_run_of_its_own(lab: Lab) -> None:
    turn = lab.turn("Hi. [[bash:seq 1 9&&&usage:20000]] [[say:ok&&&usage:57500/12]]")
    (path,) = lab.config.glob(f"projects/*/{turn.session_id}.jsonl")
    assert trigger(lab, turn.session_id).code == 4
    os.utime(path, (time.time() - 60, time.time() - 60))
    assert trigger(lab, turn.session_id, "--via", "plugin").code == 2
    accept_trust_dialog(lab.config / ".claude.json", lab.project)
    began = time.monotonic()
    ended = trigger(lab, turn.session_id, "keep the plan")
    seconds(began, "cli: from the command to its end")
    require_compacted(lab, turn.session_id, ended, "cli")
    assert "keep the plan" in seen_summary(lab)


def test_what_cannot_be_asked(lab: Lab) -> None:
    turn = lab.turn("Hi. [[say:ok&&&usage:20000]]")
    assert trigger(lab, "no-such-session").code == 2
    ended = trigger(lab, turn.session_id, "one\ntwo")
    assert (ended.code, "line breaks" in ended.err) == (2, True)


def test_a_session_without_a_conversation_has_nothing_to_compact(lab: Lab) -> None:
    screen = with_module(lab)
    screen.ask(FILLED)
    first = screen.session_id
    screen.type("/clear")
    screen.until(lambda: screen.session_id != first, "the new session")
    assert trigger(lab, screen.session_id).code == 2
