"""`ctxtop keys`: every binding of the dashboard, its id, and the keys that hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...collectors.policy_files import PolicyFiles
from .columns import Cell, Column, draw, one_line, paint, terminal_width
from .emit import emit
from .options import chosen, reading
from .start import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.policy.policy import PolicyNotice
    from ..key_rows import KeyRow


@click.command()
@reading
@click.pass_context
def keys(context: click.Context) -> int:
    """List the keys of the dashboard; `keys.ID` of the policy gives a binding others."""
    from ..bindings import all_bindings
    from ..key_rows import key_rows
    from ..keymap import read_keymap

    bindings = all_bindings()
    options = chosen(context)
    # As the dashboard reads it: a project's own file has no word in it.
    sources = resolve(options.config_dir, options.db, options.policy).policy
    keymap = read_keymap(PolicyFiles(sources).policies.common, bindings)
    rows = key_rows(bindings, keymap.keys)
    record = {
        "keys": [
            {
                "id": row.id,
                "keys": list(row.keys),
                "default_keys": list(row.default_keys),
                "title": row.title,
                "what": row.what,
                "where": list(row.where),
            }
            for row in rows
        ],
        "notices": [
            {"key": each.key, "where": each.where, "what": each.what, "remedy": each.fix}
            for each in keymap.notices
        ],
    }
    return emit(context, record, lambda: _lines(rows, keymap.notices))


def _lines(rows: Sequence[KeyRow], notices: Sequence[PolicyNotice]) -> list[str]:
    columns = [
        Column("id"),
        Column("keys", flexible=True),
        Column("what", flexible=True),
        Column("where", flexible=True, priority=1),
    ]
    cells: list[list[Cell | str]] = [
        [
            Cell(row.id, "" if row.keys == row.default_keys else "ok"),
            " ".join(row.keys),
            row.what,
            ", ".join(row.where),
        ]
        for row in rows
    ]
    lines = draw(columns, cells, terminal_width())
    return [*lines, *(paint(one_line(str(notice)), "bad") for notice in notices)]
