"""What `/model` says of the model that the next request goes to."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.transcripts.client_output import read_model_choice
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.database import open_reader

from ..transcripts import PROJECT, SESSION, START_MS, assistant, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder

SMALL = "claude-haiku-4-5"


def answered(words: str) -> str:
    return f"<local-command-stdout>{words}</local-command-stdout>"


@pytest.mark.parametrize(
    ("words", "model"),
    [
        ("Set model to `Opus 5.5` and saved as your default", "claude-opus-5-5"),
        ("Set model to `Sonnet 4.6 (1M context)`", "claude-sonnet-4-6[1m]"),
        ("Set model to \x1b[1mopus (claude-opus-4-5-20251101)\x1b[22m", "claude-opus-4-5-20251101"),
        ("Set model to claude-sonnet-4-6[1m]", "claude-sonnet-4-6[1m]"),
        ("Set model to Fable 5", "claude-fable-5"),
        ("Set model to Default (recommended)", None),
        ("Kept model as Opus 5.5", None),
        ("I set model to Opus 5.5", None),
    ],
)
def test_the_answer_names_the_model_by_its_id_or_name(words: str, model: str | None) -> None:
    assert read_model_choice(answered(words)) == model


def test_what_was_chosen_after_the_last_answer_is_the_next_ones_model(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    path = claude.projects / PROJECT / f"{SESSION}.jsonl"
    lines = [user(), assistant(context=33_000, model=SMALL)]
    write(path, [*lines, user(answered("Set model to `Opus 5.5`"))])
    collector.scan()
    with closing(open_reader(store)) as db:
        (chosen,) = read_sessions(db, START_MS)
    assert (chosen.model, chosen.context.window.tokens) == ("claude-opus-5-5", 1_000_000)
    assert chosen.context.tokens == 33_000
    assert chosen.cache.is_warm(START_MS + 1) is False  # each model has a cache of its own

    last = assistant("msg_2", context=34_000, model=SMALL, at=9)
    write(path, [*lines, user(answered("Set model to `Opus 5.5`")), last])
    collector.scan()
    with closing(open_reader(store)) as db:
        (answered_by,) = read_sessions(db, START_MS)
    assert (answered_by.model, answered_by.context.window.tokens) == (SMALL, 200_000)
    assert answered_by.cache.is_warm(START_MS + 9_001) is True
