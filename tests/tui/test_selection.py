"""Which sessions are shown, in which order, under which headings; and what a filter means."""

from __future__ import annotations

from functools import partial

import pytest
from ctxtop.core.model.attention import attention_order
from ctxtop.core.model.outlook import Forecast, Interval, Outlook
from ctxtop.core.model.session import PromptTooLong, Session, SessionStatus
from ctxtop.core.model.session_activity import PromptCache, SessionCost
from ctxtop.tui.screens.fleet.session_filter import (
    FILTER_KEYS,
    LEVEL_NAMES,
    complete_filter,
    completion_choices,
    parse_filter,
)
from ctxtop.tui.screens.fleet.session_list import (
    FOLD_ENDED_FROM,
    EndedHeading,
    ProjectHeading,
    SessionArrangement,
    SessionOrder,
    arrange_sessions,
)

from .makers import context, session
from .support import NOW_MS

SESSIONS = [
    session(
        session_id="1",
        title="Fix Checkout",
        last_activity_at=3,
        context=context(20_000),
        cost=SessionCost(3.0),
        compactions=2,
    ),
    session(
        session_id="2",
        title="Ändere das",
        project="atlas",
        context=context(150_000),
        live=True,
        status=SessionStatus.BUSY,
        outlook=Outlook(Forecast(Interval(3, 4, 2, 4), None), None),
        cache=PromptCache(NOW_MS + 1),
    ),
    session(
        session_id="3",
        title="checkout again: v2",
        model="claude-opus-5-5",
        last_activity_at=9,
        agents=4,
        agents_noncompliant=1,
        cache=PromptCache(NOW_MS),
    ),
    session(
        session_id="4",
        title="waits",
        git_branch="tax-v2",
        status=SessionStatus.WAITING,
        live=True,
        context=context(1_000),
        cost=SessionCost(0.5),
        outlook=Outlook(Forecast(Interval(30, 40, 20, 40), None), None),
    ),
]

SESSIONS.sort(key=partial(attention_order, now_ms=NOW_MS))


def shown(how: SessionArrangement) -> str:
    return "".join(each.session_id for each in arrange_sessions(SESSIONS, how, NOW_MS).sessions)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", "1234"),
        ("checkout", "13"),
        ("CHECKOUT fix", "1"),
        ("!checkout", "24"),
        ("shop !checkout", "4"),
        ("opus", "3"),
        ("live", "24"),
        ("!live checkout", "13"),
        ("ändere", "2"),
        ("high", "3"),
        ("nothing", ""),
        ("[/foo]", ""),
        ('"fix checkout"', "1"),
        ('"checkout fix"', ""),
        ('!"fix checkout"', "234"),
        ('"fix check', "1"),
        ("level:high", "3"),
        ("level:notice", "2"),
        ("level:notice+", "23"),
        ("!level:notice+", "14"),
        ("level:emergency+", ""),
        ("model:opus", "3"),
        ("model:haiku4", ""),
        ("model:haiku-4", "124"),
        ('model:"haiku 4"', "124"),
        ("project:atlas", "2"),
        ("!project:atlas", "134"),
        ("title:again", "3"),
        ("live:", "24"),
        ("!live:", "13"),
        ("noncompliant:", "3"),
        ("broke:", "3"),
        ("branch:tax", "4"),
        ("tax-v2", "4"),
        ("agents:", "3"),
        ("agent:✗", "3"),
        ("agents:x", "3"),
        ("is:waiting", "4"),
        ("is:working", "2"),
        ("is:ended", "13"),
        ("is:warm", "2"),
        ("is:cold", "3"),
        ("is:pinned", "1"),
        ("is:marked", "2"),
        (">80%", "3"),
        (">=75%", "23"),
        ("<50%", "14"),
        ("!<50%", "23"),
        ("<=0.5%", "4"),
        (">150k", "3"),
        (">=150k", "23"),
        (">0.1m", "23"),
        ("<1000", ""),
        ('"again: v2"', "3"),
        ("10:30", ""),
        ("again:", "3"),
        ("!", "1234"),
        ("level:", "1234"),
    ],
)
def test_words_choose_sessions(words: str, found: str) -> None:
    how = SessionArrangement(
        order=SessionOrder.NAME, pins=("1",), selected=frozenset("2")
    ).with_filter(words)
    assert sorted(shown(how)) == list(found)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", ""),
        ("checkout", ""),
        ("10:30", ""),
        ("http://x", ""),
        ("level:high+", ""),
        ("level:", f"level: {' '.join(LEVEL_NAMES)} high+"),
        ("level:hgih", "level:hgih is not valid. Use notice"),
        ("is:", "is: waiting working"),
        ("is:happy", "is:happy is not valid. Use waiting"),
        ("color:", ""),
        ("color:red", 'unknown filter "color:". Use level:, is:, model:'),
        ("agnts:", 'unknown filter "agnts:". Use level:, is:, model:'),
        ("lvel:high", 'unknown filter "lvel:". Use level:, is:, model:'),
        ('"lvel:high"', ""),
        ("c:\\\\x", ""),
        (">many", ">many is not valid. Use >80%, <50% or >150k"),
        ("live:yes", "live:yes is not valid. Use live:"),
        ("agents:4", "agents:4 is not valid. Use agents: or agents:✗"),
        (f"is:{'x' * 900}", f"is:{'x' * 21} is not valid. Use waiting"),
        ("is:\x1b[31m", "is:"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: str, told: str) -> None:
    wrong = parse_filter(words).error
    assert wrong.startswith(told)
    assert bool(wrong) == bool(told)
    assert "\n" not in wrong
    assert "\x1b" not in wrong


