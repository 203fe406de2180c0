"""How claims of a size stand beside each other."""

from __future__ import annotations

from ctxtop.core.claims import Claim, Source
from ctxtop.core.context import Context, ContextState
from ctxtop.core.counter import Numbers
from ctxtop.core.reasons import SURENESS, Standing, Subject, reasons_of
from ctxtop.core.trigger import Trigger
from ctxtop.core.window import Window
from ctxtop.tui.evidence_rows import evidence_detail, evidence_listing, facts_of

CLAIMS = (
    Claim(200_000, Source.STATUS_LINE),
    Claim(1_000_000, Source.OTHER_SESSIONS),
    Claim(200_000, Source.API_ERROR),
    Claim(1_000_000, Source.TABLE),
)


def test_the_strongest_is_believed_and_the_others_agree_or_not() -> None:
    found = list(reasons_of(Subject.WINDOW, CLAIMS))
    assert [each.status for each in found] == [
        Standing.BELIEVED,
        Standing.CONTRADICTS,
        Standing.AGREES,
        Standing.REPLACED,
    ]
    assert [each.claim for each in found] == list(CLAIMS)


def test_every_source_has_its_sureness() -> None:
    assert set(SURENESS) == set(Source)


def context() -> Context:
    return Context(
        150_000,
        ContextState.MEASURED,
        Window(200_000, Source.STATUS_LINE),
        Trigger(167_000, Source.TABLE),
        Numbers(150_000, 152_000, 151_000, 149_000),
    )


def test_the_four_numbers_come_first_and_each_is_explained() -> None:
    reasons = tuple(reasons_of(Subject.WINDOW, CLAIMS))
    facts = facts_of(context(), reasons)
    assert [fact.value for fact in facts[:4]] == ["150,000", "152,000", "151,000", "149,000"]
    for fact in facts:
        words = evidence_detail(context(), reasons, fact.key).plain
        assert words.startswith(f"{fact.name}: {fact.value}")
        assert fact.meaning in words


def test_what_contradicts_stands_beside_what_is_believed() -> None:
    reasons = tuple(reasons_of(Subject.WINDOW, CLAIMS))
    words = evidence_detail(context(), reasons, "window status_line").plain
    assert "What contradicts it" in words
    assert "✗ 1,000,000: other sessions of this model and version show it" in words
    other = evidence_detail(context(), reasons, "window other_sessions").plain
    assert "What contradicts it" not in other
    assert "It says something else than what is believed" in other


def test_every_row_has_its_width() -> None:
    reasons = tuple(reasons_of(Subject.WINDOW, CLAIMS))
    for width in (36, 60, 90, 140):
        rows = evidence_listing(context(), reasons, width).rows
        assert {row.content.cell_length for row in rows} == {width}
        assert all("200,000" in row.content.plain for row in rows[4:5])
