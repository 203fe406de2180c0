"""A plan that the client shows: what it is at meanwhile, and what is kept of the plan."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.model.session import SessionStatus
from ctxtop.core.model.session_activity import ActivityKind
from ctxtop.core.store.database import open_reader

from ..stored import stored_summaries

if TYPE_CHECKING:
    from .lab import Lab

OK = "[[say:ok&&&usage:22000]]"
PLAN = r"# The plan\n\n1. First\n2. Second"


@pytest.mark.usefixtures("terminal")
def test_a_plan_waits_for_a_person_and_is_kept(lab: Lab) -> None:
    screen = lab.interactive("--permission-mode", "plan")
    screen.ask(f"Hello. {OK}")
    told = [line.get("attachment") or {} for line in lab.transcript(screen.session_id)]
    (place,) = (each["planFilePath"] for each in told if each.get("type") == "plan_mode")
    write = f'[[tool:Write|{{"file_path": "{place}", "content": "{PLAN}"}}]]'
    screen.type(f"Plan it. {write} [[tool:ExitPlanMode|{{}}&&&usage:21000]] {OK}")
    screen.until_status("waiting")
    screen.until(lambda: lab.has_called("ExitPlanMode"), "the call")

    session = lab.ctxtop().sessions[screen.session_id]
    assert session.status is SessionStatus.WAITING
    assert session.activity is not None
    assert session.activity.kind is ActivityKind.PERSON
    assert session.activity.detail.startswith("ExitPlanMode: # The plan")

    def approved() -> bool:
        screen.press("Enter")
        return screen.entry().get("status") != "waiting"

    # For a moment the client takes no key: nobody is to approve what came up while they typed.
    screen.until(approved, "the approval")
    screen.settle()
    store = lab.root / "plan.db"
    session = lab.ctxtop(store).sessions[screen.session_id]
    assert session.activity is None
    with closing(open_reader(store)) as db:
        (row,) = stored_summaries(db)
    assert (row.kind, row.text) == ("plan", PLAN.replace(r"\n", "\n"))


@pytest.mark.usefixtures("terminal")
def test_a_tool_in_flight_is_named(lab: Lab) -> None:
    screen = lab.interactive()
    screen.type(f"Slow. [[bash:until [ -e {lab.go} ]; do sleep 0.1; done]] {OK}")
    screen.until(lambda: lab.has_called("Bash"), "the call")
    doing = lab.ctxtop().sessions[screen.session_id].activity
    assert doing is not None
    assert (doing.kind, doing.what) == (ActivityKind.TOOL, "Bash")
    assert doing.detail.startswith("until [ -e ")
    lab.let_go()
    screen.settle()
    doing = lab.ctxtop().sessions[screen.session_id].activity
    assert doing is None
