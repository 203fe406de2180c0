"""`ctxtop diff`: two summaries, or one and what it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from ...collectors.collect import Collector
from ...core.replaced import Replaced, Where
from ..formats import one_line
from .columns import paint
from .emit import emit
from .options import chosen, reading
from .reading import open_reading
from .report import RefusedError
from .summaries_command import id_of, read_summaries

if TYPE_CHECKING:
    from ...core.store.rows import SummaryRow
    from ...core.text_difference import Difference
    from .summaries_command import Summaries

_COLOURS = {Where.SUMMARY: "ok", Where.STAYS: "notice", Where.LOST: "bad"}


@click.command()
@reading
@click.argument("summary")
@click.argument("other", required=False)
@click.pass_context
def diff(context: click.Context, *, summary: str, other: str | None) -> int:
    """Compare SUMMARY with OTHER, or with what it stands for.

    `ctxtop summaries --json` names each by its id.
    """
    with open_reading(chosen(context), Collector.scan_and_count_tokens) as found:
        listed = read_summaries(found, "")
        one = _find(listed, summary)
        if other is not None:
            from ...core.text_difference import difference

            two = _find(listed, other)
            differing = difference(one.text, two.text)
            record = {
                "left": summary,
                "right": other,
                "same_lines": differing.same,
                "left_lines": differing.only_left,
                "right_lines": differing.only_right,
                "uncompared_lines": differing.left_cut + differing.right_cut,
                "pairs": [msgspec.to_builtins(each) for each in differing.pairs],
            }
            return emit(context, record, lambda: _difference_lines(differing))
        from ...collectors.replacing import NothingReplacedError, read_replaced

        try:
            replaced = read_replaced(found.db, found.places.folder.projects, one, listed.plans)
        except NothingReplacedError as error:
            raise RefusedError(str(error)) from error
        record = {"summary": summary, "kind": one.kind} | msgspec.to_builtins(replaced)
        return emit(context, record, lambda: _replaced_lines(one, replaced))


def _find(listed: Summaries, wanted: str) -> SummaryRow:
    found = next((row for row in listed.rows if id_of(row, listed.plans) == wanted), None)
    if found is None:
        raise RefusedError(f"no summary {wanted!r}; `ctxtop summaries --json` names their ids")
    return found


def _difference_lines(found: Difference) -> list[str]:
    lines = []
    for pair in found.pairs:
        if pair.same and pair.left is not None:
            lines.append(f"  {one_line(pair.left.text)}")
            continue
        if pair.left is not None:
            lines.append(paint(f"- {one_line(pair.left.text)}", "bad"))
        if pair.right is not None:
            lines.append(paint(f"+ {one_line(pair.right.text)}", "ok"))
    return lines


def _replaced_lines(row: SummaryRow, found: Replaced) -> list[str]:
    from ..replaced_lines import SIGNS, headline

    lines = headline(row, found)
    for tally in found.tallies:
        lines += ["", paint(tally.sort.value, "notice")]
        lines += [
            paint(f"  {SIGNS[each.where]} {one_line(each.text)} (line {each.line})", colour)
            for each in found.things
            if each.sort is tally.sort
            for colour in [_COLOURS[each.where]]
        ]
    return lines
