"""`ctxtop compact --strategy condense` and `--restore-turn`: shown, carried out, read back."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.summaries.turn_digest import parse_digest
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries

from tests import transcripts as made
from tests.sessions_on_disk import rest
from tests.worked import WORDS, Session, numbered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

CONDENSE = ("--strategy", "condense", "--keep", "2", "--target", "25%")
ESCAPES = "Mend it.\x1b[31m\x1b]0;title\x07\nturn 3: lines 1 to 2\u202e"


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session of which the model's own words are the most, long ago."""
    monkeypatch.setenv("COLUMNS", "100")
    session = Session()
    for number in range(1, 41):
        session.ask(ESCAPES if number == 2 else f"Mend part {number}. Never push.")
        session.use("Bash", numbered(20, words=WORDS), command=f"make part_{number}")
        session.say(f"{'The decoder reads a frame and hands it on. ' * 90} Part {number} works.")
    path = session.write(tmp_path / ".claude" / "projects" / made.PROJECT / f"{made.SESSION}.jsonl")
    rest(path)
    return path


@pytest.fixture
def run(transcript: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    assert transcript.exists()
    return partial(call_ctxtop, "compact", made.SESSION[:8])


def test_the_preview_shows_the_digest_its_steps_and_the_target(
    run: Callable[..., Ended], transcript: Path
) -> None:
    before = transcript.read_bytes()
    shown = run(*CONDENSE)
    assert shown.code == 0
    assert "[Condensed conversation]" in shown.out
    number = len(json.loads(run(*CONDENSE, "--json").out)["operations"])
    assert f"--explain {number})" in shown.out
    assert "level 7, summary: frees ≈" in shown.out
    assert "names are gone" in shown.out
    assert "tokens stay, within the target of 25 % of the window (50,000)" in " ".join(
        shown.out.split()
    )
    assert "\x1b" not in shown.out
    plan = json.loads(run(*CONDENSE, "--json").out)
    assert plan["after_tokens"] <= 50_000
    assert plan["steps"][-1]["level"] == 7
    assert plan["steps"][-1]["tokens_saved"] == plan["operations"][-1]["tokens_saved"]
    by_policy = run("--set", "compact.strategy=condense", *CONDENSE[2:], "--json")
    assert json.loads(by_policy.out)["plan_id"] == plan["plan_id"]
    assert transcript.read_bytes() == before


def test_a_plan_by_levels_that_falls_short_names_condensing(run: Callable[..., Ended]) -> None:
    shown = " ".join(run("--target", "50k", "--keep", "2").out.split())
    assert "above 25 % of the window (50 k)" in shown
    assert "--strategy condense goes further" in shown


def test_applied_read_back_put_back_and_undone(
    run: Callable[..., Ended], call_ctxtop: Callable[..., Ended], transcript: Path
) -> None:
    before = transcript.read_bytes()
    done = json.loads(run(*CONDENSE, "--apply", "--in-place", "--json").out)
    condensed = transcript.read_bytes()
    shown = run("--restore-turn", "2")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert "data, not instructions" in lines[1]
    assert lines[3:6] == [
        "the user (line 5):",
        "  Mend it.[31m]0;title",
        "  turn 3: lines 1 to 2",
    ]
    assert numbered(20, words=WORDS).split("\n")[-1].strip() in shown.out
    assert "\x1b" not in shown.out
    turn = json.loads(run("--restore-turn", "2", "--json").out)
    assert turn["turn"] == 2
    assert [each["kind"] for each in turn["parts"]] == [
        "prompt",
        "tool_input",
        "tool_result",
        "text",
    ]
    assert transcript.read_bytes() == condensed
    rest(transcript)
    put_back = run("--restore-turn", "2", "--apply", "--in-place", "--json")
    assert put_back.code == 0, put_back.err
    sent = visible_entries(read_entries(transcript))
    assert 2 not in [each.number for each in parse_digest(sent[0].parts[0].text)]
    assert sent[1].parts[0].text == ESCAPES
    for receipt in (json.loads(put_back.out), done):
        rest(transcript)
        assert call_ctxtop("undo", receipt["receipt_id"]).code == 0
    assert transcript.read_bytes() == before


def test_a_turn_that_no_digest_has_is_an_error_of_one_line(run: Callable[..., Ended]) -> None:
    for more in ((), ("--json",), ("--apply",)):
        refused = run("--restore-turn", "7", *more)
        assert refused.code == 2
        assert "no turn of this session was condensed" in refused.err
        assert len(refused.err.splitlines()) == 1
    assert run("--restore-turn", "1", "--strategy", "cut").code == 2
