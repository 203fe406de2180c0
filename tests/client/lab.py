"""A lab: a config folder and a project of its own, the real client in them, and ctxtop's view."""

from __future__ import annotations

import json
import shlex
import time
import uuid
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.plugin import standby
from ctxtop.core.readers import fleet_reader
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import session_queries
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder
from ..usage import usage_of_sessions
from .screen import Screen

if TYPE_CHECKING:
    from ctxtop.core.model.agent import Agent
    from ctxtop.core.model.session import Session
    from ctxtop.core.model.stored_rows import CompactionRow, UsageRow

    from .namespace import Namespace

Json = dict[str, Any]

API_KEY: Final = "sk-ant-lab-0000000000000000000000000000"

SMALL: Final = "claude-haiku-4-5"
LARGE: Final = "claude-opus-5-5"

HOOKS: Final = (
    "SessionStart",
    "UserPromptSubmit",
    "PreCompact",
    "PostCompact",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
)

TURN_S: Final = 90.0
"""A headless turn takes one second or two; one that hangs is ended."""

_SHORT_LIVED: Final = {"BUN_GC_TIMER_DISABLE": "1", "BUN_JSC_useDFGJIT": "0"}
"""The client's runtime collects and compiles for a long life: a quarter of the processor time of a
run that lasts a second. It still collects when its heap has grown."""

# One write to a file opened to append: hooks run at the same time, and two writes would mix. Perl
# starts four times as fast as Python, and a turn runs several.
_APPEND: Final = r"""perl -0777 -ne 's/^\s+|\s+$//g; s/\n/ /g; syswrite STDOUT, "$_\n"' >>"""


@dataclass(frozen=True, slots=True)
class Turn:
    """One headless run of the client, and what the API was asked meanwhile."""

    session_id: str
    code: int
    said: Json
    """What `--output-format json` printed; empty where it printed something else."""
    out: str
    err: str
    exchanges: list[Json]


@dataclass(frozen=True, slots=True)
class View:
    """What ctxtop says of the folder after a scan."""

    sessions: dict[str, Session]
    agents: list[Agent]
    spent: dict[str, UsageRow]
    compactions: list[CompactionRow]
    bad_lines: list[tuple[str, int, int, str]]
    unknown_types: dict[str, int]
    troubles: list[str]


