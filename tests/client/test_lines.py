"""Whatever the client writes into a transcript, ctxtop knows the kind of line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .lab import Lab
    from .ledger import Judge

OK = "[[say:ok&&&usage:22000]]"
SCHEMA = '{"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}'


def test_without_a_screen(lab: Lab, judge: Judge) -> None:
    below = lab.project / "sub"
    below.mkdir()
    for folder in (lab.project, below):
        (folder / "CLAUDE.md").write_text("Be brief.\n", encoding="utf-8")
        (folder / "a.py").write_text("x = 1\n", encoding="utf-8")
    lab.define_skill("polish", "Polish it.")
    first = lab.turn(f"Look at @a.py, ultrathink. [[read:{below}/a.py&&&usage:21000]] {OK}")
    judge.turn(first)
    (lab.project / "a.py").write_text("x = 2\n", encoding="utf-8")
    for prompt, more in (
        (f'Look at @a.py again. [[tool:Skill|{{"skill": "polish"}}&&&usage:21000]] {OK}', ()),
        (f"/polish now {OK}", ()),
        (f"Plan it. {OK}", ("--permission-mode", "plan")),
        (f'Todo. [[tool:TaskCreate|{{"subject": "a", "description": "b"}}]] {OK}', ()),
        (f'Shape. [[tool:StructuredOutput|{{"a": 1}}]] {OK}', ("--json-schema", SCHEMA)),
        (f"Once. [[bash:echo 1]] [[bash:echo 2]] {OK}", ("--max-turns", "1")),
        ("Dear. [[bash:echo 1&&&usage:90000]] [[wait:3&&&say:ok]]", ("--max-budget-usd", "0.0001")),
        (f"Wrong. [[tool:Nope|{{}}]] [[read:/nope]] {OK}", ()),
        ("/context", ()),
    ):
        judge.turn(lab.turn(prompt, resume=first.session_id, more=more))
    lab.write_settings({"outputStyle": "Explanatory", "language": "german"})
    judge.turn(lab.turn(f"Style. {OK}", resume=first.session_id))


@pytest.mark.usefixtures("terminal")
def test_on_the_screen(lab: Lab, judge: Judge) -> None:
    screen = lab.interactive()
    judge.status(screen.ask(f"Hi. {OK}"))
    screen.type(f"Slow. [[held:{lab.go}&&&bash:echo 1]] {OK}")
    screen.until_status("busy")
    screen.type("And this. [[say:also&&&usage:23000]]")
    lab.let_go()
    judge.status(screen.settle())
    screen.press("BTab")
    judge.status(screen.ask(f"In another mode. {OK}"))
    screen.type("!echo hi")
    screen.settle()
    screen.type("/rename of a new name")
    judge.status(screen.settle())
    assert lab.ctxtop().sessions[screen.session_id].title == "of a new name"
