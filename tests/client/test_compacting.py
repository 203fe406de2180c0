"""Edits of sessions of several kinds, each proved: gone on with, predicted, and taken back.

Plans are proved by test_modes and test_strategies; these edits are made by hand.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import reannounced_attachments, visible_entries

from .compacting import Edited, prove, tokens_of
from .edits import compacted, results, spoken, write_edited
from .lab import Lab
from .talks import TALKS, copy_of, path_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Json = dict[str, Any]
Lines = list[Json]

KINDS: Final = ("side by side", "thinking", "edits", "images", "compacted twice")


FEW: Final = KINDS[:2]
"""Without --all-pairs."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        kinds = KINDS if metafunc.config.getoption("--all-pairs") else FEW
        metafunc.parametrize("kind", kinds)


def stub(lines: Lines) -> Lines:
    for line in results(lines)[:-1]:
        for block in line["message"]["content"]:
            if block["type"] == "tool_result":
                block["content"] = "[cut]"
    return lines


def keep_tail(lines: Lines) -> Lines:
    return compacted(lines, spoken(lines)[-2:])


def revert(lines: Lines) -> Lines:
    prompts = [
        number
        for number, line in enumerate(lines)
        if line["type"] == "user" and "message" in line and "Last." in str(line["message"])
    ]
    return lines[: prompts[-1]]


def rewritten(path: Path, edit: Callable[[Lines], Lines]) -> Edited:
    """Write an edit into the file itself; what the client appends later stays when it is undone."""
    before = path.read_bytes()
    lines = [json.loads(line) for line in before.splitlines()]
    after = "".join(json.dumps(line) + "\n" for line in edit(lines)).encode()
    listed = visible_entries(read_entries(path))
    path.write_bytes(after)

    def take_back() -> None:
        path.write_bytes(before)

    left = visible_entries(read_entries(path))
    stays = {each.uuid for each in left}
    away = [each for each in listed if each.uuid not in stays] if edit is keep_tail else []
    announced = tokens_of(reannounced_attachments(away, left))
    return Edited(path.stem, None, take_back, announced)


def forked(path: Path, edit: Callable[[Lines], Lines]) -> Edited:
    return Edited(write_edited(path, edit), None, lambda: None)


@pytest.fixture(scope="module")
def made(new_lab: Callable[[type[Lab]], Lab]) -> Callable[[str], tuple[Lab, Path]]:
    """Sessions that are made once each, and copied for each edit."""

    @cache
    def make(kind: str) -> tuple[Lab, Path]:
        lab = new_lab(Lab)
        session_id = TALKS[kind](lab)
        model = _model(lab, session_id)
        lab.turn("Last. [[bash:seq 1 60]] [[say:ok]]", resume=session_id, model=model)
        return lab, path_of(lab, session_id)

    return make


@pytest.mark.parametrize(
    ("write", "edit"),
    [
        pytest.param(rewritten, stub, id="stubs"),
        pytest.param(forked, stub, id="fork"),
        pytest.param(rewritten, keep_tail, id="summary"),
        pytest.param(rewritten, revert, id="revert"),
    ],
)
def test_an_edit(
    made: Callable[[str], tuple[Lab, Path]],
    kind: str,
    write: Callable[[Path, Callable[[Lines], Lines]], Edited],
    edit: Callable[[Lines], Lines],
) -> None:
    lab, path = made(kind)
    prove(lab, copy_of(path).stem, lambda path: write(path, edit), kind)


def _model(lab: Lab, session_id: str) -> str:
    answered = [
        line["message"]["model"]
        for line in lab.transcript(session_id)
        if line["type"] == "assistant" and line["message"]["model"] != "<synthetic>"
    ]
    return str(answered[-1])
