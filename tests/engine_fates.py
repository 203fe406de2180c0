"""What befalls a session that is changed: each call of each act, or calls at random."""

from __future__ import annotations

import os
import random
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple
from unittest.mock import patch

from ctxtop.core.compaction.receipts import ApplyMode

from .engine_stories import LAST_CALL, CorruptedError, Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .engine_stories import Act
    from .faults import Faults

STORIES: Final[dict[ApplyMode, list[list[Act]]]] = {
    ApplyMode.FORK: [
        ["apply", "go on", "undo one", "undo"],
        ["apply", "undo one", "go on", "undo"],
    ],
    ApplyMode.IN_PLACE: [
        ["apply", "go on", "undo one", "undo"],
        ["apply", "undo one", "go on", "undo"],
        ["apply", "go on", "second", "undo", "undo one", "undo"],
        ["apply", "second", "undo second", "undo"],
    ],
    ApplyMode.APPEND: [["apply", "undo"], ["apply", "go on", "undo"]],
}


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder that no disk is waited for, where there is one."""
    memory = Path("/dev/shm")
    # The locks that all of a user's ctxtops share are not this machine's user's here.
    with (
        TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        patch.dict(os.environ, {"XDG_STATE_HOME": f"{folder}/user"}),
    ):
        yield Path(folder)


class Fate(NamedTuple):
    """What befalls which act of which story."""

    seed: int
    mode: ApplyMode
    acts: tuple[Act, ...]
    faulty: int
    """Number of the act."""
    what: str
    """Words of "kill", "fail" and "write"; none for nothing."""
    call: int = 0
    """Of the system's, counted from 1; 0 for any."""


def every_fate(root: Path) -> Iterator[Fate]:
    """Yield a crash, a failure and a concurrent client write at each call of every act.

    "go on" acts are skipped: they are client writes themselves.
    """
    seed = 0
    for mode, stories in STORIES.items():
        for acts in stories:
            for faulty in range(len(acts)):
                for what in ("kill", "fail", "write") if acts[faulty] != "go on" else ():
                    seed += 1
                    fate = Fate(seed, mode, tuple(acts), faulty, "")
                    calls = tell(fate, root).calls
                    for call in range(1, calls + 1):
                        yield fate._replace(what=what, call=call)


def random_fate(seed: int) -> Fate:
    """Choose a story, an act of it, and what befalls that."""
    choose = random.Random(seed)
    mode = choose.choice(list(ApplyMode))
    acts = choose.choice(STORIES[mode])
    faulty = choose.choice([n for n, act in enumerate(acts) if act != "go on"])
    what = choose.choice(["kill", "kill and write", "fail", "fail and write", "write"])
    return Fate(seed, mode, tuple(acts), faulty, what)


def tell(fate: Fate, root: Path) -> Story:
    """Run one story.

    Raises CorruptedError if the transcript is corrupted or a line is lost.
    """
    story = Story(fate.seed, fate.mode, root)
    choose = story.random

    def befall(faults: Faults) -> None:
        if "kill" in fate.what:
            faults.kill_at = fate.call or choose.randint(1, LAST_CALL)
        if "fail" in fate.what:
            faults.fail_at = fate.call or choose.randint(1, LAST_CALL)
        if "write" in fate.what:
            calls = [fate.call] if fate.call else choose.choices(range(1, LAST_CALL), k=3)
            faults.then |= dict.fromkeys(calls, story.client_writes)

    story.tell(fate.acts, fate.faulty, befall, soon=fate.call > 0)
    return story


def told(fate: Fate, root: Path) -> Story:
    """Run one story; a CorruptedError names the fate that caused it."""
    try:
        return tell(fate, root)
    except CorruptedError as error:
        raise CorruptedError(f"{error} in {fate}") from error
