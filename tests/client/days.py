"""Sessions of the real client in which every strategy finds something, each of another shape."""

from __future__ import annotations

import shlex
import sys
import uuid
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from .acts import SIDE_BY_SIDE, TOOLS, delegated, failing, sentences, source, taken_up
from .edits import compacted, edited, spoken
from .lab import LARGE, SMALL
from .talks import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from .lab import Lab

Json = dict[str, Any]

SLOWLY: Final = "pause:0.03&&&"
"""A result may be there before the next call, or not."""

LONG: Final = 9_000
"""Characters of what an older client wrote into a line that no request holds."""

_HOOK: Final = f"""\
import json, sys
given = json.load(sys.stdin)
said = {{"hookEventName": given["hook_event_name"], "additionalContext": {sentences(1)!r}}}
print(json.dumps({{"hookSpecificOutput": said}}))
"""


def one_by_one(steps: Iterable[list[str]]) -> list[str]:
    """Arrange the steps so that each answer makes one call."""
    return [step for each in steps for step in each]


def side_by_side(steps: Iterable[list[str]]) -> list[str]:
    """Arrange the steps so that each answer makes the next call of every act in parallel."""
    return ["&&&".join(filter(None, each)) for each in zip_longest(*steps)]


@dataclass
class Worker:
    """A model that works on a session of its own."""

    lab: Lab
    model: str = SMALL
    arrange: Callable[[Iterable[list[str]]], list[str]] = one_by_one
    thinks: bool = False
    pace: str = ""
    """Part of each answer's script: how fast it streams."""
    session_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    begun: bool = False

    @property
    def path(self) -> Path:
        """The transcript."""
        return path_of(self.lab, self.session_id)

    def says(self, prompt: str) -> None:
        """Run a prompt, starting the session if needed, and check that nothing was refused."""
        named = {"resume": self.session_id} if self.begun else {"session": self.session_id}
        turn = self.lab.turn(prompt, model=self.model, more=TOOLS, **named)
        assert turn.code == 0, turn.out
        assert [one["refused"] for one in turn.exchanges if one["refused"]] == []
        self.begun = True

    def does(self, what: str, answers: Iterable[str]) -> None:
        """Run a prompt that makes the model give these scripted answers."""
        begins = self.pace + (f"think:{what} it is.&&&" if self.thinks else "")
        self.says(f"{what}. {' '.join(f'[[{begins}{each}]]' for each in answers)} [[say:ok]]")

    def works(self, number: int) -> None:
        """Do everything that a strategy looks for, but for what older clients wrote."""
        at = self.lab.project
        self.does(f"Begin {number}", failing(at, number))
        self.does(f"Work {number}", self.arrange(act(at, number) for act in SIDE_BY_SIDE))
        self._hooked(number)
        self.does(f"Delegate {number}", delegated(at, number))
        mentioned = at / f"mentioned_{number}.py"
        mentioned.write_text(source(number + 5_000, 60), encoding="utf-8")
        self.does(f"Look at @{mentioned.name}", taken_up(number))
        self.says("/context")

    def ends(self) -> None:
        """Come to an end: what is newest stays."""
        self.does("Last", ["bash:seq 1 60"])

    def changes(self, edit: Callable[[list[Json]], list[Json]]) -> None:
        """Edit the transcript, which no client has open."""
        self.path.write_text(edited(self.path, edit), encoding="utf-8")

    def _hooked(self, number: int) -> None:
        """Make several calls while a hook adds the same context to each."""
        script = self.lab.root / "context.py"
        script.write_text(_HOOK, encoding="utf-8")
        command = shlex.join([sys.executable, "-I", str(script)])
        one = {"matcher": "*", "hooks": [{"type": "command", "command": command}]}
        self.lab.write_settings({"hooks": {"PostToolUse": [one]}})
        self.does(f"Hooked {number}", [f"bash:seq {place} 9" for place in range(3)])
        self.lab.write_settings({})


