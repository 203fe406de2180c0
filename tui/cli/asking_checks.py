"""What `ctxtop doctor` says of the module in the client: its numbers, and what it was asked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ...collectors.asking.receipts import receipts
from ...collectors.plugin.exchange import ORPHAN_S, asking_folder
from ...core.measured import compare
from ...core.store import log_queries
from ..formats import plural
from .checks import Check, well, wrong
from .times import time_of

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ...collectors.asking.receipts import Receipt

FRESH_MS: Final = 24 * 3600 * 1000
"""What failed longer ago is no news."""


def measurement_check(db: sqlite3.Connection) -> Check:
    """Compare what the client measured with what its transcripts say."""
    found = compare(log_queries.compared(db))
    if found.different:
        row = found.different[0]
        detail = (
            f"{plural(len(found.different), 'session')} measured otherwise than the transcript"
            f" says: {row.session_id} {row.measured_tokens:,} tokens at {time_of(row.at)},"
            f" the transcript {row.answer_tokens:,}"
        )
        return well("measurements", detail, "please report it with the client's version")
    if not found.equal and not found.not_comparable:
        return well("measurements", "none: no module of ctxtop's runs in a client")
    return well("measurements", f"{plural(found.equal, 'session')} as the transcript says")


def requests_check(store: Path) -> Check:
    """Look at the compactions that ctxtop asked for and that did not end."""
    name = "asked compactions"
    now_ms = time.time_ns() // 1_000_000
    try:
        found = receipts(store, now_ms)
    except OSError as error:
        folder = error.filename or asking_folder(str(store))
        return wrong(name, f"{folder} {error.strerror}", f"look into {folder}, then remove it")
    orphans = [each for each in found if each.state == "orphan"]
    if orphans:
        newest = orphans[0]
        detail = (
            f"{plural(len(orphans), 'request')} without a result for {ORPHAN_S:.0f} s:"
            f" {_words(newest)}"
        )
        return wrong(name, detail, f"look at the session, then remove {_place(store, newest)}")
    failed = [
        each for each in found if each.state == "failed" and now_ms - each.requested_at < FRESH_MS
    ]
    if failed:
        return well(name, f"the last that failed: {_words(failed[0])}, {failed[0].why}")
    pending = [each for each in found if each.state == "pending"]
    if pending:
        return well(name, f"{len(pending)} pending: {_words(pending[0])}")
    return well(name, f"{plural(len(found), 'request')}, none open" if found else "none")


def _words(receipt: Receipt) -> str:
    return f"session {receipt.session_id} via {receipt.via} at {time_of(receipt.requested_at)}"


def _place(store: Path, receipt: Receipt) -> str:
    return f"{asking_folder(str(store))}/kept/{receipt.session_id}.{receipt.request}.asked"
