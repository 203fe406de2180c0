"""Conditions for queries, and rows as records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    import sqlite3


RecordT = TypeVar("RecordT")


def in_condition(column: str, values: Iterable[str] | None) -> tuple[str, list[str]]:
    """Make the condition that a column has one of some values, or any where None is asked."""
    if values is None:
        return "1", []
    chosen = list(values)
    return f"{column} IN ({', '.join('?' * len(chosen))})", chosen


def columns(record: type[msgspec.Struct]) -> str:
    """List a record's fields: the columns of its table have their names."""
    return ", ".join(record.__struct_fields__)


def fetch_records(
    kind: type[RecordT],
    db: sqlite3.Connection,
    sql: str,
    values: Sequence[Any] | dict[str, Any] = (),
) -> list[RecordT]:
    """Run a query whose columns are the fields of a record."""
    return [kind(*row) for row in db.execute(sql, values)]
