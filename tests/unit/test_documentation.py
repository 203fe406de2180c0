"""The generated references of docs/ are current, and the check of the site finds what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.documentation import REFERENCES, broken_links

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.name)
def test_a_reference_is_what_the_program_says(path: Path) -> None:
    assert path.read_text() == REFERENCES[path](), "out of date: run `make docs`"


def test_a_link_to_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "index.html").write_text('<h1 id="keys">Keys</h1><img src="../no.png">')
    (tmp_path / "index.html").write_text(
        '<a href="guide/">guide</a> <a href="guide/#keys">keys</a> <a href="guide/#mouse">mouse</a>'
        '<a href="settings/">settings</a> <a href="https://example.invalid/">elsewhere</a>'
    )
    assert sorted(broken_links(tmp_path)) == [
        "guide/index.html: ../no.png does not exist",
        "index.html: guide/#mouse has no such anchor",
        "index.html: settings/ does not exist",
    ]
