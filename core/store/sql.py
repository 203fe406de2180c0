"""Conditions for queries, and rows as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence


RecordT = TypeVar("RecordT")


def in_condition(column: str, values: Iterable[str] | None) -> tuple[str, list[str]]:
    """Make the condition that a column has one of some values, or any where None is asked."""
    if values is None:
        return "1", []
    chosen = list(values)
    return f"{column} IN ({', '.join('?' * len(chosen))})", chosen


def fetch_records(
    kind: type[RecordT],
    db: sqlite3.Connection,
    sql: str,
    values: Sequence[Any] | dict[str, Any] = (),
) -> list[RecordT]:
    """Run a query whose columns are the fields of a record."""
    return [kind(*row) for row in db.execute(sql, values)]