class Lab:
    """One config folder, one project folder, one store, and the client that works in them."""

    def __init__(self, root: Path, namespace: Namespace, client: Path) -> None:
        self.root: Final = root
        self.namespace: Final = namespace
        self.client: Final = client
        self.config: Final = root / "config"
        self.project: Final = root / "project"
        self.store: Final = root / "state" / "ctxtop.db"
        self.status_log: Final = root / "statusline.jsonl"
        self.agents_log: Final = root / "subagents.jsonl"
        self.hook_log: Final = root / "hooks.jsonl"
        self.go: Final = root / "go"
        """`[[held:GO&&&say:ok]]` is answered once this file is there; see `let_go`."""
        self.retries = 1
        """An error that is scripted does not go away: the client's ten tries take minutes."""
        self.variables: dict[str, str] = {}
        """What the client's environment has besides."""
        self.exchanges: Final[list[Json]] = []
        """All that the API was asked from this lab, as far as it was looked at."""
        self._seen = namespace.asked()
        self._screens: list[Screen] = []
        for folder in (root / "home", root / "tmp", self.config, self.project):
            folder.mkdir(parents=True)
        self.write_settings({})

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of the client: nothing of this machine's own is in it."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "LANG": "C.UTF-8",
            "CLAUDE_CONFIG_DIR": str(self.config),
            "ANTHROPIC_BASE_URL": self.namespace.url,
            "ANTHROPIC_API_KEY": API_KEY,
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_MAX_RETRIES": str(self.retries),
            **_SHORT_LIVED,
        } | self.variables

    def write_settings(self, more: Json) -> None:
        """Write settings.json: the logs of the status line and the hooks, and what is added."""
        hook = {"type": "command", "command": append_to(self.hook_log)}
        settings: Json = {
            "hooks": {name: [{"hooks": [hook]}] for name in HOOKS},
            "permissions": {"allow": ["Bash(*)", "Agent", "Read", "Write", "Edit"]},
            "statusLine": {"type": "command", "command": append_to(self.status_log)},
            "subagentStatusLine": {"type": "command", "command": append_to(self.agents_log)},
        }
        text = json.dumps(settings | more, indent=1)
        (self.config / "settings.json").write_text(text, encoding="utf-8")

    def define_agent(self, name: str, *, model: str | None = None, body: str = "") -> None:
        """Put an agent's definition into the config folder."""
        lines = ["---", f"name: {name}", f"description: the {name} agent"]
        lines += [f"model: {model}"] if model else []
        self._write(f"agents/{name}.md", "\n".join([*lines, "---", body or f"You are {name}."]))

    def define_skill(self, name: str, body: str) -> None:
        """Put a skill's definition into the config folder."""
        head = f"---\nname: {name}\ndescription: the {name} skill\n---\n"
        self._write(f"skills/{name}/SKILL.md", head + body)

    def turn(
        self,
        prompt: str,
        *,
        session: str | None = None,
        resume: str | None = None,
        model: str = SMALL,
        more: tuple[str, ...] = (),
    ) -> Turn:
        """Run the client without a screen for one prompt; a new session where none is named."""
        if resume:
            identity = ["--resume", resume]
        else:
            session = session or str(uuid.uuid4())
            identity = ["--session-id", session]
        ended = self.namespace.run(
            [
                str(self.client),
                "-p",
                prompt,
                *identity,
                "--output-format",
                "json",
                "--dangerously-skip-permissions",
                "--model",
                model,
                *more,
            ],
            self.project,
            self.env,
            TURN_S,
        )
        said = _json_of(ended.out)
        session_id = str(said.get("session_id") or resume or session)
        return Turn(session_id, ended.code, said, ended.out, ended.err, self.new_exchanges())

    def interactive(self, *args: str, model: str = SMALL, name: str = "lab") -> Screen:
        """Open the client in a terminal of its own; it is closed with the lab."""
        # Auto mode, the default, asks a server of the vendor's about every call.
        mode = ["--permission-mode", "default"]
        screen = Screen(self, [str(self.client), "--model", model, *mode, *args], name)
        self._screens.append(screen)
        return screen

    def new_exchanges(self) -> list[Json]:
        """List what the API was asked since this was last called."""
        found = self.namespace.exchanges(self._seen)
        self._seen += len(found)
        self.exchanges.extend(found)
        return found

    def refused(self) -> list[tuple[int, str]]:
        """List what the API refused to take: the request's number, and why."""
        return [(one["number"], why) for one in self.exchanges for why in one["refused"]]

    def statuses(self, session_id: str | None = None) -> list[Json]:
        """List what the status line was given, oldest first."""
        return _records(self.status_log, session_id)

    def agent_statuses(self) -> list[Json]:
        """List what the agents' status line was given, one an agent and run, oldest first."""
        return [task for record in _records(self.agents_log, None) for task in record["tasks"]]

    def hooks(self, event: str, session_id: str | None = None) -> list[Json]:
        """List what the hooks of one event were given, oldest first."""
        found = _records(self.hook_log, session_id)
        return [one for one in found if one["hook_event_name"] == event]

    def has_called(self, tool: str) -> bool:
        """Whether any transcript has a call of the tool: it is written after the client begins."""
        call = f'"type":"tool_use","name":"{tool}"'
        return any(call in path.read_text() for path in self.config.glob("projects/*/*.jsonl"))

    def transcript(self, session_id: str) -> list[Json]:
        """Read a session's lines as the client wrote them."""
        (path,) = self.config.glob(f"projects/*/{session_id}.jsonl")
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def debug(self, session_id: str) -> str:
        """Read what the client wrote of a session with `--debug`."""
        path = self.config / "debug" / f"{session_id}.txt"
        return path.read_text(encoding="utf-8", errors="replace")

    def ctxtop(self, store: Path | None = None, later_ms: int = 0) -> View:
        """Scan the config folder into the store, and say what ctxtop's screens would."""
        path = store or self.store
        recorder = Recorder()
        with closing(Writer(path)) as writer:
            Collector(ClaudeFolder(self.config.resolve()), writer, recorder).scan()
        with closing(open_reader(path)) as db:
            now_ms = time.time_ns() // 1_000_000 + later_ms
            sessions = fleet_reader.read_sessions(db, now_ms)
            return View(
                sessions={session.session_id: session for session in sessions},
                agents=fleet_reader.read_agents(db, sessions, now_ms),
                spent={row.session_id: row for row in usage_of_sessions(db)},
                compactions=session_queries.compactions(db),
                bad_lines=session_queries.bad_lines(db),
                unknown_types=session_queries.unknown_types(db),
                troubles=[str(trouble) for trouble in recorder.troubles],
            )

    def let_go(self) -> None:
        """Let the API give the answers that wait for `go`, and a tool end that waits for it."""
        self.go.touch()

    def close(self) -> None:
        """End what is still open."""
        self.let_go()
        for screen in self._screens:
            screen.close()
        Path(standby.socket_path(str(self.store))).unlink(missing_ok=True)

    def _write(self, relative: str, text: str) -> None:
        path = self.config / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")


def append_to(path: Path) -> str:
    """Return the command that appends what stands on stdin to a file, as one line."""
    return f"{_APPEND} {shlex.quote(str(path))}"


def _json_of(text: str) -> Json:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _records(path: Path, session_id: str | None) -> list[Json]:
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [one for one in found if session_id is None or one["session_id"] == session_id]
