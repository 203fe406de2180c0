"""Projects whose sessions were saved by claude-memory: one in every state and place."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from ...core.saves.categories import CATEGORIES
from ...core.saves.states import SaveState
from ...core.store.surroundings_facts import Generation
from .chain import Chain
from .model import CURRENT, HAIKU_200K, Json, Origin
from .plumbing import Clock, Ids, Sheet, make_folder, set_time, slug, stamp, write_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

HOSTILE: Final = "Use [red]JWT[/red] [/] \x1b[31mnow\u202e"

RESULT, TRIAGE = "last-save-result.json", "triage-data.json"
PENDING, HANDLED = ".triage-pending.json", ".triage-handled"
CONTEXT: Final = "context-decision.txt"

_LAST: Final = timedelta(seconds=2)  # between the save's files and what was written before them


@dataclass(frozen=True)
class Story:
    """One project: what lies in its staging folder, and how its last save went."""

    name: str
    state: SaveState
    saved_ago: timedelta
    files: dict[str, Json | str]
    generation: Generation = Generation.PROJECT
    is_inline: bool = False  # the triage stands inline, and the session itself saves
    refires: int = 0
    has_reply: bool = True  # a person said something after it


@dataclass(frozen=True)
class DemoSave:
    """What ctxtop must find out by itself of one project."""

    project: Path
    state: SaveState


def _triage(*names: str) -> Json:
    return {"categories": [{"category": name, "score": 0.7} for name in names]}


def _result(*titles: str, categories: tuple[str, ...] = ("decision",), **more: object) -> Json:
    return {"categories": list(categories), "titles": list(titles), "errors": []} | more


_HOUR: Final = timedelta(hours=1)
_FAILED: Final = {"category": "runbook", "error": "venv: No module named 'pydantic'"}
_GARBAGE: Final = '{"saved_at": "2026-'

STORIES: Final = (
    Story("ledger", SaveState.SAVED, 2 * _HOUR, {RESULT: _result("Amounts are integers of cents")}),
    Story(
        "parser",
        SaveState.SAVED,
        5 * _HOUR,
        {RESULT: _result(HOSTILE), TRIAGE: _triage("decision"), CONTEXT: "user: use JWT"},
        Generation.TMP,
        is_inline=True,
        refires=2,
    ),
    Story(
        "gateway",
        SaveState.PARTIAL,
        26 * _HOUR,
        {
            RESULT: _result("Retries are capped"),
            PENDING: {
                "categories": ["runbook"],
                "reason": "partial_failure",
                "succeeded_categories": ["decision"],
                "errors": [_FAILED],
            },
        },
        Generation.CACHE,
    ),
    Story(
        "billing",
        SaveState.PENDING,
        30 * _HOUR,
        {PENDING: {"categories": ["all"], "reason": "total_failure"}},
        Generation.TMP_OF_USER,
    ),
    Story(
        "mailer",
        SaveState.ORPHANED,
        49 * _HOUR,
        {TRIAGE: _triage("decision", "runbook", "constraint"), CONTEXT: "user: never retry"},
        Generation.RUN_USER,
    ),
    Story(
        "search",
        SaveState.FAILED_UNKNOWN,
        50 * _HOUR,
        {PENDING: {"categories": [], "reason": "subagent_error"}, TRIAGE: _triage("decision")},
    ),
    Story("assets", SaveState.CORRUPT, 75 * _HOUR, {RESULT: _GARBAGE}, Generation.XDG_RUNTIME),
    Story(
        "router",
        SaveState.SAVING,
        timedelta(seconds=50),
        {TRIAGE: _triage("decision", "preference"), HANDLED: {"state": "saving", "pid": 1}},
        has_reply=False,
    ),
    Story("docs", SaveState.TRIAGED, timedelta(seconds=20), {TRIAGE: _triage("tech_debt")}),
    Story(
        "atlas",
        SaveState.SAVED,
        40 * _HOUR,
        {RESULT: _result("The worker owns the queue", categories=CATEGORIES[:3])},
        Generation.GLOBAL,
    ),
)


def make_saves(
    root: Path, work: Path, now: datetime, bases: Mapping[Generation, Path] | None = None
) -> tuple[DemoSave, ...]:
    """Write a session and the staged files of each story; return the truth about them.

    `root` is Claude Code's folder, `work` a folder for the projects. Staging folders outside of
    a project are made only below the `bases` that are given, else inside it.
    """
    rng = Random("saves")  # noqa: S311 - the same every time, not secret
    made = []
    for story in STORIES:
        project = work / story.name
        make_folder(project)
        _tell(story, root, project, now, rng)
        _stage(story, root, project, now, bases or {})
        made.append(DemoSave(project, story.state))
    return tuple(made)


def _stage(
    story: Story, root: Path, project: Path, now: datetime, bases: Mapping[Generation, Path]
) -> None:
    place = _place(story.generation, root, project, bases)
    at = now - story.saved_ago
    for number, (name, said) in enumerate(story.files.items()):
        content = said
        if name == RESULT and isinstance(content, dict):
            content = {"saved_at": stamp(at), "project": str(project)} | content
        text = content if isinstance(content, str) else json.dumps(content)
        make_folder(place)
        write_file(place / name, text.encode())
        # The result is written after what was staged for it.
        set_time(place / name, at if name in {RESULT, PENDING} else at - _LAST + number * _STEP)


_STEP: Final = timedelta(milliseconds=10)


def _place(
    generation: Generation, root: Path, project: Path, bases: Mapping[Generation, Path]
) -> Path:
    if generation is Generation.GLOBAL:
        return root
    if generation not in bases:
        return project / ".claude" / "memory" / ".staging"
    seed = os.path.realpath(project)
    if generation is not Generation.TMP:
        seed = f"{os.geteuid()}:{seed}"
    mark = hashlib.sha256(seed.encode()).hexdigest()[:12]
    return bases[generation] / f".claude-memory-staging-{mark}"


@dataclass
class _Teller:
    """Writes the session of one project, line by line."""

    chain: Chain
    tokens: int = 21_000
    calls: list[str] = field(default_factory=list)

    def user(self, content: str | list[Json], after: Json | None = None) -> None:
        self.chain.clock.advance()
        head = {"type": "user", "message": {"role": "user", "content": content}}
        self.chain.add(head, after)

    def answer(self, block: Json, grown: int) -> None:
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

    def call(self, name: str, asked: Json, output: str, grown: int) -> None:
        call_id = self.chain.ids.tool_use()
        self.answer({"type": "tool_use", "id": call_id, "name": name, "input": asked}, grown)
        block = {"type": "tool_result", "tool_use_id": call_id, "content": output}
        self.user([block], {"toolUseResult": {"stdout": output}})


def _tell(story: Story, root: Path, project: Path, now: datetime, rng: Random) -> None:
    ids = Ids(rng)
    origin = Origin(ids.uuid(), str(project), CURRENT, "cli", "main", "calm-saving-heron")
    end = now - story.saved_ago
    clock = Clock(end - timedelta(minutes=4), timedelta(seconds=4), end)
    sheet = Sheet(root / "projects" / slug(str(project)) / f"{origin.session_id}.jsonl")
    teller = _Teller(Chain(origin, ids, clock, sheet))
    teller.user(f"Tidy up {story.name} before the release.")
    teller.say("Done: the release notes are in CHANGELOG.md.", 600)
    names = [each["category"] for each in _triage("decision", "runbook")["categories"]]
    for _ in range(story.refires + 1):
        teller.user(_feedback(names, inline=story.is_inline), {"isMeta": True})
        (_save_loudly if story.is_inline else _save_quietly)(teller, story)
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
    path = f".claude/memory/.staging/{TRIAGE}"
    return "\n".join(
        [*lines, "", tag if inline else f"<triage_data_file>{path}</triage_data_file>"]
    )


def _save_quietly(teller: _Teller, story: Story) -> None:
    asked = {"subagent_type": "memory-drafter", "description": "Save memories", "prompt": "Save."}
    teller.call("Agent", asked, "Saved 2 memories.", 900)
    if story.state is SaveState.SAVED:
        teller.say("Saved: decision (create), runbook (update)", 300)


def _save_loudly(teller: _Teller, story: Story) -> None:
    for script in ("candidate", "draft", "write", "write", "enforce"):
        command = {"command": f"python3 memory_{script}.py --category decision"}
        teller.call("Bash", command, "\n".join(f"step {n}" for n in range(9)), 1_400)
    teller.say(f"All memories of {story.name} are saved.", 400)
