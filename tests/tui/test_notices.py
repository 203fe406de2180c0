"""What is told: found between two views, gathered, once, and only what is wanted."""

from __future__ import annotations

from dataclasses import replace as replaced

from ctxtop.core.activity import Doing, DoingKind
from ctxtop.core.levels import Level, LevelWarning, Line, Point
from ctxtop.core.policy.layers import BUILT_IN, Given, resolve
from ctxtop.core.policy.policy import Origin
from ctxtop.core.sessions import Session, Status, TooLong
from ctxtop.core.warning_log import ContextWarning
from ctxtop.tui.notices import (
    Kind,
    Notice,
    Told,
    Weight,
    between,
    gather,
    of_level,
    wanted_of,
    ways_in_words,
)
from ctxtop.tui.view import View, Wish
from msgspec.structs import replace

from .makers import context, session
from .support import NOW_MS

IDLE = session(status=Status.IDLE, live=True)


def view(*sessions: Session, scanned: bool = True) -> View:
    return View(sessions, (), (), Wish(), NOW_MS, None, scanned)


def found(before: Session | None, after: Session, since_ms: int = 0) -> list[Notice]:
    sessions = (before,) if before else ()
    return list(between(view(*sessions), view(after), since_ms))


def test_a_session_that_begins_to_wait_is_told_with_what_for() -> None:
    asked = Doing(DoingKind.PERSON, "Bash [red]rm[/red]")
    waiting = replace(IDLE, status=Status.WAITING, activity=asked)
    (notice,) = found(IDLE, waiting)
    assert (notice.kind, notice.severity) == (Kind.WAITING, Weight.WARNING)
    assert notice.body == f"{IDLE.title}\nBash [red]rm[/red]"
    assert found(waiting, waiting) == []
    unregistered = replace(IDLE, status=Status.ACTIVE, activity=asked)
    assert [each.kind for each in found(IDLE, unregistered)] == [Kind.WAITING]
    assert found(unregistered, waiting) == []
    assert found(waiting, replace(waiting, title="x")) == []
    assert [each.kind for each in found(None, waiting)] == [Kind.WAITING]


def test_what_is_old_is_not_told() -> None:
    waiting = replace(IDLE, status=Status.WAITING)
    assert found(None, waiting, since_ms=NOW_MS) == []
    assert list(between(view(IDLE, scanned=False), view(waiting), 0)) == []


def test_a_compaction_names_what_it_freed() -> None:
    after = replace(IDLE, compactions=1, context=context(8_000))
    (notice,) = found(IDLE, after)
    assert notice.body.endswith("172 k → 8 k tokens")
    assert found(None, after) == []


def test_a_prompt_that_is_too_long_is_a_trouble() -> None:
    (notice,) = found(IDLE, replace(IDLE, too_long=TooLong(210_000, 200_000)))
    assert notice.severity is Weight.TROUBLE
    assert f"`ctxtop recover {IDLE.session_id[:8]}`" in notice.body


def test_agents_that_broke_their_rule_are_told_where_that_is_wanted() -> None:
    (notice,) = found(replace(IDLE, agents_noncompliant=1), replace(IDLE, agents_noncompliant=3))
    assert "2 agents did not compress" in notice.body
    assert not wanted_of(BUILT_IN).includes(notice)
    assert replaced(wanted_of(BUILT_IN), agents=True).includes(notice)
    assert (
        found(replace(IDLE, agents_noncompliant=None), replace(IDLE, agents_noncompliant=0)) == []
    )


def level(name: Level, number: int = 1) -> ContextWarning:
    point = Point(NOW_MS, 0.86, tokens=172_000)
    return ContextWarning("s", None, LevelWarning(Line(0.85, name, "0.85"), point), number)


def test_levels_below_the_wanted_one_are_not_told() -> None:
    low, high = (of_level("t", level(each)) for each in (Level.WARNING, Level.HIGH))
    policy = resolve([Given("notify.level", "high", Origin.USER_FILE, "f")])
    assert [wanted_of(policy).includes(each) for each in (low, high)] == [False, True]
    nothing = resolve([Given("notify.level", "off", Origin.USER_FILE, "f")])
    assert not wanted_of(nothing).includes(high)


def test_ten_at_once_are_one_with_their_number() -> None:
    ten = [
        Notice(Kind.LEVEL, f"k{n}", "high", "w", Weight.WARNING, f"session {n}", Level.HIGH)
        for n in range(10)
    ]
    other = Notice(Kind.WAITING, "w", "waits", "x", subject="x")
    one, two = gather([*ten, other])
    assert one.title == "10 contexts reached a level"
    assert one.body == "session 0, session 1, session 2 and 7 more"
    assert one.severity is Weight.WARNING
    assert two == other
    assert gather(ten[:2]) == ten[:2]


def test_nothing_is_told_twice_and_the_oldest_is_forgotten() -> None:
    told = Told(2)
    a, b, c = (Notice(Kind.DONE, key, "", "") for key in "abc")
    assert told.take_new([a, b, a]) == [a, b]
    assert told.take_new([a, c]) == [c]
    assert told.take_new([a]) == [a]


def test_where_every_way_is_off_it_says_which_keys_turn_them_on() -> None:
    off = replaced(wanted_of(BUILT_IN), toast=False)
    assert "notify.desktop" in ways_in_words(off, "off", "")
    on = replaced(off, toast=True, bell=True)
    assert ways_in_words(on, "osc9", "in tmux") == "told by toast, bell, osc9 (in tmux)"
