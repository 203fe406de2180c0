"""Functions that run queries, and the SQL that several of them share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from ...model.counting_rule import INPUT_SIDE, UsageComponent

if TYPE_CHECKING:
    from sqlite3 import Connection

    from ...model.counting_rule import CountingRule


RecordT = TypeVar("RecordT", bound=msgspec.Struct)
SessionIds = Iterable[str] | None  # None for all sessions
SUMMARY_TIME: Final = """COALESCE(s.at, (
    SELECT MAX(x.at) FROM file o JOIN reply x USING (file_id)
    WHERE o.session_id = f.session_id AND o.kind = 'agent' AND o.agent_id = s.agent_id))"""
"""When a summary `s` of the file `f` was written. The client writes no time to what a workflow's
agents returned (2.1.329): it is that of the agent's last answer."""

LISTED: Final = "(SELECT value FROM json_each(?))"  # the values of a JSON array, after IN


def in_condition(column: str, values: Iterable[str] | None) -> tuple[str, list[str]]:
    """Return an SQL condition that the column has one of these values, or any for None."""
    if values is None:
        return "1", []
    chosen = list(values)
    return f"{column} IN ({', '.join('?' * len(chosen))})", chosen


def columns(record: type[msgspec.Struct], prefix: str = "") -> str:
    return ", ".join(f"{prefix}{name}" for name in record.__struct_fields__)


def fetch_records(
    kind: type[RecordT], db: Connection, sql: str, values: Sequence[Any] | dict[str, Any] = ()
) -> list[RecordT]:
    """Run a query whose columns are the fields of a record."""
    return [kind(*row) for row in db.execute(sql, values)]


LAST_OUTPUT: Final = "COALESCE(r.last_output_tokens, r.output_tokens)"


def tokens_column(counting: CountingRule, output: str = LAST_OUTPUT) -> str:
    """Return SQL for an answer `r`, counted as by `CountingRule.count`."""
    if counting.is_input_side:
        return "r.context_tokens"
    if counting.counts_text:
        return f"COALESCE({text_tokens_column(counting, 'r')}, r.context_tokens)"
    spent, chosen = (
        "+".join(["0", *(f"r.{each}_tokens" for each in sorted(INPUT_SIDE & some))])
        for some in (INPUT_SIDE, counting.components)
    )
    counted = f"COALESCE(r.context_tokens * ({chosen}) / NULLIF({spent}, 0), r.context_tokens)"
    return f"{counted} + {output}" if UsageComponent.OUTPUT in counting.components else counted


def boundary_tokens_column(counting: CountingRule) -> str:
    """Return SQL for what a compaction `b` left, counted likewise as far as that is known."""
    return f"""COALESCE({text_tokens_column(counting, "b")}, (SELECT l.tokens
        FROM compaction_left l WHERE l.file_id = b.file_id AND l.offset = b.offset),
        b.post_tokens)"""


def text_tokens_column(counting: CountingRule, row: str) -> str:
    """Return SQL for the counted text at an answer or boundary `row`; NULL by another rule."""
    if not counting.counts_text:
        return "NULL"
    return f"""(SELECT x.tokens FROM context_text x WHERE x.file_id = {row}.file_id
        AND x.offset = {row}.offset AND x.rule = '{counting.text_rule}')"""


PROJECT_ROOT: Final = """COALESCE(
    IIF({session}.moved_to = {session}.worktree, NULL, {session}.moved_to),
    {session}.began_in, {session}.launched_in)"""
"""SQL for the folder whose policy applies to a session: where it began, or where a person moved it
(`/cd`), but not the git worktree that it entered."""

TEXT_COUNTS: Final = """NULLIF((SELECT json_group_object(x.rule, x.tokens) FROM context_text x
    WHERE x.file_id = {file_id} AND x.offset = (SELECT MAX(y.offset) FROM context_text y
        WHERE y.file_id = x.file_id AND y.rule = x.rule)), json_object())"""
"""SQL for the newest count of a file's text by each rule; NULL if there is none."""


MIN_PASSED_TOKENS: Final = 20_000  # of a context; lower triggers are set only to try them