def test_a_prompt_that_is_too_long_is_found() -> None:
    stuck = session(status=SessionStatus.TOO_LONG, too_long=PromptTooLong(None, None))
    found = arrange_sessions(
        sorted([*SESSIONS, stuck], key=partial(attention_order, now_ms=NOW_MS)),
        SessionArrangement().with_filter("is:long"),
        NOW_MS,
    )
    assert found.sessions == (stuck,)


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        (SessionOrder.ATTENTION, "4231"),
        (SessionOrder.FULLEST, "3214"),
        (SessionOrder.SOONEST, "2431"),
        (SessionOrder.NEWEST, "2431"),
        (SessionOrder.COSTLIEST, "1423"),
        (SessionOrder.NONCOMPLIANT, "3421"),
        (SessionOrder.COMPACTIONS, "1423"),
        (SessionOrder.NAME, "2314"),
    ],
)
def test_orders(order: SessionOrder, ids: str) -> None:
    assert shown(SessionArrangement(order=order)) == ids


def test_the_orders_come_around_and_are_found_by_their_words() -> None:
    order, seen = SessionOrder.ATTENTION, []
    for _ in SessionOrder:
        seen.append(order)
        assert SessionOrder.from_word(order.value) is order
        order = order.next
    assert seen == list(SessionOrder)
    assert order is SessionOrder.ATTENTION
    assert SessionOrder.from_word("what nobody knows") is SessionOrder.ATTENTION


def test_pins_stay_on_top_in_every_order_until_they_are_let_go() -> None:
    how = SessionArrangement().toggle_pinned("1").toggle_pinned("3")
    assert how.pins == ("1", "3")
    for order in SessionOrder:
        assert set(shown(SessionArrangement(order=order, pins=how.pins))[:2]) == {"1", "3"}
    assert shown(how.toggle_pinned("1").toggle_pinned("3")) == shown(SessionArrangement())


def test_marks_come_and_go() -> None:
    how = SessionArrangement().toggle_selected("1").toggle_selected("2").toggle_selected("1")
    assert how.selected == {"2"}


def test_groups_come_in_the_order_of_their_first_sessions() -> None:
    arranged = arrange_sessions(SESSIONS, SessionArrangement(grouped=True), NOW_MS)
    keys = [each.session_id if isinstance(each, Session) else each.key for each in arranged.entries]
    assert keys == ["/shop", "4", "3", "1", "/atlas", "2"]
    folded = arrange_sessions(
        SESSIONS, SessionArrangement(grouped=True).with_folded("shop", folded=True), NOW_MS
    )
    assert len(folded.entries) == 3
    assert len(folded.sessions) == 4


def test_a_heading_tells_of_its_sessions() -> None:
    shop, atlas = (
        each
        for each in arrange_sessions(SESSIONS, SessionArrangement(grouped=True), NOW_MS).entries
        if isinstance(each, ProjectHeading)
    )
    assert (shop.live, shop.waiting, shop.fullest.session_id) == (1, 1, "3")
    assert shop.cost == SessionCost(3.5, estimated=True, partial=True)
    assert (atlas.live, atlas.waiting, atlas.cost) == (1, 0, None)


def arranged(how: SessionArrangement, ended: int = FOLD_ENDED_FROM) -> list[object]:
    sessions = [*SESSIONS[:2], *(session(session_id=f"e{n}") for n in range(ended))]
    return list(arrange_sessions(sessions, how, NOW_MS).entries)


def test_sessions_that_have_ended_fold_if_they_are_many() -> None:
    *awake, heading = arranged(SessionArrangement())
    assert awake == SESSIONS[:2]
    assert isinstance(heading, EndedHeading)
    assert (heading.folded, len(heading.sessions)) == (True, FOLD_ENDED_FROM)
    # A few stay in sight, and so do all once somebody unfolded them.
    assert len(arranged(SessionArrangement(), 3)) == 2 + 1 + 3
    unfolded = arranged(SessionArrangement(ended_folded=False))
    assert len(unfolded) == 2 + 1 + FOLD_ENDED_FROM
    assert len(arranged(SessionArrangement(ended_folded=True), 3)) == 3


def test_what_is_asked_for_is_never_folded() -> None:
    for how in (
        SessionArrangement(order=SessionOrder.NEWEST),
        SessionArrangement(grouped=True),
        SessionArrangement().with_filter("checkout"),
    ):
        assert not any(isinstance(each, EndedHeading) for each in arranged(how))
    pinned = arranged(SessionArrangement(pins=("e3",)))
    assert getattr(pinned[0], "session_id", None) == "e3"
    only_ended = arrange_sessions([session()] * 99, SessionArrangement(), NOW_MS)
    assert len(only_ended.entries) == 99


def test_words_of_a_filter_are_known_to_be_highlighted() -> None:
    assert parse_filter("Check -draft level:high title:fix >80% live: x:1").words == (
        "check",
        "fix",
        "x:1",
    )


CHOICES = completion_choices(SESSIONS)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", None),
        ("le", "level:"),
        ("!le", "!level:"),
        ("checkout le", "checkout level:"),
        ("level:h", "level:high"),
        ("!level:em", "!level:emergency"),
        ("level:high", None),
        ("is:w", "is:waiting"),
        ("is:war", "is:warm"),
        ("model:o", "model:opus"),
        ("project:at", "project:atlas"),
        ("project:zz", None),
        ("color:r", None),
        ("zzz", None),
        ("LE", "LEvel:"),
    ],
)
def test_the_last_word_is_completed(typed: str, offered: str | None) -> None:
    assert complete_filter(typed, CHOICES) == offered


def test_every_key_that_is_offered_is_understood() -> None:
    for key in FILTER_KEYS:
        said = parse_filter(key).error
        assert not said.startswith("unknown filter")
