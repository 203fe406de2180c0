"""What a session is called, and what it is doing."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from ctxtop.core.measure.evidence import NO_EVIDENCE, Evidence
from ctxtop.core.measure.session_building import (
    ACTIVE_MS,
    make_session,
    project_name,
    session_title,
)
from ctxtop.core.model.attention import attention_order
from ctxtop.core.model.context import ContextState
from ctxtop.core.model.context_window import ClaimSource
from ctxtop.core.model.evidence_rows import EvidenceRows, WindowRow
from ctxtop.core.model.session import PromptTooLong, Session, SessionStatus

from ..rows import session_row
from ..transcripts import MODEL, SESSION

NOW = 1_800_000_000_000


def session(**fields: Any) -> Session:
    return make_session(session_row(**fields), NO_EVIDENCE, NOW)


def test_titles_come_in_their_order() -> None:
    names = {
        "live_name": "live",
        "custom_title": "custom",
        "ai_title": "ai",
        "summary_title": "summary",
        "first_prompt": "first",
        "last_prompt": "last",
    }
    found = []
    while names:
        found.append(session_title(session_row(**names)))
        names.pop(next(iter(names)))
    found.append(session_title(session_row()))

    assert found == ["live", "custom", "ai", "summary", "first", "last", "session 11111111"]


@pytest.mark.parametrize(
    ("cwd", "slug", "name"),
    [
        ("/home/dev/proj", "-home-dev-proj", "proj"),
        ("/home/dev/proj/", "-x", "proj"),
        ("C:\\Users\\dev\\proj", "-x", "proj"),
        ("/", "-", "/"),
        (None, "-home-dev-proj", "home-dev-proj"),
        (None, "-", "-"),
    ],
)
def test_a_project_is_named_by_its_folder(cwd: str | None, slug: str, name: str) -> None:
    assert project_name(cwd, slug) == name


@pytest.mark.parametrize(
    ("fields", "status", "live"),
    [
        ({"live_status": "waiting"}, SessionStatus.WAITING, True),
        ({"live_status": "busy"}, SessionStatus.BUSY, True),
        ({"live_status": "idle"}, SessionStatus.IDLE, True),
        ({"live_status": "a word of tomorrow"}, SessionStatus.IDLE, True),
        ({"live_status": "busy", "gone": 1}, SessionStatus.BUSY, True),
        ({"live_status": "idle", "error_kind": "too_long"}, SessionStatus.TOO_LONG, True),
        ({"error_kind": "too_long"}, SessionStatus.TOO_LONG, False),
        ({"error_kind": "rate_limit", "last_at": NOW - 1}, SessionStatus.ACTIVE, True),
        ({"gone": 1, "last_at": NOW}, SessionStatus.GONE, False),
        ({"last_at": NOW}, SessionStatus.ACTIVE, True),
        ({"last_at": NOW - ACTIVE_MS + 1}, SessionStatus.ACTIVE, True),
        ({"last_at": NOW - ACTIVE_MS}, SessionStatus.ENDED, False),
        ({"mtime_ns": NOW * 1_000_000}, SessionStatus.ACTIVE, True),
        ({}, SessionStatus.ENDED, False),
    ],
)
def test_status(fields: dict[str, Any], status: SessionStatus, live: bool) -> None:
    made = session(**fields)

    assert (made.status, made.live) == (status, live)


def test_the_transcripts_own_time_counts_before_the_files() -> None:
    made = session(last_at=NOW - 2 * ACTIVE_MS, mtime_ns=NOW * 1_000_000)

    assert (made.status, made.last_activity_at) == (SessionStatus.ENDED, NOW - 2 * ACTIVE_MS)


def test_a_prompt_that_was_too_long_names_its_sizes() -> None:
    made = session(error_kind="too_long", error_prompt_tokens=210_000, error_limit_tokens=200_000)

    assert made.too_long == PromptTooLong(210_000, 200_000)


def test_another_refusal_is_told_in_the_apis_words() -> None:
    made = session(error_kind="rate_limit", error_detail="slow down")

    assert (made.too_long, made.refusal) == (None, "slow down")


def test_the_window_is_that_of_the_last_answers_model() -> None:
    shown = WindowRow(SESSION, MODEL, None, "2.1.329", 150_000)
    row = session_row(answer_model=MODEL, last_model="claude-old", answer_tokens=75_000)
    made = make_session(row, Evidence(EvidenceRows(reported_windows=(shown,))), NOW)

    assert (made.model, made.context.window.source) == (MODEL, ClaimSource.STATUS_LINE)
    assert made.context.ratio == 0.5


def test_after_a_boundary_the_model_is_still_known() -> None:
    made = session(last_model=MODEL, post_tokens=4_000)

    assert (made.model, made.context.state) == (MODEL, ContextState.ESTIMATED)


def test_before_the_first_answer_the_asked_model_gives_the_window() -> None:
    made = session(asked_model="claude-opus-5-5")

    assert made.context.window.tokens == 1_000_000
    assert made.context.state is ContextState.UNKNOWN


def test_a_model_that_was_chosen_after_the_last_answer_is_the_next_ones() -> None:
    made = session(
        answer_model="claude-haiku-4-5",
        last_model="claude-haiku-4-5",
        answer_tokens=190_000,
        peak_tokens=190_000,
        next_model="claude-sonnet-4-6[1m]",
    )

    assert (made.model, made.context.window.tokens) == ("claude-sonnet-4-6", 1_000_000)
    assert made.context.ratio == 0.19


def test_who_needs_a_person_comes_first() -> None:
    waiting = session(session_id="w", live_status="waiting")
    full = session(session_id="f", live_status="busy", last_at=NOW, answer_tokens=190_000)
    fresh = session(session_id="e", live_status="busy", answer_tokens=1_000)
    ended = session(session_id="o", answer_tokens=199_000)

    ordered = sorted([ended, fresh, full, waiting], key=partial(attention_order, now_ms=NOW))

    assert [made.session_id for made in ordered] == ["w", "f", "e", "o"]


@pytest.mark.parametrize(
    ("version", "unregistered", "status"),
    [
        ("2.1.329", 1, SessionStatus.ENDED),
        ("2.1.330", 1, SessionStatus.ENDED),
        # Its entry was left behind, or there is no registry.
        ("2.1.329", 0, SessionStatus.ACTIVE),
        # Older clients do not register all of their runs.
        ("2.1.300", 1, SessionStatus.ACTIVE),
        (None, 1, SessionStatus.ACTIVE),
    ],
)
def test_the_registry_tells_that_a_session_has_ended(
    version: str | None, unregistered: int, status: SessionStatus
) -> None:
    found = session(client_version=version, is_unregistered=unregistered, last_at=NOW - 1_000)
    assert found.status is status
