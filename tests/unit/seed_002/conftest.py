"""Where a test's transcript stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ... import transcripts as made

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{made.SESSION}.jsonl"
