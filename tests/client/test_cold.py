"""Cold prompts in the real client: told once, to the person alone, and sent as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.plugin import installed_commands
from ctxtop.collectors.plugin.statusline import render_status_line
from ctxtop.core.model.claude_models import FIVE_MINUTES_MS, HOUR_MS
from ctxtop.core.model.cold_prompt import CacheState, price_rewrite

from .features import hook_command, install
from .lab import SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from .lab import Json, Lab, Turn


def transcript_of(lab: Lab, session_id: str) -> Path:
    (path,) = lab.config.glob(f"projects/*/{session_id}.jsonl")
    return path


def pause(lab: Lab, session_id: str, minutes: int, lifetime: str = "5m") -> None:
    """Make a session's lines older, and let its cache have been written for this long."""
    lines = []
    for fields in lab.transcript(session_id):
        if stamp := fields.get("timestamp"):
            then = datetime.fromisoformat(stamp) - timedelta(minutes=minutes)
            fields["timestamp"] = then.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        usage = fields.get("message", {}).get("usage") if fields["type"] == "assistant" else None
        if usage:
            written = usage["cache_creation_input_tokens"]
            none = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
            usage["cache_creation"] = none | {f"ephemeral_{lifetime}_input_tokens": written}
        lines.append(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))
    text = "\n".join(lines) + "\n"
    transcript_of(lab, session_id).write_text(text, encoding="utf-8")


def told(lab: Lab, session_id: str) -> list[str]:
    """What the client shows of our hook, oldest first."""
    attachments = (line.get("attachment") or {} for line in lab.transcript(session_id))
    return [
        str(each["content"]) for each in attachments if each.get("type") == "hook_system_message"
    ]


def sent(turn: Turn) -> list[Json]:
    """The requests of a turn, without what names its session."""
    bodies = [one["body"] for one in turn.exchanges if one["what"] == "answer"]
    return [
        {name: each[name] for name in ("model", "system", "tools", "messages")} for each in bodies
    ]


def test_a_prompt_within_the_lifetime_is_silent_and_one_past_it_is_told_once(lab: Lab) -> None:
    install(lab, UserPromptSubmit="cold")
    session = lab.turn("Begin. [[say:ok&&&usage:150000]]").session_id
    lab.turn("Go on. [[say:ok&&&usage:151000]]", resume=session)
    assert told(lab, session) == []

    pause(lab, session, 30)
    lab.turn("After lunch. [[say:ok&&&usage:152000]]", resume=session)
    (text,) = told(lab, session)
    assert text.startswith(
        "ctxtop: the prompt cache expired 25 min ago: this prompt writes ≈151k tokens again,"
        " ≈$0.19."
    )
    lab.turn("And on. [[say:ok&&&usage:153000]]", resume=session)
    assert told(lab, session) == [text]


@pytest.mark.parametrize("form", ["hooks", "plugin"])
def test_what_the_command_installs_tells_it_too(lab: Lab, form: str) -> None:
    places = ["--config-dir", str(lab.config), "--db", str(lab.store)]
    words = ["hooks", "install", "--as", form, "--with", "cold", "--no-statusline", "--yes"]
    run = [sys.executable, "-I", "-m", "ctxtop", *places, *words]
    subprocess.run(run, check=True, capture_output=True, env=lab.env)
    session = lab.turn("Begin. [[say:ok&&&usage:150000]]").session_id
    pause(lab, session, 30)
    lab.turn("After lunch. [[say:ok&&&usage:152000]]", resume=session)
    assert len(told(lab, session)) == 1


def test_a_prompt_that_is_told_reaches_the_model_as_every_other(lab: Lab) -> None:
    requests = []
    for features in ("cold", ""):
        install(lab, UserPromptSubmit=features)
        session = lab.turn("Begin. [[say:ok&&&usage:150000]]").session_id
        pause(lab, session, 30)
        turn = lab.turn("After lunch. [[say:ok&&&usage:152000]]", resume=session)
        assert len(told(lab, session)) == bool(features)
        requests.append(sent(turn))
    assert requests[0] == requests[1]
    assert "After lunch" in json.dumps(requests[0])


