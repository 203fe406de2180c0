"""One size of a part: the breakdown, its items, the conversation, JSON and the plan show the same.

On the demo's sessions, which three generations of clients wrote, now and after earlier answers.
`tests/bench/bench_sums.py` compares recorded sessions.
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.demo import make_demo
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

from ..one_size import Compared, SizedSessions, compare_plan, compare_shown, compare_turns
from ..recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctxtop.core.model.session import Session

NOW: Final = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SizedSessions]:
    root = tmp_path_factory.mktemp("demo")
    made = make_demo(root / "config", NOW, pid=4242, proc_start="99")
    claude = ClaudeFolder(made.root.resolve())
    with closing(Writer(root / "ctxtop.db")) as writer:
        Collector(claude, writer, Recorder()).scan()
    with closing(open_reader(root / "ctxtop.db")) as db:
        yield SizedSessions(claude.projects, db, round(NOW.timestamp() * 1000))


@pytest.mark.parametrize(
    ("compare", "least"),
    [
        pytest.param(compare_plan, 500, id="in a plan"),
        pytest.param(compare_shown, 30, id="in items, JSON and the conversation"),
        pytest.param(compare_turns, 500, id="between two turns"),
    ],
)
def test_a_part_has_one_size(
    demo: SizedSessions, compare: Callable[[SizedSessions, Session], Compared], least: int
) -> None:
    found = {each.title: compare(demo, each) for each in demo.sessions}
    assert {title: each.differences for title, each in found.items()} == {
        title: [] for title in found
    }
    assert sum(each.sizes for each in found.values()) > least
