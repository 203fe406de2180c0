"""How claims of a size stand beside each other."""

from __future__ import annotations

from ctxtop.core.measure.evidence import (
    ClaimStatus,
    ClaimSubject,
    assess_claims,
)
from ctxtop.core.model.context import Context, ContextState, TokenCounts
from ctxtop.core.model.context_window import Certainty, Claim, ClaimSource, Trigger, Window
from ctxtop.tui.entities.context_breakdown import number_sources, source_detail, sources_listing

CLAIMS = (
    Claim(200_000, ClaimSource.STATUS_LINE),
    Claim(1_000_000, ClaimSource.OTHER_SESSIONS),
    Claim(200_000, ClaimSource.API_ERROR),
    Claim(1_000_000, ClaimSource.TABLE),
)


def test_the_strongest_is_believed_and_the_others_agree_or_not() -> None:
    found = list(assess_claims(ClaimSubject.WINDOW, CLAIMS))
    assert [each.status for each in found] == [
        ClaimStatus.BELIEVED,
        ClaimStatus.CONTRADICTS,
        ClaimStatus.AGREES,
        ClaimStatus.REPLACED,
    ]
    assert [each.claim for each in found] == list(CLAIMS)


def test_every_source_has_its_sureness_and_the_surest_is_the_strongest() -> None:
    ranks = [list(Certainty).index(source.certainty) for source in ClaimSource]
    assert ranks == sorted(ranks)
    assert all(source.description for source in ClaimSource)


def context() -> Context:
    return Context(
        150_000,
        ContextState.MEASURED,
        Window(200_000, ClaimSource.STATUS_LINE),
        Trigger(167_000, ClaimSource.TABLE),
        TokenCounts(150_000, 152_000, 151_000, 149_000),
    )


def test_the_four_numbers_come_first_and_each_is_explained() -> None:
    reasons = tuple(assess_claims(ClaimSubject.WINDOW, CLAIMS))
    facts = number_sources(context(), reasons)
    assert [fact.value for fact in facts[:4]] == ["150,000", "152,000", "151,000", "149,000"]
    for fact in facts:
        words = source_detail(fact, reasons).plain
        assert words.startswith(f"{fact.name}: {fact.value}")
        assert fact.meaning in words


def test_what_contradicts_stands_beside_what_is_believed() -> None:
    reasons = tuple(assess_claims(ClaimSubject.WINDOW, CLAIMS))
    numbers = {each.key: each for each in number_sources(context(), reasons)}
    words = source_detail(numbers["window status_line"], reasons).plain
    assert "What contradicts it" in words
    assert "✗ 1,000,000: seen in other sessions of this model and version" in words
    other = source_detail(numbers["window other_sessions"], reasons).plain
    assert "What contradicts it" not in other
    assert "It contradicts the value used" in other


def test_every_row_has_its_width() -> None:
    reasons = tuple(assess_claims(ClaimSubject.WINDOW, CLAIMS))
    for width in (36, 60, 90, 140):
        rows = sources_listing(context(), reasons, width).rows
        assert {row.content.cell_length for row in rows} == {width}
        assert all("200,000" in row.content.plain for row in rows[4:5])
