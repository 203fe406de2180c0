"""The sessions that are made: the same for a seed, and true to what is said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.artifacts import collect_artifacts
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries

from ...bench.evaluation.figures import counter_of
from ...bench.evaluation.kept import constraints_of
from ...bench.evaluation.ledgers import context_tokens
from ...bench.evaluation.passages import Index, passages_of
from ...bench.evaluation.probes import is_answered
from ...bench.evaluation.sessions import WORKS, Work, make_session
from ...bench.evaluation.texts import pieces_of, texts_of

if TYPE_CHECKING:
    from pathlib import Path

SMALL = 0.15
KINDS = pytest.mark.parametrize("work", WORKS[:7], ids=lambda work: work.name)


@KINDS
def test_what_is_said_of_a_session_is_so(work: Work, tmp_path: Path) -> None:
    made = make_session(work, tmp_path, scale=SMALL)
    entries = visible_entries(read_entries(made.path))
    index = Index(passages_of(texts_of(entries)))

    assert made.needles
    assert all(is_answered(needle, index) for needle in made.needles)
    assert constraints_of(entries) == list(made.rules)
    assert made.files == {
        use.path: (use.reads, use.edits, use.writes) for use in collect_artifacts(entries).files
    }


@KINDS
def test_it_is_about_as_large_as_it_should_be(work: Work, tmp_path: Path) -> None:
    entries = visible_entries(read_entries(make_session(work, tmp_path, scale=SMALL).path))
    tokens = context_tokens(entries, counter_of(entries).tokens)

    assert 0.7 < tokens / (SMALL * work.tokens) < 1.5


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    first, second = (
        make_session(WORKS[0], folder, seed=seed, scale=0.05).path.read_bytes()
        for folder, seed in ((tmp_path, 1), (tmp_path, 1))
    )

    assert first == second
    assert make_session(WORKS[0], tmp_path, seed=2, scale=0.05).path.read_bytes() != first


def test_kinds_differ_in_what_they_do(tmp_path: Path) -> None:
    def tools(name: str) -> set[str]:
        work = next(work for work in WORKS if work.name == name)
        entries = visible_entries(read_entries(make_session(work, tmp_path, scale=SMALL).path))
        calls = (each for each in pieces_of(entries) if each.kind is PartKind.TOOL_INPUT)
        return {piece.name for piece in calls}

    assert {"WebFetch", "WebSearch"} <= tools("research")
    assert {"Agent", "TodoWrite"} <= tools("agents")
    assert "WebFetch" not in tools("debugging")


def test_lengths_are_those_of_long_sessions() -> None:
    assert len(WORKS) >= 6
    assert min(work.tokens for work in WORKS) == 150_000
    assert max(work.tokens for work in WORKS) == 900_000
