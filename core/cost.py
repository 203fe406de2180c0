"""What a session has cost: as the client says, or by its answers' tokens and a price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .activity import Cost, CostSource
from .prices import MILLION, price_of
from .store.rows import SpentRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .store.activity_queries import ActivityRow
    from .store.spending_queries import SpendingRow

COVERS_LEAST: Final = 0.5
"""Share of the estimate below which the client cannot have counted the whole session: before
about 2.1.246 (`cost-state`) it counted from its own start, which a resume makes anew."""


def estimate_cost(rows: Iterable[SpendingRow], custom_prices: Mapping[str, str]) -> Cost | None:
    """Price answers in dollars; None where no answer has a price.

    Each answer counts once, and an agent's for its session. `own` are prices by the beginning
    of a model's name.
    """
    usd, priced, unpriced = 0.0, False, False
    for row in rows:
        price = price_of(row.model, row.band, custom_prices)
        if price is None:
            unpriced = True
            continue
        priced = True
        usd += row.input_tokens * price.input + row.output_tokens * price.output
        usd += row.cache_read_tokens * price.read
        usd += (row.cache_creation_tokens - row.cache_1h_tokens) * price.write_5m
        usd += row.cache_1h_tokens * price.write_1h
    return Cost(usd / MILLION, estimated=True, partial=unpriced) if priced else None


def add_up(session_id: str, rows: Sequence[SpendingRow]) -> SpentRow | None:
    """Add up a session's answers of all models; None where it has none."""
    if not rows:
        return None
    return SpentRow(
        session_id=session_id,
        input_tokens=sum([row.input_tokens for row in rows]),
        cache_creation_tokens=sum([row.cache_creation_tokens for row in rows]),
        cache_read_tokens=sum([row.cache_read_tokens for row in rows]),
        output_tokens=sum([row.output_tokens for row in rows]),
        responses=sum([row.responses for row in rows]),
    )


def cost_of(row: ActivityRow | None, estimate: Cost | None, *, forked: bool) -> Cost | None:
    """Choose what a session has cost in dollars: the client's word where it covers it all.

    The client's total holds agents and requests that no line records (titles, compactions),
    and only grows: of several the largest counts. It is of no use where answers came after it
    and make more than it says, nor for a fork, whose client may go on counting its parent's.
    """
    said = _said(row) if row and not forked else []
    if row is None or not said:
        return estimate
    _, usd, source = max(said, key=lambda claim: claim[1])
    known = estimate.usd if estimate else 0.0
    is_newest = any(at is None or at >= (row.answer_at or 0) for at, *_ in said)
    if usd >= known or (is_newest and usd >= known * COVERS_LEAST):
        return Cost(usd, estimated=False, source=source)
    return estimate


def _said(row: ActivityRow) -> list[tuple[int | None, float, CostSource]]:
    """List when the client said what; None for a time after the last answer."""
    told_at = None if row.is_transcript_cost_newer else 0
    claims = (
        (row.status_at, row.status_cost_usd, CostSource.STATUS_LINE),
        (row.measured_at, row.measured_cost_usd, CostSource.PLUGIN),
        (told_at, row.transcript_cost_usd, CostSource.TRANSCRIPT),
    )
    return [(at, usd, source) for at, usd, source in claims if usd]
