"""Makes the demo's whole config folder."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

from . import config_texts, scenarios
from .model import DemoFolder, DemoSession
from .plumbing import make_folder, set_time, write_file
from .registry import write_registry
from .scenarios import SPLIT, Scenario
from .stage import Stage, open_stage
from .stories import fork_of

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path


def make_demo(
    root: Path,
    now: datetime,
    seed: int = 7,
    *,
    pid: int | None = None,
    proc_start: str | None = None,
) -> DemoFolder:
    """Write a config folder as of `now` and return the truth about it; no `pid` is this process."""
    rng = Random(seed)  # noqa: S311 - the demo must be the same every time, not secret
    stages: list[Stage] = []
    sessions: list[DemoSession] = []
    make_folder(root)
    for scenario in scenarios.SCENARIOS:
        stage = open_stage(scenario.spec, root, now, rng)
        sessions.append(stage.to_session(scenario.story(stage)))
        stages.append(stage)
        if scenario is SPLIT:
            fork = _fork(stage, root, now, rng)
            stages.append(fork[0])
            sessions.append(fork[1])
    for stage in stages:
        _save(stage)
    write_registry(root / "sessions", stages, pid, proc_start)
    _write_config(root, now)
    return DemoFolder(root, tuple(sessions))


def _fork(parent: Stage, root: Path, now: datetime, rng: Random) -> tuple[Stage, DemoSession]:
    story = fork_of(parent, scenarios.FORK_PROMPT, scenarios.FORK_TOKENS)
    scenario = Scenario(scenarios.FORK, story)
    stage = open_stage(scenario.spec, root, now, rng)
    return stage, stage.to_session(scenario.story(stage))


def _save(stage: Stage) -> None:
    for sheet in (stage.buffer, *stage.agent_buffers):
        sheet.save()


def _write_config(root: Path, now: datetime) -> None:
    files = config_texts.AGENT_FILES | config_texts.SKILL_FILES
    files["settings.json"] = json.dumps(config_texts.SETTINGS, indent=1)
    for name, content in files.items():
        path = root / name
        write_file(path, content.encode())
        set_time(path, now)