def test_a_cache_that_lasts_an_hour_is_not_cold_after_half_of_it(lab: Lab) -> None:
    install(lab, UserPromptSubmit="cold")
    session = lab.turn("Begin. [[say:ok&&&usage:150000]]").session_id
    pause(lab, session, 30, "1h")
    lab.turn("Go on. [[say:ok&&&usage:151000]]", resume=session)
    assert told(lab, session) == []

    pause(lab, session, 90, "1h")
    lab.turn("Go on. [[say:ok&&&usage:152000]]", resume=session)
    (text,) = told(lab, session)
    # It was written for an hour, at twice the price of the input.
    assert "expired 30 min ago" in text
    assert "≈$0.30" in text


def test_a_small_session_is_not_told(lab: Lab) -> None:
    install(lab, UserPromptSubmit="cold")
    session = lab.turn("Begin. [[say:ok&&&usage:15000]]").session_id
    pause(lab, session, 30)
    lab.turn("Go on. [[say:ok&&&usage:16000]]", resume=session)
    assert told(lab, session) == []


def test_ctxtop_foresees_what_the_client_says_at_a_resume(lab: Lab) -> None:
    hook = hook_command(lab, "SessionStart")
    logged = json.loads((lab.config / "settings.json").read_text(encoding="utf-8"))["hooks"]
    logged["SessionStart"].append({"hooks": [hook]})
    lab.write_settings({"hooks": logged})
    session = lab.turn("Begin. [[say:ok&&&usage:150000]]").session_id
    pause(lab, session, 30)
    before = lab.ctxtop().sessions[session]
    lab.turn("Go on. [[say:ok&&&usage:152000]]", resume=session)

    (said,) = (one for one in lab.hooks("SessionStart", session) if one["source"] == "resume")
    assert said["prompt_cache_likely_expired"] is True
    assert before.cold_prompt(before.cache.expires_at or 0).state is CacheState.COLD
    cost = price_rewrite(said["context_tokens"], SMALL, FIVE_MINUTES_MS, {})
    assert cost is not None
    assert said["estimated_cache_write_usd"] == pytest.approx(cost.usd, abs=0.0001)
    # The client counts the last answer itself, too.
    assert before.cache.tokens == pytest.approx(said["context_tokens"], rel=0.001)


def test_the_status_line_says_until_when_the_next_prompt_is_cached(lab: Lab) -> None:
    command = installed_commands.statusline_command(lab.store, _status_command(lab))
    lab.write_settings({"statusLine": {"type": "command", "command": command}})
    screen = lab.interactive()
    told_last = screen.ask("Begin. [[say:ok&&&usage:150000]]")
    cache = told_last["prompt_cache"]
    until = datetime.fromtimestamp(cache["expires_at"]).astimezone().strftime("%H:%M")
    assert render_status_line(told_last, {}).endswith(
        f" · cached until {until}, then rewrites 150k"
    )
    screen.until(
        lambda: f"cached until {until}, then rewrites 150k" in screen.text(), "the status line"
    )

    (found,) = lab.ctxtop().sessions.values()
    assert (found.cache.tokens, found.cache.tokens_estimated) == (150_000, False)
    assert found.cache.lifetime_ms == {"5m": FIVE_MINUTES_MS, "1h": HOUR_MS}[cache["ttl"]]
    assert found.cache.expires_at == cache["expires_at"] * 1000
    # It waits for its person, and will be told of two minutes before.
    assert found.cold_notice_at == cache["expires_at"] * 1000 - 120_000


def _status_command(lab: Lab) -> str:
    settings = json.loads((lab.config / "settings.json").read_text(encoding="utf-8"))
    return str(settings["statusLine"]["command"])


def test_a_model_that_was_chosen_since_finds_a_cold_cache(lab: Lab) -> None:
    install(lab, UserPromptSubmit="cold")
    screen = lab.interactive()
    screen.type("Begin. [[say:ok&&&usage:150000]]")
    screen.until(lambda: "● ok" in screen.text(), "the answer")
    screen.until_status("idle")
    session = screen.session_id
    assert lab.ctxtop().sessions[session].cache.is_for_next_model
    screen.type("/model claude-sonnet-4-6")
    screen.until(lambda: "Yes, switch to" in screen.text(), "the question")
    screen.press("Enter")
    screen.until(lambda: "Set model to" in screen.text(), "the choice")
    found = lab.ctxtop().sessions[session]
    assert not found.cache.is_for_next_model
    screen.type("Go on. [[say:fine&&&usage:152000]]")
    screen.until(lambda: bool(told(lab, session)), "what our hook says")
    (text,) = told(lab, session)
    assert text.startswith("ctxtop: another model was chosen")
