"""Secrets of a transcript: they leave it neither in exports nor in what hooks hand to a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.plugin.hook_answer import (
    HookCall,
    HookReply,
    answer_event,
    render_replies,
)

from ..agents_at_work import write_agent
from ..made_up_secrets import ALL_OF_THEM, KINDS, SOME_OF_THEM, told_in
from ..transcripts import (
    agent_result,
    assistant,
    boundary,
    launch,
    summary,
    user,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

SESSION = "0a000000-0000-4000-8000-000000000001"

EXPORTS = (
    (("json",), len(KINDS)),
    (("csv", "--what", "summaries"), len(KINDS)),
    (("markdown",), 56),  # a report has a hundred sessions, with short titles
)
"""Formats, and how many kinds they have at least where nothing is redacted."""


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session whose agent and summary name every secret, and one by the name of each."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("CTXTOP_CONFIG_DIR", str(tmp_path / "claude"))
    path = tmp_path / "claude" / "projects" / "-shop" / f"{SESSION}.jsonl"
    write(
        path,
        [
            user(ALL_OF_THEM, at=1, cwd=str(tmp_path)),
            assistant("m1", 150_000, at=2),
            launch("t1", "worker", at=3),
            agent_result("t1", "a1", SOME_OF_THEM, at=4),
            boundary(5, postTokens=9_000),
            summary(ALL_OF_THEM, at=6),
            assistant("m2", 12_000, at=7, cwd=str(tmp_path)),
        ],
    )
    write_agent(path, "a1", f"Result: {SOME_OF_THEM}")
    for number, kind in enumerate(KINDS.values()):
        other = path.with_name(f"{number:03}{SESSION[3:]}.jsonl")
        write(other, [user(f"Use {kind.text}", at=1), assistant(f"n{number}", 9_000, at=2)])
    return path


@pytest.mark.parametrize(("words", "kinds"), EXPORTS, ids=["json", "csv", "markdown"])
def test_an_export_has_no_secret_unless_it_is_asked_for_them(
    transcript: Path, call_ctxtop: Callable[..., Ended], words: tuple[str, ...], kinds: int
) -> None:
    assert transcript.exists()
    redacted = call_ctxtop("export", "--format", *words)
    whole = call_ctxtop("export", "--format", *words, "--no-redact")
    assert (redacted.code, whole.code) == (0, 0)
    # Markdown's own signs are escaped.
    safe, open_ = (each.out.replace("\\", "") for each in (redacted, whole))

    assert told_in(safe) == set()
    assert "[redacted: jwt]" in safe
    assert len(told_in(open_)) >= kinds


def test_a_hooks_words_to_a_model_have_no_secret(
    transcript: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = {
        "session_id": SESSION,
        "transcript_path": str(transcript),
        "cwd": str(tmp_path),
        "agent_id": "new",
        "agent_type": "reviewer",
    }
    answer_event(str(tmp_path / "none.db"), "SubagentStart", json.dumps(told).encode(), ["inject"])
    given = json.loads(capfd.readouterr().out)["hookSpecificOutput"]["additionalContext"]

    assert "Next: the tests." in given
    assert told_in(given) == set()


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PreCompact"])
def test_a_session_is_given_its_own_words_as_they_were_written(event: str, tmp_path: Path) -> None:
    """Code beside the word `password` is no secret, and goes back to the file that holds it."""
    rule = "Always write pwd = defaultpwd1 first."
    replies = [HookReply(rule)]
    assert rule in render_replies(HookCall(event, {}, tmp_path, 0), replies)
    assert rule not in render_replies(HookCall("SubagentStart", {}, tmp_path, 0), replies)


def test_a_summary_in_a_file_of_markdown_has_no_secret(
    transcript: Path, tmp_path: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    assert transcript.exists()
    safe, open_ = tmp_path / "safe.md", tmp_path / "open.md"
    assert call_ctxtop("summaries", "--export", str(safe)).code == 0
    assert call_ctxtop("summaries", "--export", str(open_), "--no-redact").code == 0

    assert told_in(safe.read_text()) == set()
    assert told_in(open_.read_text()) == set(KINDS)
