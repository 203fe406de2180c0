"""A session that a person moves to another folder (`/cd`) goes on there, and belongs there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.terminal.session_resume import resume_folder

from .lab import SMALL

if TYPE_CHECKING:
    from .lab import Lab


@pytest.mark.usefixtures("terminal")
def test_it_has_the_folder_and_the_project_that_it_was_moved_to(lab: Lab) -> None:
    other = lab.root / "other"
    other.mkdir()
    screen = lab.interactive(model=SMALL)
    screen.ask("Hi. [[say:ok&&&usage:30000]]")
    began = lab.ctxtop().sessions[screen.session_id]
    assert began.project_root == str(lab.project)

    screen.type(f"/cd {other}")
    screen.until(lambda: "Yes, move here" in screen.text(), "the question whether to move")
    screen.press("Down", "Enter")
    screen.until(
        lambda: any(line["type"] == "relocated" for line in lab.transcript(screen.session_id)),
        "the line that says it was moved",
    )

    assert lab.ctxtop().sessions[screen.session_id].project_root == str(other)
    screen.ask("More. [[say:ok&&&usage:31000]]")
    moved = lab.ctxtop().sessions[screen.session_id]
    assert (moved.cwd, moved.project_root) == (str(other), str(other))
    assert (moved.project, resume_folder(moved)) == ("other", str(other))
    assert moved.context.tokens == 31_000
