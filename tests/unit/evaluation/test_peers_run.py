"""Boundaries of a transcript as test items, and how cozempic is kept from home and network."""

# ruff: noqa: ANN401 -- any option of a run may be named

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.model.conversation import PartKind

from ... import transcripts as made
from ...bench.evaluation.boundaries import compactions_of, newest_within
from ...bench.evaluation.cozempic import Cozempic
from ...bench.evaluation.figures import counter_of
from ...bench.evaluation.ledgers import context_tokens
from ...bench.evaluation.replay import RefusedError
from ...entries import answered, asked

if TYPE_CHECKING:
    from pathlib import Path


def chain(lines: list[made.JsonLine]) -> list[made.JsonLine]:
    """Hang each line behind the one before it; nothing stands before a boundary."""
    parent = None
    for line in lines:
        line["parentUuid"] = None if line.get("subtype") == "compact_boundary" else parent
        parent = line["uuid"]
    return lines


def compacted(tmp_path: Path) -> Path:
    lines = [
        made.user("fix the parser"),
        made.assistant("msg_1", content=[made.text("it reads twice")]),
        made.boundary(),
        made.summary("We fixed the parser."),
        made.user("now the printer"),
        made.assistant("msg_2", content=[made.text("I look at it")]),
        made.user("go on"),
    ]
    return made.write(tmp_path / "session.jsonl", chain(lines))


def test_a_compaction_shows_what_stood_before_and_after_it_and_what_came_next(
    tmp_path: Path,
) -> None:
    (found,) = compactions_of(compacted(tmp_path))

    assert [each.parts[0].text for each in found.before] == ["fix the parser", "it reads twice"]
    assert [each.parts[0].kind for each in found.after] == [PartKind.SUMMARY, PartKind.PROMPT]
    assert [each.parts[0].text for each in found.later] == ["I look at it", "go on"]
    assert found.summary == "We fixed the parser."


def test_the_transcript_before_a_compaction_is_written_as_it_stood(tmp_path: Path) -> None:
    path = compacted(tmp_path)
    (found,) = compactions_of(path)

    before = found.written_before(tmp_path).read_bytes()

    assert path.read_bytes().startswith(before)
    assert before.count(b"\n") == 2


def test_a_transcript_without_a_summary_is_no_item(tmp_path: Path) -> None:
    path = made.write(tmp_path / "s.jsonl", chain([made.user(), made.boundary(), made.user("x")]))

    assert list(compactions_of(path)) == []


def test_the_newest_that_fits_a_budget_stays() -> None:
    entries = [asked("a " * 500), answered("b " * 50), asked("c " * 50)]
    counter = counter_of(entries)
    budget = context_tokens(entries[1:], counter.tokens)

    assert newest_within(entries, budget, counter) == entries[1:]
    assert newest_within(entries, budget - 1, counter) == entries[2:]
    assert newest_within(entries, 0, counter) == []


def test_cozempic_runs_on_a_copy_with_every_switch_off_and_a_home_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[tuple[list[str], dict[str, Any]]] = []

    def run(command: list[str], **given: Any) -> None:
        runs.append((command, given))

    monkeypatch.setattr(subprocess, "run", run)
    session = made.write(tmp_path / "s.jsonl", [made.user("fix the parser")])
    peer = Cozempic(tmp_path / "peer")

    assert peer.treat(session, "standard") == session.read_bytes()
    command, given = runs[-1]
    assert str(session) not in command
    assert given["env"]["HOME"] == str(tmp_path / "peer" / "home")
    assert given["env"]["CLAUDE_CONFIG_DIR"].startswith(given["env"]["HOME"])
    assert {name for name, value in given["env"].items() if value == "1"} == {
        "COZEMPIC_NO_GLOBAL_INIT",
        "COZEMPIC_NO_AUTO_INIT",
        "COZEMPIC_NO_TELEMETRY",
        "COZEMPIC_NO_AUTO_UPDATE",
        "COZEMPIC_NO_RECEIPTS",
    }
    assert any("cozempic==1.8.39" in each for each in runs[1][0])


def test_without_cozempic_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: Any) -> None:
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", run)

    with pytest.raises(RefusedError, match=r"cozempic 1\.8\.39 cannot be installed"):
        Cozempic(tmp_path / "peer")