def aged(lines: list[Json]) -> list[Json]:
    """Put in what clients before this one wrote beside the conversation."""
    number, call = next(
        (number, line)
        for number, line in enumerate(lines)
        if line["type"] == "user" and isinstance(line["message"]["content"], list)
    )
    shared = {name: call[name] for name in ("timestamp", "sessionId", "cwd", "version")}
    progress = shared | {
        "type": "progress",
        "uuid": str(uuid.uuid4()),
        "parentUuid": call["parentUuid"],
        "isSidechain": False,
        "data": {"type": "bash_progress", "output": "x" * 80, "fullOutput": "made\n" * LONG},
    }
    call["parentUuid"] = progress["uuid"]
    files = {f"src/{place}.py": {"contentHash": "0" * 64} for place in range(9)}
    attribution = {
        "type": "attribution-snapshot",
        "messageId": str(uuid.uuid4()),
        "surface": "cli",
        "fileStates": files | {"src/all.py": {"content": "y = 1\n" * LONG}},
    }
    message_id = str(uuid.uuid4())
    backups = {"a.py": {"backupFileName": None, "version": 1, "content": "z = 1\n" * LONG}}
    snapshot = {"messageId": message_id, "trackedFileBackups": backups}
    history = {
        "type": "file-history-snapshot",
        "messageId": message_id,
        "snapshot": snapshot | {"timestamp": call["timestamp"]},
        "isSnapshotUpdate": False,
    }
    return [*lines[:number], progress, call, attribution, history, *lines[number + 1 :]]


def reminded(lines: list[Json]) -> list[Json]:
    """Put in two old reminders of the todos before the last prompt."""
    number, prompt = [
        (number, line)
        for number, line in enumerate(lines)
        if line["type"] == "user" and isinstance(line["message"]["content"], str)
    ][-1]
    shared = {name: prompt[name] for name in ("timestamp", "sessionId", "cwd", "version")}
    reminders: list[Json] = []
    for place in range(2):
        text = f"<system-reminder>\n{sentences(place)}\n</system-reminder>"
        reminder = shared | {
            "type": "attachment",
            "uuid": str(uuid.uuid4()),
            "parentUuid": prompt["parentUuid"],
            "isSidechain": False,
            "attachment": {"type": "todo_reminder", "content": [], "itemCount": 0},
            "rendered": [{"content": text}],
        }
        prompt["parentUuid"] = reminder["uuid"]
        reminders.append(reminder)
    return [*lines[:number], *reminders, *lines[number:]]


def _alone(lab: Lab) -> str:
    worker = Worker(lab)
    worker.works(1)
    worker.changes(lambda lines: reminded(aged(lines)))
    worker.ends()
    return worker.session_id


def _together(lab: Lab) -> str:
    worker = Worker(lab, LARGE, side_by_side, thinks=True, pace=SLOWLY)
    worker.works(2)
    worker.changes(lambda lines: reminded(aged(lines)))
    worker.ends()
    return worker.session_id


def _thoughtful(lab: Lab) -> str:
    worker = Worker(lab, LARGE, thinks=True)
    worker.works(3)
    worker.changes(lambda lines: reminded(aged(lines)))
    worker.ends()
    return worker.session_id


def _compacted(lab: Lab) -> str:
    """The client made a summary, and everything was done again."""
    worker = Worker(lab, SMALL, side_by_side, thinks=True, pace=SLOWLY)
    worker.works(4)
    worker.says("/compact keep")
    worker.works(5)
    worker.changes(lambda lines: reminded(aged(lines)))
    worker.ends()
    return worker.session_id


def _kept(lab: Lab) -> str:
    """A boundary keeps a tail, and everything was done again."""
    worker = Worker(lab, LARGE, side_by_side, thinks=True)
    worker.works(6)
    worker.changes(lambda lines: compacted(reminded(aged(lines)), spoken(lines)[-2:]))
    worker.works(7)
    worker.ends()
    return worker.session_id


def _compacted_twice(lab: Lab) -> str:
    worker = Worker(lab)
    worker.works(8)
    worker.says("/compact keep")
    worker.does("Go on", ["bash:seq 1 2000"])
    worker.says("/compact again")
    worker.works(9)
    worker.changes(lambda lines: reminded(aged(lines)))
    worker.ends()
    return worker.session_id


DAYS: Final[dict[str, Callable[[Lab], str]]] = {
    "alone": _alone,
    "side by side": _together,
    "with thoughts": _thoughtful,
    "compacted": _compacted,
    "kept tail": _kept,
    "compacted twice": _compacted_twice,
}
