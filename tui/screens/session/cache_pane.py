"""The Cache tab of a session: until when its cache is warm, its sums, and each miss."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from rich.cells import cell_len
from textual.content import Content

from ....core.measure.prompt_cache.cache_ledger import (
    CacheLedger,
    CacheMiss,
    CacheTotals,
    add_up,
    rewrite_factor,
)
from ....core.model.session import Session
from ....core.transcript.sanitize import one_line
from ...entities.timeline_picture import CACHE_MISS_SIGN
from ...text import cache_text, formats
from ...text.amounts import list_price
from ...text.formats import fit_left, fit_right, percent, plural, shorten, tokens
from ...text.listing import Listing, Row
from ...text.session_text import longest_fitting
from ...text.text_lines import heading, join_lines, quiet

CAUSE_GAP: Final = 2  # between the longest cause and its tokens
TOKENS_CELLS: Final = 7
MONEY_CELLS: Final = 9
AGE_CELLS: Final = 7
DETAIL_LABEL_CELLS: Final = 12

NO_MISSES: Final = "no request yet: the cache's ledger begins with the first one"
READING_LEDGER: Final = "reading the cache ledger …"


class LedgerSums(msgspec.Struct, frozen=True):
    totals: CacheTotals
    rewrite_factor: float | None


def read_session_ledger(
    db: sqlite3.Connection,
    projects: Path,
    store: Path,
    session_id: str,
    prices: Mapping[str, str],
    previous: CacheLedger | None = None,
) -> CacheLedger:
    """Read a session's ledger; misses of `previous` that are still the same are not read again."""
    from ....collectors.claude_code.cache_ledger_reader import read_cache_ledger

    return read_cache_ledger(
        db,
        projects,
        store,
        prices,
        session_ids=[session_id],
        known=previous.misses if previous else (),
    )


def ledger_listing(
    session: Session, ledger: CacheLedger | None, width: int, now_ms: int
) -> Listing:
    warm = longest_fitting(cache_text.warm_texts(session, now_ms), width)
    head = Content.styled(warm, "bold")
    if ledger is None:
        return Listing((), head, READING_LEDGER)
    if not ledger.requests:
        return Listing((), head, NO_MISSES)
    totals = add_up(ledger)
    sums = LedgerSums(totals, rewrite_factor(ledger))
    rows = [Row("totals", _totals_row(totals, width), sums)]
    causes = max((cell_len(cache_text.cause_text(miss)) for miss in ledger.misses), default=0)
    rows += [
        Row(_key_of(miss), _miss_row(miss, causes + CAUSE_GAP, width, now_ms), miss)
        for miss in ledger.misses
    ]
    return Listing(tuple(rows), head, "")


def _key_of(miss: CacheMiss) -> str:
    return f"{miss.request.path} {miss.request.message_id}"


def _totals_row(totals: CacheTotals, width: int) -> Content:
    parts = (
        f"{percent(totals.read_ratio)} read",
        f"{tokens(totals.rewritten_tokens)} rewritten in {plural(totals.misses, 'miss')}",
        list_price(totals.cost_usd),
        f"{percent(totals.rewritten_ratio)} of writes",
    )
    return Content(shorten(" · ".join(parts), width))


def _miss_row(miss: CacheMiss, cause_cells: int, width: int, now_ms: int) -> Content:
    changes, agent = cache_text.changes_text(miss), cache_text.agent_text(miss)
    room = width - 2 - cause_cells - TOKENS_CELLS - MONEY_CELLS - AGE_CELLS - 1
    text = "; ".join(part for part in (agent, changes) if part)
    return Content.assemble(
        (f"{CACHE_MISS_SIGN} ", "$level-notice"),
        (fit_left(cache_text.cause_text(miss), cause_cells), "$foreground"),
        (fit_right(tokens(miss.tokens), TOKENS_CELLS), "bold"),
        (fit_right(list_price(miss.cost_usd), MONEY_CELLS), "$foreground"),
        (fit_left(f" {one_line(text)}", max(0, room)), "$quiet"),
        (fit_right(formats.age(miss.request.at, now_ms), AGE_CELLS), "$quiet"),
    )


def ledger_detail(item: CacheMiss | LedgerSums, width: int, now_ms: int) -> Content:
    if isinstance(item, LedgerSums):
        return join_lines(heading("Since the session began"), *map(Content, _totals_facts(item)))
    request, rewrite = item.request, item.rewrite
    facts = {
        "when": formats.date_time_and_age(request.at, now_ms),
        "agent": cache_text.agent_text(item),
        "model": formats.model_name(request.model),
        "client says": cache_text.client_word(item),
        "pause": cache_text.pause_text(item),
        "cached for": formats.duration(rewrite.lifetime_ms),
        "rewritten": f"{item.tokens:,} of {request.cache_creation_tokens:,} written",
        "read": f"{request.cache_read_tokens:,} tokens",
        "that is": cache_text.read_end_text(item),
        "cost": list_price(item.cost_usd),
        "to read it": f"{list_price(item.extra_usd)} less",
    }
    room = max(1, width - DETAIL_LABEL_CELLS)
    changed = [Content(""), heading("Changed before it")] if item.changes else []
    return join_lines(
        heading(f"{CACHE_MISS_SIGN} {cache_text.cause_text(item)}"),
        *(
            Content.assemble((fit_left(label, DETAIL_LABEL_CELLS), "$quiet"), shorten(text, room))
            for label, text in facts.items()
            if text
        ),
        *changed,
        *(Content(one_line(cache_text.change_text(each))) for each in item.changes),
        Content(""),
        quiet("≈ marks what is inferred, and amounts at list prices."),
    )


def _totals_facts(sums: LedgerSums) -> list[str]:
    totals, factor = sums.totals, cache_text.rewrite_factor_text(sums.rewrite_factor)
    return [
        f"{totals.requests:,} requests",
        f"{percent(totals.read_ratio)} of their input was read from the cache",
        f"{totals.read_tokens:,} tokens read",
        f"{totals.written_1h_tokens:,} tokens written for 1 h",
        f"{totals.written_5m_tokens:,} tokens written for 5 min",
        f"{totals.input_tokens:,} tokens not cached",
        f"{totals.rewritten_tokens:,} tokens written again, {percent(totals.rewritten_ratio)}",
        f"{list_price(totals.cost_usd)} for writing those",
        f"{list_price(totals.extra_usd)} more than reading them",
        *([factor] if factor else []),
    ]
