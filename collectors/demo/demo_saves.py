"""Write projects whose sessions claude-memory saved, one in each state and staging place."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from ...core.saves.save_status import SaveState
from ...core.saves.triage_block import MEMORY_CATEGORIES
from ...core.store.config_records import StagingLocation
from .demo_transcript import (
    CURRENT_VERSION,
    HAIKU_200K,
    DemoClock,
    DemoJson,
    FileBuffer,
    IdGenerator,
    LineOrigin,
    TranscriptChain,
    format_time,
    make_folder,
    project_slug,
    set_time,
    write_file,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path


HOSTILE_TITLE: Final = "Use [red]JWT[/red] [/] \x1b[31mnow\u202e"

RESULT_FILE, TRIAGE_FILE = "last-save-result.json", "triage-data.json"
PENDING_FILE, HANDLED_FILE = ".triage-pending.json", ".triage-handled"
CONTEXT_FILE: Final = "context-decision.txt"

_RESULT_DELAY: Final = timedelta(
    seconds=2
)  # between the save's files and what was written before them


@dataclass(frozen=True)
class SaveStory:
    """One project: what lies in its staging folder, and how its last save went."""

    name: str
    state: SaveState
    saved_ago: timedelta
    files: dict[str, DemoJson | str]
    generation: StagingLocation = StagingLocation.PROJECT
    is_inline: bool = False  # the triage stands inline, and the session itself saves
    refires: int = 0
    has_reply: bool = True  # a person said something after it


@dataclass(frozen=True)
class DemoSave:
    """What ctxtop must find out by itself of one project."""

    project: Path
    state: SaveState


def _triage(*names: str) -> DemoJson:
    return {"categories": [{"category": name, "score": 0.7} for name in names]}


def _result(*titles: str, categories: tuple[str, ...] = ("decision",), **more: object) -> DemoJson:
    return {"categories": list(categories), "titles": list(titles), "errors": []} | more


_HOUR: Final = timedelta(hours=1)
_FAILED: Final = {"category": "runbook", "error": "venv: No module named 'pydantic'"}
_GARBAGE: Final = '{"saved_at": "2026-'

SAVE_STORIES: Final = (
    SaveStory(
        "ledger",
        SaveState.SAVED,
        2 * _HOUR,
        {RESULT_FILE: _result("Amounts are integers of cents")},
    ),
    SaveStory(
        "parser",
        SaveState.SAVED,
        5 * _HOUR,
        {
            RESULT_FILE: _result(HOSTILE_TITLE),
            TRIAGE_FILE: _triage("decision"),
            CONTEXT_FILE: "user: use JWT",
        },
        StagingLocation.TMP,
        is_inline=True,
        refires=2,
    ),
    SaveStory(
        "gateway",
        SaveState.PARTIAL,
        26 * _HOUR,
        {
            RESULT_FILE: _result("Retries are capped"),
            PENDING_FILE: {
                "categories": ["runbook"],
                "reason": "partial_failure",
                "succeeded_categories": ["decision"],
                "errors": [_FAILED],
            },
        },
        StagingLocation.CACHE,
    ),
    SaveStory(
        "billing",
        SaveState.PENDING,
        30 * _HOUR,
        {PENDING_FILE: {"categories": ["all"], "reason": "total_failure"}},
        StagingLocation.TMP_OF_USER,
    ),
    SaveStory(
        "mailer",
        SaveState.ORPHANED,
        49 * _HOUR,
        {
            TRIAGE_FILE: _triage("decision", "runbook", "constraint"),
            CONTEXT_FILE: "user: never retry",
        },
        StagingLocation.RUN_USER,
    ),
    SaveStory(
        "search",
        SaveState.FAILED_UNKNOWN,
        50 * _HOUR,
        {
            PENDING_FILE: {"categories": [], "reason": "subagent_error"},
            TRIAGE_FILE: _triage("decision"),
        },
    ),
    SaveStory(
        "assets",
        SaveState.CORRUPT,
        75 * _HOUR,
        {RESULT_FILE: _GARBAGE},
        StagingLocation.XDG_RUNTIME,
    ),
    SaveStory(
        "router",
        SaveState.SAVING,
        timedelta(seconds=50),
        {
            TRIAGE_FILE: _triage("decision", "preference"),
            HANDLED_FILE: {"state": "saving", "pid": 1},
        },
        has_reply=False,
    ),
    SaveStory(
        "docs", SaveState.TRIAGED, timedelta(seconds=20), {TRIAGE_FILE: _triage("tech_debt")}
    ),
    SaveStory(
        "atlas",
        SaveState.SAVED,
        40 * _HOUR,
        {RESULT_FILE: _result("The worker owns the queue", categories=MEMORY_CATEGORIES[:3])},
        StagingLocation.GLOBAL,
    ),
)


def make_demo_saves(
    root: Path, work: Path, now: datetime, bases: Mapping[StagingLocation, Path] | None = None
) -> tuple[DemoSave, ...]:
    """Write a session and the staged files of each story; return the truth about them.

    `root` is Claude Code's folder, `work` a folder for the projects. Staging folders outside of
    a project are made only below the `bases` that are given, else inside it.
    """
    rng = Random("saves")  # noqa: S311 - the same every time, not secret
    made = []
    for story in SAVE_STORIES:
        project = work / story.name
        make_folder(project)
        _write_session(story, root, project, now, rng)
        _write_staging_files(story, root, project, now, bases or {})
        made.append(DemoSave(project, story.state))
    return tuple(made)


def _write_staging_files(
    story: SaveStory,
    root: Path,
    project: Path,
    now: datetime,
    bases: Mapping[StagingLocation, Path],
) -> None:
    place = _staging_folder(story.generation, root, project, bases)
    at = now - story.saved_ago
    for number, (name, said) in enumerate(story.files.items()):
        content = said
        if name == RESULT_FILE and isinstance(content, dict):
            content = {"saved_at": format_time(at), "project": str(project)} | content
        text = content if isinstance(content, str) else json.dumps(content)
        make_folder(place)
        write_file(place / name, text.encode())
        # The result is written after what was staged for it.
        set_time(
            place / name,
            at if name in {RESULT_FILE, PENDING_FILE} else at - _RESULT_DELAY + number * _STEP,
        )


_STEP: Final = timedelta(milliseconds=10)


def _staging_folder(
    generation: StagingLocation, root: Path, project: Path, bases: Mapping[StagingLocation, Path]
) -> Path:
    if generation is StagingLocation.GLOBAL:
        return root
    if generation not in bases:
        return project / ".claude" / "memory" / ".staging"
    seed = os.path.realpath(project)
    if generation is not StagingLocation.TMP:
        seed = f"{os.geteuid()}:{seed}"
    mark = hashlib.sha256(seed.encode()).hexdigest()[:12]
    return bases[generation] / f".claude-memory-staging-{mark}"


@dataclass
class _SaveTranscript:
    """Writes the session of one project, line by line."""

    chain: TranscriptChain
    tokens: int = 21_000
    calls: list[str] = field(default_factory=list)

    def user(self, content: str | list[DemoJson], after: DemoJson | None = None) -> None:
        self.chain.clock.advance()
        head = {"type": "user", "message": {"role": "user", "content": content}}
        self.chain.add(head, after)

    def answer(self, block: DemoJson, grown: int) -> None:
        self.tokens += grown
        self.chain.clock.advance()
        usage = {
            "input_tokens": 4,
            "cache_creation_input_tokens": grown,
            "cache_read_input_tokens": self.tokens - grown - 4,
            "output_tokens": 40,
        }
        message = {
            "id": self.chain.ids.message(),
            "type": "message",
            "role": "assistant",
            "model": HAIKU_200K.id,
            "content": [block],
            "usage": usage,
        }
        self.chain.add({"type": "assistant", "message": message})

    def say(self, words: str, grown: int) -> None:
        self.answer({"type": "text", "text": words}, grown)

    def call(self, name: str, asked: DemoJson, output: str, grown: int) -> None:
        call_id = self.chain.ids.tool_use()
        self.answer({"type": "tool_use", "id": call_id, "name": name, "input": asked}, grown)
        block = {"type": "tool_result", "tool_use_id": call_id, "content": output}
        self.user([block], {"toolUseResult": {"stdout": output}})


def _write_session(story: SaveStory, root: Path, project: Path, now: datetime, rng: Random) -> None:
    ids = IdGenerator(rng)
    origin = LineOrigin(
        ids.uuid(), str(project), CURRENT_VERSION, "cli", "main", "calm-saving-heron"
    )
    end = now - story.saved_ago
    clock = DemoClock(end - timedelta(minutes=4), timedelta(seconds=4), end)
    sheet = FileBuffer(
        root / "projects" / project_slug(str(project)) / f"{origin.session_id}.jsonl"
    )
    teller = _SaveTranscript(TranscriptChain(origin, ids, clock, sheet))
    teller.user(f"Tidy up {story.name} before the release.")
    teller.say("Done: the release notes are in CHANGELOG.md.", 600)
    names = [each["category"] for each in _triage("decision", "runbook")["categories"]]
    for _ in range(story.refires + 1):
        teller.user(_feedback(names, inline=story.is_inline), {"isMeta": True})
        (_write_inline_save if story.is_inline else _write_agent_save)(teller, story)
    if story.has_reply:
        clock.at = clock.end = end + timedelta(seconds=15)
        teller.user("Thanks, that is all.")
    sheet.save()


def _feedback(names: list[str], *, inline: bool) -> str:
    lines = [
        "Stop hook feedback:",
        "The following items should be saved as memories before stopping:",
    ]
    lines += [f"- [{name.upper()}] score 0.72" for name in names]
    data = json.dumps(_triage(*names), indent=2)
    tag = f"<triage_data>\n{data}\n</triage_data>"
    path = f".claude/memory/.staging/{TRIAGE_FILE}"
    return "\n".join(
        [*lines, "", tag if inline else f"<triage_data_file>{path}</triage_data_file>"]
    )


def _write_agent_save(teller: _SaveTranscript, story: SaveStory) -> None:
    asked = {"subagent_type": "memory-drafter", "description": "Save memories", "prompt": "Save."}
    teller.call("Agent", asked, "Saved 2 memories.", 900)
    if story.state is SaveState.SAVED:
        teller.say("Saved: decision (create), runbook (update)", 300)


def _write_inline_save(teller: _SaveTranscript, story: SaveStory) -> None:
    for script in ("candidate", "draft", "write", "write", "enforce"):
        command = {"command": f"python3 memory_{script}.py --category decision"}
        teller.call("Bash", command, "\n".join(f"step {n}" for n in range(9)), 1_400)
    teller.say(f"All memories of {story.name} are saved.", 400)
