"""Whatever call fails, whenever the process ends, whoever writes: no line is lost or altered.

`make prove-engine` tells more than ten thousand of these stories, and says how they ended.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.core.compaction import compaction_target
from ctxtop.core.compaction.receipts import ApplyMode

from ..engine_fates import STORIES, Fate, every_fate, in_memory, random_fate, told
from ..engine_stories import LAST_CALL, LOST, CorruptedError, Story
from ..faults import Faults
from ..sessions_on_disk import encoded
from ..transcripts import user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEP: Final = 12
"""Of all calls of all acts one in so many is let fail, crash or wait for a writer."""

RANDOM: Final = 250
"""Stories whose faults come at random, two of them at once."""


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder that no disk is waited for."""
    with in_memory() as folder:
        yield folder / "c"


@pytest.mark.slow
def test_a_fault_at_calls_of_every_act(memory: Path) -> None:
    fates = [*islice(every_fate(memory), 0, None, STEP)]
    assert len(fates) > 300
    for fate in fates:
        told(fate, memory)


@pytest.mark.slow
def test_faults_at_random(memory: Path) -> None:
    for seed in range(RANDOM):
        told(random_fate(seed), memory)


@pytest.mark.parametrize("mode", list(ApplyMode))
def test_nothing_befalls(tmp_path: Path, mode: ApplyMode) -> None:
    """LAST_CALL reaches the end of every act, and every act is done."""
    for acts in STORIES[mode]:
        for faulty in range(len(acts)):
            story = told(Fate(1, mode, tuple(acts), faulty, ""), tmp_path / "c")
            assert story.calls <= LAST_CALL
            assert {end.rpartition(", ")[2] for end in story.ends} <= {"done", "refused: changed"}


def test_a_lost_line_would_be_seen(tmp_path: Path) -> None:
    story = told(Fate(1, ApplyMode.IN_PLACE, ("apply", "go on"), 0, ""), tmp_path / "c")
    path = story.path
    whole = path.read_bytes()
    path.write_bytes(whole.replace(story.written[path][0], b""))
    with pytest.raises(CorruptedError, match=LOST):
        story.require_whole("now")
    path.write_bytes(whole.replace(b"ls 1", b"ls 2"))
    with pytest.raises(CorruptedError, match="neither before nor after"):
        story.require_whole("now")


@pytest.mark.parametrize("knowing", ["lease", "watch"])
def test_a_client_that_holds_the_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knowing: str
) -> None:
    """Where leases are known it is refused; else until the watch ends nothing of it is lost."""
    if knowing == "watch":
        monkeypatch.setattr(compaction_target, "_take_lease", lambda *_: False)
    # The folder of the user's locks is made once.
    _apply_with(tmp_path, Faults())
    counted = Faults()
    _apply_with(tmp_path, counted)
    unwatched = counted.log.index(next(each for each in counted.log if ".old." in each[1])) + 1
    assert unwatched > 50
    for at in range(1, unwatched):
        faults = Faults()
        end, found = _apply_with(tmp_path, faults, at)
        assert found.count(HELD) == 1, at
        assert end.startswith("refused"), at


HELD: Final = encoded([user("held", 900)])


def _apply_with(root: Path, faults: Faults, at: int | None = None) -> tuple[str, bytes]:
    story = Story(1, ApplyMode.IN_PLACE, root / "c")
    with story.path.open("ab", buffering=0) as held:
        if at is None:
            held.close()
        else:
            faults.then[at] = partial(held.write, HELD)  # type: ignore[assignment]
        end = story.apply(faults)
    return end, story.path.read_bytes()
