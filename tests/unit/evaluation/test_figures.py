"""All metrics together, over a transcript and a way to compact it that is known to forget."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ...bench.evaluation.figures import Case, case_of, judge, sent_from, total, untouched
from ...bench.evaluation.replay import RefusedError, judge_moment, replay
from ...bench.evaluation.sessions import WORKS, make_session
from ...bench.evaluation.share import Share

if TYPE_CHECKING:
    from pathlib import Path

    from ...bench.evaluation.replay import Compact

KEPT = 20
"""Newest results that stay."""


@pytest.fixture
def case(tmp_path: Path) -> Case:
    made = make_session(WORKS[0], tmp_path, scale=0.6)
    return case_of(made.name, made.path, needles=made.needles, rules=made.rules)


def clear_old_results(path: Path) -> bytes:
    """Clear all but the newest KEPT tool results, as masking without a digest does."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    results = [line for line in lines if "toolUseResult" in line]
    for line in results[:-KEPT]:
        line["message"]["content"][0]["content"] = "[cleared]"
        line["toolUseResult"] = {}
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def refuse(_: Path) -> bytes:
    raise RefusedError("live")


def judged(case: Case, compact: Compact) -> tuple[float, ...]:
    data = compact(case.path)
    copy = case.path.with_suffix(".after.jsonl")
    copy.write_bytes(data)
    made = judge(case, sent_from(copy), data)
    copy.unlink()
    shares = made.context, made.user, made.artifacts, made.needles, made.entities, made.probes
    return tuple(share.ratio or 0.0 for share in shares)


def test_what_changes_nothing_keeps_everything(case: Case) -> None:
    context, user, files, needles, entities, probes = judged(case, lambda path: path.read_bytes())

    assert context == 0
    assert (user, files, needles, entities, probes) == (1, 1, 1, 1, 1)


def test_what_clears_results_loses_needles_and_names_but_no_prompt_and_no_file(case: Case) -> None:
    context, user, files, needles, entities, probes = judged(case, clear_old_results)

    assert context > 0.3
    assert (user, files) == (1, 1)
    assert 0.2 < needles < 0.8
    assert entities < 0.9
    assert probes < 1


def test_a_refused_session_frees_nothing_and_is_counted(case: Case) -> None:
    figures = total([untouched(case), untouched(case)])

    assert (figures.refused, figures.sessions) == (2, 2)
    assert figures.context.part == 0
    assert figures.median_of_whole == figures.median_of_conversation == Share(0.0, 1)
    assert figures.paid_after is None


def test_the_median_is_that_of_the_sessions(case: Case) -> None:
    half = judge(case, case.original[: len(case.original) // 2], b"")
    figures = total([untouched(case), half, half])

    assert figures.median_of_conversation.ratio == half.context.ratio
    assert figures.median_of_whole.part < figures.median_of_conversation.part


def test_lines_that_are_left_without_content_are_counted(case: Case) -> None:
    data = (
        b'{"message":{"content": []}}\n{"message":{"content":[{"type":"text"}]}}\n{"content":[]}\n'
    )

    assert judge(case, case.original, data).empty == 1


def test_history_shows_what_would_have_been_missed(case: Case, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    forgetful = replay(case, clear_old_results, scratch, moments=3)
    faithful = replay(case, lambda path: path.read_bytes(), scratch, moments=3)
    refused = replay(case, refuse, scratch, moments=3)

    assert forgetful.moments >= 1
    assert 0 < (forgetful.regret.ratio or 0) < 0.5
    assert faithful.moments == refused.moments == 0


def test_a_moment_at_which_nothing_is_saved_is_none(case: Case) -> None:
    moment = judge_moment(case.original, case.original, case.original[-9:], case)

    assert (moment.moments, moment.regret) == (0, Share())
