"""Which kind of content a text is."""

from __future__ import annotations

import json

import pytest
from ctxtop.core.measure.tokens import SAMPLE_CHARS, ContentKind, content_kind_of

PROSE = "The parser drops the last line of a file that has no newline. That is what we mend here."
CODE = "def last(lines):\n    return lines[-1] if lines else None  # nothing\n\nprint(last([1]))\n"
DATA = json.dumps({"files": ["a.py", "b.py"], "count": 2, "of": {"size": 10}})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", ContentKind.PROSE),
        (PROSE, ContentKind.PROSE),
        ("Réparer l'analyseur : la dernière ligne d'un fichier était perdue.", ContentKind.PROSE),
        (CODE, ContentKind.CODE),
        ("src/a.py\nsrc/b.py\ntests/test_a.py", ContentKind.CODE),
        (DATA, ContentKind.JSON),
        (json.dumps(DATA), ContentKind.JSON),
        ("[note] it was late that day, and nobody had looked at it again.", ContentKind.PROSE),
        ("解析器が最後の行を落とします。", ContentKind.OTHER),
        ("Анализатор теряет последнюю строку файла.", ContentKind.OTHER),
        ("┌────┐ ✓ done →→→ ✓ ✓", ContentKind.CODE),
    ],
)
def test_each_text_has_its_kind(text: str, kind: ContentKind) -> None:
    assert content_kind_of(text) is kind


def test_a_text_is_what_it_begins_with() -> None:
    assert (
        content_kind_of(PROSE * (SAMPLE_CHARS // len(PROSE) + 1) + DATA * 1_000)
        is ContentKind.PROSE
    )
