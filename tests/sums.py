"""What each part of ctxtop says that all answers of a folder used and cost."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import msgspec
from ctxtop.core.measure.activity import estimate_cost
from ctxtop.core.measure.limit_use import price_answers
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.limit_queries import answers_since
from ctxtop.core.store.queries.spending_queries import model_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from ctxtop.core.model.answer_rows import AnswerRow, ModelUsageRow

FROM_THE_START_MS: Final = 0


class Sums(msgspec.Struct, frozen=True):
    """Tokens, answers and dollars at list prices; None for what a place does not say."""

    input: int
    written: int
    read: int
    answers: int | None
    output: int | None = None
    dollars: float | None = None

    def differs(self, other: Sums) -> list[str]:
        """List the fields that both say, and of which they say different things."""
        return [
            f"{name}: {mine!r}, not {theirs!r}"
            for name in self.__struct_fields__
            if (mine := getattr(self, name)) is not None
            and (theirs := getattr(other, name)) is not None
            and abs(mine - theirs) > 1e-4
        ]


def all_sums(run: Callable[..., str], store: Path) -> dict[str, Sums]:
    """Ask every place; `run` returns what `ctxtop` prints, of a store that is new."""
    totals = json.loads(run("totals", "--json"))
    sessions = json.loads(run("sessions", "--json", "--no-scan"))
    cache = json.loads(run("cache", "--json", "--no-scan"))["totals"]
    exported = json.loads(run("export", "--format", "json", "--no-scan"))
    metrics = run("export", "--format", "prometheus", "--no-scan")
    return {
        "totals": _of_record(totals),
        "totals by model": _add_up(map(_of_record, totals["models"])),
        "totals in two parts": _add_up(
            _of_record(totals[part]) for part in ("agent_progress", "without_agent_progress")
        ),
        "sessions": _of_sessions(sessions),
        "cache": _of_cache(cache),
        "exported totals": _of_record(exported["totals"]),
        "exported sessions": _of_sessions(exported["sessions"]),
        "exported cache": _of_cache(exported["cache_totals"]),
        "metrics": _of_metrics(metrics),
        **_of_store(store),
    }


def _of_store(store: Path) -> dict[str, Sums]:
    with closing(open_reader(store)) as db:
        answers = answers_since(db, FROM_THE_START_MS)
        sessions = sorted({row.session_id for row in model_usage(db)})
        alone = [model_usage(db, [session_id]) for session_id in sessions]
    costs = [estimate_cost(rows, {}) for rows in alone]
    return {
        "limits": _of_rows(answers, sum(each.total for each in price_answers(answers, {}))),
        "each session asked alone": _of_rows(
            [row for rows in alone for row in rows], sum(cost.usd for cost in costs if cost)
        ),
    }


def _of_rows(rows: Sequence[AnswerRow] | Sequence[ModelUsageRow], dollars: float) -> Sums:
    return Sums(
        sum(each.input_tokens for each in rows),
        sum(each.cache_creation_tokens for each in rows),
        sum(each.cache_read_tokens for each in rows),
        sum(each.responses for each in rows),
        sum(each.output_tokens for each in rows),
        dollars,
    )


def _of_record(record: Mapping[str, Any]) -> Sums:
    return Sums(
        record["input_tokens"],
        record["cache_creation_tokens"],
        record["cache_read_tokens"],
        record["responses"],
        record["output_tokens"],
        record["cost_usd"] or 0.0,
    )


def _of_sessions(sessions: Iterable[Mapping[str, Any]]) -> Sums:
    """Add up sessions; what a client reported of one holds requests that no line records."""
    listed = [*sessions]
    found = _add_up(map(_of_record, listed))
    is_priced = all(each["cost_source"] in {None, "prices"} for each in listed)
    return found if is_priced else msgspec.structs.replace(found, dollars=None)


def _of_cache(totals: Mapping[str, Any]) -> Sums:
    return Sums(
        totals["input_tokens"], totals["written_tokens"], totals["read_tokens"], totals["requests"]
    )


def _of_metrics(text: str) -> Sums:
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    def tokens(kind: str) -> int:
        return int(float(values[f'ctxtop_spent_tokens_total{{kind="{kind}"}}']))

    answers = int(float(values["ctxtop_responses_total"]))
    return Sums(
        tokens("input"), tokens("cache_creation"), tokens("cache_read"), answers, tokens("output")
    )


def _add_up(parts: Iterable[Sums]) -> Sums:
    listed = [*parts]
    return Sums(
        **{
            name: sum(getattr(each, name) or 0 for each in listed)
            for name in Sums.__struct_fields__
        }
    )
