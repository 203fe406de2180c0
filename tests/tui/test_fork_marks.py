"""A fork beside the session that it was made from: its mark, and where it is when it is undone."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.model.attention import Attention, attention
from ctxtop.core.model.session import BRANCH, PromptTooLong
from ctxtop.tui.screens.fleet.session_list import (
    ENDED_KEY,
    EndedHeading,
    SessionArrangement,
    arrange_sessions,
)
from ctxtop.tui.text.ascii_signs import to_ascii
from ctxtop.tui.text.session_text import fork_text, marked_title

from tests import transcripts as made
from tests.sessions_on_disk import rest
from tests.worked import WORDS, Session, numbered

from .makers import session
from .support import NOW_MS, ROOMY, opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended
    from .support import Stage

BRANCH_ID = made.SESSION.replace("1", "6")
TITLE = "mend the decoder"


@pytest.fixture
def transcript(stage: Stage) -> Path:
    """A session that read 20 files, and what Claude Code's /branch made of it."""
    work = Session()
    work.ask(TITLE)
    for number in range(20):
        words = f"{WORDS} part {number}"
        work.use("Read", numbered(90, words=words), file_path=f"/src/{number}.py")
    work.rest(20)
    folder = stage.root / "projects" / made.PROJECT
    path = work.write(folder / f"{made.SESSION}.jsonl")
    source = {"forkedFrom": {"sessionId": made.SESSION, "messageUuid": "u"}}
    work.ask("Or shall we paint it?")
    lines = [line | {"sessionId": BRANCH_ID} | source for line in work.lines]
    rest(made.write(folder / f"{BRANCH_ID}.jsonl", lines))
    rest(path)
    return path


@pytest.fixture
def run(stage: Stage, transcript: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    assert transcript.exists()
    return partial(call_ctxtop, "--config-dir", str(stage.root), "--db", str(stage.places.store))


def listed(run: Callable[..., Ended]) -> dict[str, Any]:
    return {each["session_id"]: each for each in run("sessions", "--json").json}


async def test_a_fork_is_marked_with_what_it_is_everywhere(
    run: Callable[..., Ended], stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    levels = run("compact", made.SESSION, "--level", "4", "--apply", "--json").json
    digest = run(
        *("compact", made.SESSION, "--strategy", "condense", "--target", "3%"),
        *("--apply", "--json"),
    ).json
    fork, condensed = levels["new_session_id"], digest["new_session_id"]
    found = listed(run)
    kinds = {name: (each["forked_from"], each["fork_kind"]) for name, each in found.items()}
    assert kinds == {
        made.SESSION: (None, None),
        BRANCH_ID: (made.SESSION, BRANCH),
        fork: (made.SESSION, "levels"),
        condensed: (made.SESSION, "condense"),
    }
    marks = {BRANCH_ID: "⑂ branch", fork: "⑂ compacted", condensed: "⑂ condensed"}
    table = run("sessions").out
    async with opened(stage, ROOMY) as it:
        rows = it.rows()
    for session_id, mark in marks.items():
        assert f"{mark} of {made.SESSION[:8]}: {TITLE}" in table
        assert f"{mark}: {TITLE}" in rows[session_id]
    assert "⑂" not in rows[made.SESSION]
    assert f"⑂ branch: {TITLE[:10]}" in run("search", "paint").out
    (hit,) = run("search", "paint", "--json").json
    assert (hit["forked_from"], hit["fork_kind"]) == (made.SESSION, BRANCH)
    assert found[fork]["is_fork_undone"] is False
    assert json.loads(run("undo", levels["receipt_id"], "--json").out)["undone"]
    undone = listed(run)
    assert [name for name, each in undone.items() if each["is_fork_undone"]] == [fork]
    assert f"⑂ undone, was compacted of {made.SESSION[:8]}" in run("sessions").out


def test_undone_forks_are_folded_away_with_the_ended_sessions() -> None:
    stuck = PromptTooLong(210_000, 200_000)
    undone = session(session_id="f", fork_kind="levels", is_fork_undone=True, too_long=stuck)
    ended, live = session(session_id="e"), session(session_id="l", live=True)
    assert attention(undone, NOW_MS) is Attention.ENDED
    shown = [live, ended, undone]
    entries = arrange_sessions(shown, SessionArrangement(), NOW_MS).entries
    assert entries == (live, EndedHeading((ended, undone), folded=False, hidden=1), ended)
    unfolded = arrange_sessions(shown, SessionArrangement(ended_folded=False), NOW_MS)
    assert unfolded.entries == (live, EndedHeading((ended, undone), folded=False), ended, undone)
    assert undone in arrange_sessions(shown, SessionArrangement(), NOW_MS).sessions
    heading = entries[1]
    assert isinstance(heading, EndedHeading)
    assert heading.key == ENDED_KEY


def test_the_words_of_a_mark() -> None:
    assert fork_text(session()) == ""
    assert marked_title(session(title="A")) == "A"
    assert marked_title(session(title="A", fork_kind="rollover")) == "⑂ hand-off: A"
    assert fork_text(session(fork_kind="new-one")) == "⑂ new-one"
    assert to_ascii("⑂ cut") == "Y cut"
